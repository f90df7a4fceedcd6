"""All kernels in a build that ends the process at a misaligned access, an overflow of integers or another undefined thing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from ampify_runtime.kernels import operations

from tests.kernels import test_layers
from tests.kernels.emulation import SANITIZED, emulated
from tests.kernels.forking import CAN_FORK, status_of
from tests.kernels.memory import Guarded, random_tensors
from tests.kernels.test_layers import FLOAT, HALF
from tests.kernels.test_updates import SHIFTS, STEPS, _train
from tests.kernels.updates import TYPES, UPDATES, Update

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="the sanitizer ends the process, so that one is forked")


def _updates(folder: Path, update: Update) -> int:
    sanitized = emulated(folder, flags=SANITIZED)
    with sanitized.in_place():
        for shifts in SHIFTS.values():
            _train(update, update.modes[0], TYPES[0], sizes=(0, 40, 300, 2049), shifts=shifts, steps=STEPS[2:3])
    return len(sanitized.engine.failures)


def _rest(folder: Path) -> int:
    sanitized = emulated(folder, flags=SANITIZED)
    with sanitized.in_place():
        for shift in (0, 1):
            tensors = Guarded().tensors(random_tensors((0, 5, 2049, 16389), 1), HALF, shift)
            outputs = [torch.empty(tensor.shape) for tensor in tensors]
            operations.l2norm(tensors)
            operations.max_norms(tensors)
            operations.scale(tensors, outputs, 0.5, torch.zeros(1))
            operations.axpby(tensors, outputs, outputs, 0.5, 2.0)
        for shape in ((5, 7), (3, 264)):
            test_layers.test_layer_norm(shape, (HALF, FLOAT, FLOAT), "both")
            test_layers.test_rms_norm(shape, (HALF, FLOAT, FLOAT), True)
    return len(sanitized.engine.failures)


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: f"{update.name}{update.states}")
def test_updates(update: Update, build_folder: Path) -> None:
    assert status_of(partial(_updates, build_folder, update)) == 0


def test_the_other_kernels(build_folder: Path) -> None:
    assert status_of(partial(_rest, build_folder)) == 0
