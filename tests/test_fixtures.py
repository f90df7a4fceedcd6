"""Whole scripts and small repositories: ampify gives the migration that was written by hand, and that one trains."""

from __future__ import annotations

import ast
import difflib
import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.fixture_run.case import Case, all_cases
from tests.fixture_run.command import Answer, ampify
from tests.fixture_run.training import Losses, Runner
from tests.fixture_run.tree import Tree, copy_tree, read_tree

CASES = all_cases()
MIGRATED = [case for case in CASES if case.expect == "migrated"]
RUNNABLE = [case for case in CASES if case.training]
TRAINED = [case for case in MIGRATED if case.training]
WITH_OLD_CHECKPOINT = [case for case in TRAINED if case.training and case.training.old_checkpoint]
SEVERAL_FILES = [case for case in CASES if len(list(case.before.rglob("*.py"))) > 1]

# Findings that forbid a migration; a case that does not expect one must not get one.
REFUSING = {"AMP203", "AMP204", "AMP205", "AMP206", "AMP207", "AMP208"}
REFUSING_FAMILIES = ("AMP0", "AMP5", "AMP6", "AMP9")
# Kinds of sites whose every member a case lists; other kinds may be reported beyond what is listed.
COMPLETE_KINDS = {"backward"}
# Edits that belong to no site of the ledger.
SET_UP = (b"import amp", b"amp.initialize(", b"amp.float_function(")
UPDATE = bool(os.environ.get("UPDATE_SNAPSHOTS"))


def each(cases: list[Case] | tuple[Case, ...]) -> pytest.MarkDecorator:
    """Runs a test for each case; the tests of one case go to one worker, which keeps what was run for it."""
    marked = [pytest.param(case, id=case.name, marks=pytest.mark.xdist_group(case.name)) for case in cases]
    return pytest.mark.parametrize("case", marked)


@dataclass(frozen=True, slots=True)
class Migration:
    """A dry run, a run with --write and a second one, with the tree after each."""

    dry: Answer
    after_dry: Tree
    written: Answer
    tree: Tree
    again: Answer
    after_again: Tree


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fixtures")


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@cache
def migration_of(case: Case, workplace: Path) -> Migration:
    folder = copy_tree(case.before, workplace / case.name / "migrated")
    dry = ampify(folder, *case.flags)
    after_dry = read_tree(folder)
    written = ampify(folder, "--write", *case.flags)
    tree = read_tree(folder)
    again = ampify(folder, "--write", *case.flags)
    return Migration(dry, after_dry, written, tree, again, read_tree(folder))


@pytest.fixture
def migration(case: Case, workplace: Path) -> Migration:
    return migration_of(case, workplace)


@cache
def losses_of_original(case: Case, runner: Runner, workplace: Path) -> Losses:
    assert case.training is not None
    folder = copy_tree(case.before, workplace / case.name / "original")
    return runner.losses(case.training, folder)


@pytest.fixture
def original(case: Case, runner: Runner, workplace: Path) -> Losses:
    return losses_of_original(case, runner, workplace)


# What a case says of itself


@each(CASES)
def test_case_says_what_is_there(case: Case) -> None:
    before = read_tree(case.before)
    assert (case.after != case.before) == (case.expect == "migrated")
    assert before.keys() == read_tree(case.after).keys()
    for place in (*(finding.place for finding in case.findings), *(site.place for site in case.sites)):
        lines = before[place.path].splitlines()
        assert all(lines[line - 1].strip() for line in place.lines), place
    if case.expect == "refused":
        assert case.findings


@each(MIGRATED)
def test_hand_written_edits_are_explained_by_the_ledger(case: Case) -> None:
    edits = list(edits_between(read_tree(case.before), read_tree(case.after)))
    rewritten = [site.place for site in case.sites if site.state == "rewritten"]
    for path, line, text in edits:
        explained = any(place.meets(path, line) for place in rewritten) or any(mark in text for mark in SET_UP)
        assert explained, f"{path}:{line} is edited and nothing says so: {text!r}"
    for place in rewritten:
        assert any(place.meets(path, line) for path, line, _ in edits), f"{place} is said to be rewritten and is not"


