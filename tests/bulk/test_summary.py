"""What is told of each repository while many are migrated."""

from __future__ import annotations

import pytest

from ampify.bulk.sources import Source
from ampify.bulk.state import State, Status
from ampify.bulk.summary import line_of


@pytest.mark.parametrize(
    ("status", "loops", "said"),
    [
        ("migrated", {"migrated": 1, "right": 0, "refused": 2}, "1 training loop migrated, 2 training loops refused"),
        ("unchanged", {"right": 1_200}, "1,200 training loops right"),
        ("unchanged", {}, "no training loop"),
    ],
)
def test_a_repository_is_told_by_its_loops(status: Status, loops: dict[str, int], said: str) -> None:
    source = Source("https://example.org/speech")
    state = State(source.shown, source.digest, "", "", status, counts={"loops": loops})
    assert line_of(state) == f"{status}: {said}"
