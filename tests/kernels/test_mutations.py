"""Planted bugs, each of which the other tests' checks must catch: else those would prove nothing."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from tests.kernels.mutations import MUTATIONS, Mutation, notices

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(),
    reason="a bug may take its process along, so that one is forked",
)


_UNNOTICED, _NOT_COMPILED = 0, 3


def _try(folder: Path, mutation: Mutation) -> None:
    """Exit with what became of the bug; any other status is the bug's own doing."""
    faulthandler.disable()
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    try:
        noticed = notices(folder, mutation, planted=True)
    except ValueError:
        os._exit(_NOT_COMPILED)
    os._exit(1 if noticed else _UNNOTICED)


@pytest.mark.parametrize("check", sorted({each.check.__name__ for each in MUTATIONS}))
def test_without_a_bug_nothing_is_noticed(check: str, build_folder: Path) -> None:
    mutation = next(each for each in MUTATIONS if each.check.__name__ == check)
    assert not notices(build_folder, mutation, planted=False)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_bug_is_noticed(mutation: Mutation, build_folder: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_try, args=(build_folder, mutation))
    process.start()
    process.join(300)
    assert process.exitcode is not None, "the check did not end"
    assert process.exitcode not in (_UNNOTICED, _NOT_COMPILED), mutation.name