def edits_between(before: Tree, after: Tree) -> Iterator[tuple[str, int, bytes]]:
    """Each line of `before` that goes or is followed by new ones: its path, its number, and the new text there."""
    for path, old in before.items():
        old_lines, new_lines = old.splitlines(keepends=True), after[path].splitlines(keepends=True)
        matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        for tag, start, end, new_start, new_end in matcher.get_opcodes():
            if tag != "equal":
                lines = range(start + 1, end + 1) if end > start else (start,)
                yield from ((path, line, b"".join(new_lines[new_start:new_end])) for line in lines)


# The command line


@each(CASES)
def test_dry_run_writes_nothing(case: Case, migration: Migration) -> None:
    assert migration.after_dry == read_tree(case.before)
    assert migration.dry.status == case.exit_status, migration.dry.stderr
    assert migration.dry.paths("changed") == migration.written.paths("changed")


@each(CASES)
def test_write_gives_what_was_written_by_hand(case: Case, migration: Migration) -> None:
    expected = read_tree(case.after)
    assert migration.tree.keys() == expected.keys()
    for path, content in expected.items():
        assert migration.tree[path] == content, difference(content, migration.tree[path], path)


@each(CASES)
def test_exit_status_tells_what_is_left(case: Case, migration: Migration) -> None:
    assert migration.written.status == case.exit_status, migration.written.stderr


@each(CASES)
def test_changed_files_are_reported(case: Case, migration: Migration) -> None:
    before = read_tree(case.before)
    changed = {path for path, content in read_tree(case.after).items() if content != before[path]}
    assert {short(path) for path in migration.written.paths("changed")} == changed


@each(CASES)
def test_second_run_changes_nothing(case: Case, migration: Migration) -> None:
    assert migration.after_again == migration.tree
    assert migration.again.paths("changed") == ()
    assert migration.again.status == case.exit_status, migration.again.stderr


@each(CASES)
def test_findings_are_those_expected(case: Case, migration: Migration) -> None:
    found = [(short(row["path"]), row["line"], row["code"]) for row in migration.written.report["findings"]]
    for expected in case.findings:
        hits = [line for path, line, code in found if code == expected.code and expected.place.meets(path, line)]
        assert hits, f"{expected} is not among {found}"
    allowed = {expected.code for expected in case.findings}
    unexpected = [row for row in found if row[2] not in allowed and refuses(row[2])]
    assert unexpected == []


@each(CASES)
def test_ledger_is_as_expected(case: Case, migration: Migration) -> None:
    ledger = [(short(row["path"]), row["line"], row["kind"], row["state"]) for row in migration.written.report["sites"]]
    unmet = list(ledger)
    for expected in case.sites:
        hits = [row for row in unmet if row[2:] == (expected.kind, expected.state) and expected.place.meets(*row[:2])]
        assert hits, f"{expected} is not in the ledger:\n{table(ledger)}"
        unmet.remove(hits[0])
    beyond = [row for row in unmet if row[2] in COMPLETE_KINDS or row[3] == "rewritten"]
    assert beyond == [], "not listed in case.toml"


@each(CASES)
def test_result_compiles(case: Case, migration: Migration) -> None:
    for path, content in migration.tree.items():
        if path.endswith(".py") and compiles(read_tree(case.before)[path]):
            assert compiles(content), path


@each(SEVERAL_FILES)
def test_number_of_jobs_does_not_matter(case: Case, migration: Migration, workplace: Path) -> None:
    answers = []
    for jobs in ("1", "2"):
        folder = copy_tree(case.before, workplace / case.name / f"jobs-{jobs}")
        answers.append((ampify(folder, "--write", "-j", jobs, *case.flags), read_tree(folder)))
    (one, tree_of_one), (two, tree_of_two) = answers
    assert tree_of_one == tree_of_two == migration.tree
    assert one.report == two.report


