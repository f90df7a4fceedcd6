"""The index finds in every case just what the comments there say."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ampify.index import build_project
from ampify.index.flow import Flow
from ampify.model.project import Project
from ampify.model.settings import Settings
from tests.index.annotated import Case, Mark, all_cases
from tests.index.findings import marks_of
from tests.index.origins import origins

CASES = {case.name: case for case in all_cases()}


def analysed(case: Case) -> Project:
    return build_project(case.sources, Settings())


def lines(marks: Iterable[Mark]) -> str:
    """Marks as text, so that a failure shows both sides as a diff of lines."""
    return "\n".join(f"{m.path}:{m.line}: {m.text}" for m in marks)


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_what_the_code_says(name: str) -> None:
    case = CASES[name]
    expected = [mark for mark in case.marks if not mark.flows]
    assert lines(marks_of(analysed(case))) == lines(expected)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if any(m.flows for m in case.marks)])
def test_what_expressions_evaluate_to_is_what_the_code_says(name: str) -> None:
    case = CASES[name]
    flow = Flow(analysed(case).files)
    flow.solve()
    expected = [mark for mark in case.marks if mark.flows]
    found = [
        Mark(m.path, m.line, f"{e} <- {', '.join(origins(flow, m.path, m.line, e))}")
        for m in expected
        for e in [m.text.partition(" <- ")[0]]
    ]
    assert lines(found) == lines(expected)
