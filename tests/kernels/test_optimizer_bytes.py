"""The byte budgets: those that the sources' lists give are those that are promised."""

from __future__ import annotations

import re

import pytest
from ampify_runtime.kernels import operations
from optimizer_bytes import STEPS, bytes_of, bytes_of_step, declared_lists, table

PROMISED = {"Adam, AdamW": 30, "SGD, momentum": 22, "Adagrad": 22, "NovoGrad": 22, "LAMB": 42}
FUNCTIONS = {
    "Adam, AdamW": "adam",
    "SGD, momentum": "sgd",
    "Adagrad": "adagrad",
    "NovoGrad": "novograd",
    "LAMB": "lamb",
}


@pytest.mark.parametrize("optimizer", STEPS)
def test_budget(optimizer: str) -> None:
    assert bytes_of_step(optimizer) == PROMISED[optimizer]
    documented = re.search(r"Budget: (\d+) bytes", getattr(operations, FUNCTIONS[optimizer]).__doc__ or "")
    assert documented is not None
    assert int(documented[1]) == PROMISED[optimizer]


def test_without_momentum_or_model() -> None:
    sizes = {"GRAD": 2, "PARAM": 4, "STATE": 0, "MODEL": 2}
    assert sum(bytes_of("sgd", sizes)) + 2 == 14
    assert bytes_of("adam", {"GRAD": 4, "PARAM": 4, "STATE": 4, "MODEL": 0}) == (16, 12)


def test_every_kernel_of_a_step_is_counted() -> None:
    assert {kernel for kernels in STEPS.values() for kernel in kernels} <= set(declared_lists())
    assert table().count("\n") == len(STEPS) + 1