@each([case for case in CASES if UPDATE or case.report.exists()])
def test_report_is_the_approved_one(case: Case, migration: Migration) -> None:
    text = json.dumps(migration.written.report, indent=2, ensure_ascii=False) + "\n"
    if UPDATE:
        case.report.write_text(text, encoding="utf-8", newline="\n")
    assert text == case.report.read_text(encoding="utf-8")


# Training


@each(RUNNABLE)
def test_original_runs(case: Case, original: Losses) -> None:
    assert original.values
    assert all(map(math.isfinite, original.values))
    if case.expect == "migrated":
        assert len(set(original.printed)) > 1


@each(TRAINED)
def test_disabled_migration_is_bit_identical(case: Case, original: Losses, runner: Runner, workplace: Path) -> None:
    assert case.training is not None
    folder = copy_tree(case.after, workplace / case.name / "at-O0")
    assert runner.losses(case.training, folder, AMPIFY_OPT_LEVEL="O0") == original


@each(TRAINED)
def test_bfloat16_follows_the_original(case: Case, original: Losses, runner: Runner, workplace: Path) -> None:
    assert case.training is not None
    folder = copy_tree(case.after, workplace / case.name / "bfloat16")
    reduced = runner.losses(case.training, folder, AMPIFY_DTYPE="bfloat16")
    assert follows(reduced, original, case.training.tolerance), (original.values, reduced.values)
    # Were all of them equal, nothing would have been computed in bfloat16.
    assert reduced != original


@each(WITH_OLD_CHECKPOINT)
def test_checkpoint_without_amp_is_resumed(case: Case, runner: Runner, workplace: Path) -> None:
    training = case.training
    assert training is not None
    old = copy_tree(case.before, workplace / case.name / "old")
    new = copy_tree(case.after, workplace / case.name / "resumed")
    runner.losses(training, old, slice(0, -1))
    (new / training.old_checkpoint).parent.mkdir(exist_ok=True)
    shutil.copy(old / training.old_checkpoint, new / training.old_checkpoint)
    expected = runner.losses(training, old, slice(-1, None))
    assert runner.losses(training, new, slice(-1, None), AMPIFY_OPT_LEVEL="O0") == expected
    shutil.copy(old / training.old_checkpoint, new / training.old_checkpoint)
    assert follows(runner.losses(training, new, slice(-1, None), AMPIFY_DTYPE="bfloat16"), expected, training.tolerance)


def follows(reduced: Losses, original: Losses, tolerance: float) -> bool:
    """Whether each loss is within `tolerance` of the original's, relative to the larger of 1 and that loss."""
    pairs = zip(reduced.values, original.values, strict=True)
    return all(abs(new - old) <= tolerance * max(1.0, abs(old)) for new, old in pairs)


def refuses(code: str) -> bool:
    return code in REFUSING or code.startswith(REFUSING_FAMILIES)


def compiles(content: bytes) -> bool:
    try:
        ast.parse(content)
    except SyntaxError:
        return False
    return True


def short(path: str) -> str:
    return path.removeprefix("./")


def table(rows: list[tuple[str, int, str, str]]) -> str:
    return "\n".join(f"{path}:{line} {kind} {state}" for path, line, kind, state in rows)


def difference(expected: bytes, actual: bytes, path: str) -> str:
    """The unified diff from the hand-written file to the one ampify wrote, with its invisible bytes shown."""
    old, new = ([repr(line)[2:-1] for line in content.splitlines(keepends=True)] for content in (expected, actual))
    return "\n".join(("", *difflib.unified_diff(old, new, f"by hand/{path}", f"by ampify/{path}", lineterm="")))
