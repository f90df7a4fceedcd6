"""What the index says of a case is true when its script runs, and what is made of it trains as the original does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampify.index import build_project
from ampify.model.settings import Settings
from ampify.pipeline.settling import settle
from tests.index.annotated import Case, all_cases

if not hasattr(os, "fork"):
    pytest.skip("scripts run in forks of this process", allow_module_level=True)

from tests.index.rehearsal import rehearse

CASES = {case.name: case for case in all_cases() if case.runs}


def migrated(case: Case) -> tuple[dict[str, str], set[tuple[str, int]]]:
    """A case's new texts, and the lines of backward passes that are said to take no part in training."""
    sources = {source.path: source for source in case.sources}
    settled = settle(build_project(case.sources, Settings()), sources, Settings())
    idle = {
        (entry.site.anchor.path, entry.site.anchor.line)
        for entry in settled.plan.ledger
        if entry.site.kind == "backward" and entry.state == "not_training"
    }
    return {path: settled.texts.get(path, source.text) for path, source in sources.items()}, idle


@pytest.mark.parametrize("name", CASES)
def test_the_migrated_script_trains_as_the_original_does(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    texts, idle = migrated(case)
    original = {source.path: source.text for source in case.sources}
    before, after = rehearse(original, texts, case.script, tmp_path)
    assert before.failure == ""
    assert idle.isdisjoint(before.consumed)
    assert after.failure == ""
    assert after.wrong == ()
    assert after.printed == before.printed
