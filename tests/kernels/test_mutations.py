"""Planted bugs, each of which the other tests' checks must catch: else those would prove nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.kernels.forking import CAN_FORK, status_of
from tests.kernels.mutations import MUTATIONS, Mutation, notices

_UNNOTICED, _NOTICED, _NOT_COMPILED = 0, 1, 3


def _try(folder: Path, mutation: Mutation) -> int:
    try:
        return _NOTICED if notices(folder, mutation, planted=True) else _UNNOTICED
    except ValueError:
        return _NOT_COMPILED


@pytest.mark.parametrize("check", sorted({each.check.__name__ for each in MUTATIONS}))
def test_without_a_bug_nothing_is_noticed(check: str, build_folder: Path) -> None:
    mutation = next(each for each in MUTATIONS if each.check.__name__ == check)
    assert not notices(build_folder, mutation, planted=False)


@pytest.mark.skipif(not CAN_FORK, reason="a bug may take its process along, so that one is forked")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_bug_is_noticed(mutation: Mutation, build_folder: Path) -> None:
    status = status_of(partial(_try, build_folder, mutation))
    assert status is not None, "the check did not end"
    assert status not in (_UNNOTICED, _NOT_COMPILED), mutation.name
