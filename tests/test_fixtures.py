"""Whole scripts and small repositories: ampify gives the migration that was written by hand, and that one trains.

Each case has three tests, and each test makes all its checks before it fails: what a check needs is run once.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tests.fixture_run.case import Case, Training, all_cases
from tests.fixture_run.command import Answer, ampify
from tests.fixture_run.training import Losses, Runner
from tests.fixture_run.tree import Tree, copy_tree, read_tree
from tests.processor import RECURRENT, needs_cast_lstms

CASES = {case.name: case for case in all_cases()}
RUNNABLE = [name for name, case in CASES.items() if case.training]

# Findings that forbid a migration; a case that does not expect one must not get one.
REFUSING = {"AMP203", "AMP204", "AMP205", "AMP206", "AMP207", "AMP208"}
REFUSING_FAMILIES = ("AMP0", "AMP5", "AMP6", "AMP9")
# Kinds of sites whose every member a case lists; other kinds may be reported beyond what is listed.
COMPLETE_KINDS = {"backward"}
# Edits that belong to no site of the ledger.
SET_UP = (
    b"import amp",
    b"amp.initialize(",
    b"amp.float_function",
    b"import ampify_runtime",
    b"from ampify_runtime",
    b"ampify_runtime.parallel.",
    b"install ampify",
    b"ampify>=",
    b"torch.amp import",
    b'("cuda"',
    b"import nullcontext",
    b"non_blocking=",
    b".item()",
)
UPDATE = bool(os.environ.get("UPDATE_SNAPSHOTS"))

Evidence = TypeVar("Evidence")


@dataclass(frozen=True, slots=True)
class Migration:
    """A dry run, a run with --write and a second one, with the tree after each."""

    dry: Answer
    after_dry: Tree
    written: Answer
    tree: Tree
    again: Answer
    after_again: Tree


@dataclass(frozen=True, slots=True)
class Trained:
    """The losses of the original, of the migration by hand when disabled, and of it in bfloat16."""

    original: Losses
    disabled: Losses
    reduced: Losses


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.mark.parametrize("name", CASES)
def test_case_is_consistent(name: str) -> None:
    case = CASES[name]
    make_checks(case, case, (check_place_holds_something, check_expectation_fits, check_edits_are_explained))


@pytest.mark.parametrize("name", CASES)
def test_command_line(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    migration = migrate(case, tmp_path)
    checks = (
        check_tree_is_the_one_written_by_hand,
        check_dry_run_writes_nothing,
        check_exit_status,
        check_changed_files,
        check_second_run_changes_nothing,
        check_findings,
        check_ledger,
        check_result_compiles,
    )
    make_checks(case, migration, checks)
    check_jobs_do_not_matter(case, migration, tmp_path)
    if UPDATE or case.report.exists():
        check_report_is_approved(case, migration)


@pytest.mark.parametrize("name", RUNNABLE)
def test_training(name: str, tmp_path: Path, runner: Runner) -> None:
    case = CASES[name]
    assert case.training is not None
    original = runner.losses(case.training, copy_tree(case.before, tmp_path / "original"))
    assert original.values
    assert all(map(math.isfinite, original.values))
    if case.expect != "migrated":
        return
    disabled = runner.losses(case.training, copy_tree(case.after, tmp_path / "O0"), AMPIFY_OPT_LEVEL="O0")
    if name in RECURRENT:
        assert disabled == original
        needs_cast_lstms()
    reduced = runner.losses(case.training, copy_tree(case.after, tmp_path / "bfloat16"), AMPIFY_DTYPE="bfloat16")
    checks = (check_losses_move, check_disabled_is_bit_identical, check_bfloat16_follows, check_bfloat16_is_in_use)
    make_checks(case, Trained(original, disabled, reduced), checks)
    if case.training.old_checkpoint:
        check_old_checkpoint_is_resumed(case, case.training, runner, tmp_path)


def make_checks(case: Case, evidence: Evidence, checks: tuple[Callable[[Case, Evidence], None], ...]) -> None:
    """Makes all checks, then fails with everything that they found."""
    failures = [failure for check in checks if (failure := failure_of(check, case, evidence))]
    assert not failures, "\n\n".join((f"{case.name}: {case.title}", *failures))


def failure_of(check: Callable[[Case, Evidence], None], case: Case, evidence: Evidence) -> str:
    try:
        check(case, evidence)
    except AssertionError as failure:
        return f"{check.__name__}: {failure}"
    return ""


# What a case says of itself


def check_place_holds_something(case: Case, _: Case) -> None:
    before = read_tree(case.before)
    for place in (*(finding.place for finding in case.findings), *(site.place for site in case.sites)):
        lines = before[place.path].splitlines()
        assert all(lines[line - 1].strip() for line in place.lines), place


def check_expectation_fits(case: Case, _: Case) -> None:
    assert (case.after != case.before) == (case.expect == "migrated")
    assert read_tree(case.before).keys() == read_tree(case.after).keys()
    assert case.findings or case.expect != "refused"


def check_edits_are_explained(case: Case, _: Case) -> None:
    edits = list(edits_between(read_tree(case.before), read_tree(case.after)))
    rewritten = [site.place for site in case.sites if site.state == "rewritten"]
    for path, line, text in edits:
        explained = any(place.meets(path, line) for place in rewritten) or any(mark in text for mark in SET_UP)
        assert explained, f"{path}:{line} is edited and nothing says so: {text!r}"
    for place in rewritten:
        assert any(place.meets(path, line) for path, line, _ in edits), f"{place} is said to be rewritten and is not"


# The command line


def migrate(case: Case, workplace: Path) -> Migration:
    folder = copy_tree(case.before, workplace / "migrated")
    dry = ampify(folder, *case.flags)
    after_dry = read_tree(folder)
    written = ampify(folder, "--write", *case.flags)
    tree = read_tree(folder)
    again = ampify(folder, "--write", *case.flags)
    return Migration(dry, after_dry, written, tree, again, read_tree(folder))


def check_tree_is_the_one_written_by_hand(case: Case, migration: Migration) -> None:
    expected = read_tree(case.after)
    assert migration.tree.keys() == expected.keys()
    differences = "".join(difference(expected[path], migration.tree[path], path) for path in expected)
    assert differences == "", differences


def check_dry_run_writes_nothing(case: Case, migration: Migration) -> None:
    assert migration.after_dry == read_tree(case.before)
    assert migration.dry.paths("changed") == migration.written.paths("changed")


def check_exit_status(case: Case, migration: Migration) -> None:
    statuses = [answer.status for answer in (migration.dry, migration.written, migration.again)]
    assert statuses == [case.exit_status] * 3, migration.written.explanation


def check_changed_files(case: Case, migration: Migration) -> None:
    before, after = read_tree(case.before), read_tree(case.after)
    assert set(migration.written.paths("changed")) == {path for path in after if after[path] != before[path]}


def check_second_run_changes_nothing(case: Case, migration: Migration) -> None:
    assert migration.after_again == migration.tree
    assert migration.again.paths("changed") == ()


def check_findings(case: Case, migration: Migration) -> None:
    found = migration.written.findings
    for expected in case.findings:
        hits = [row for row in found if row.code == expected.code and expected.place.meets(row.path, row.line)]
        assert hits, f"{expected} is not among the findings\n{migration.written.explanation}"
    allowed = {expected.code for expected in case.findings}
    unexpected = [row for row in found if row.code not in allowed and refuses(row.code)]
    assert unexpected == [], migration.written.explanation


def check_ledger(case: Case, migration: Migration) -> None:
    unmet = list(migration.written.ledger)
    for expected in case.sites:
        hits = [
            row
            for row in unmet
            if (row.kind, row.state) == (expected.kind, expected.state) and expected.place.meets(row.path, row.line)
        ]
        assert hits, "\n".join((f"{expected} is not in the ledger:", *map(str, migration.written.ledger)))
        unmet.remove(hits[0])
    # Where a whole file is refused, its sites need no naming.
    settled = [row for row in unmet if row.state != "refused" or case.expect != "refused"]
    beyond = [row for row in settled if row.kind in COMPLETE_KINDS or row.state == "rewritten"]
    assert beyond == [], "in the ledger, not in case.toml"


def check_result_compiles(case: Case, migration: Migration) -> None:
    for path, content in read_tree(case.before).items():
        if path.endswith(".py") and compiles(content):
            assert compiles(migration.tree[path]), path


def check_jobs_do_not_matter(case: Case, migration: Migration, workplace: Path) -> None:
    if len([path for path in migration.tree if path.endswith(".py")]) == 1:
        return
    folder = copy_tree(case.before, workplace / "two-jobs")
    answer = ampify(folder, "--write", "-j", "2", *case.flags)
    assert read_tree(folder) == migration.tree
    assert answer.report == migration.written.report


def check_report_is_approved(case: Case, migration: Migration) -> None:
    # Evidence has tests of its own; here it would make every case change with a word of it.
    sites = [
        {key: value for key, value in site.items() if key != "evidence"} for site in migration.written.report["sites"]
    ]
    text = json.dumps({**migration.written.report, "sites": sites}, indent=2, ensure_ascii=False) + "\n"
    if UPDATE:
        case.report.write_text(text, encoding="utf-8", newline="\n")
    assert text == case.report.read_text(encoding="utf-8")


# Training


def check_losses_move(_: Case, trained: Trained) -> None:
    assert len(set(trained.original.printed)) > 1


def check_disabled_is_bit_identical(_: Case, trained: Trained) -> None:
    assert trained.disabled == trained.original


def check_bfloat16_follows(case: Case, trained: Trained) -> None:
    assert case.training is not None
    assert follows(trained.reduced, trained.original, case.training.tolerance)


def check_bfloat16_is_in_use(_: Case, trained: Trained) -> None:
    assert trained.reduced != trained.original, "every loss is the same, so nothing was computed in bfloat16"


def check_old_checkpoint_is_resumed(case: Case, training: Training, runner: Runner, workplace: Path) -> None:
    """The last run reads what the original's first runs wrote, which has no amp state."""
    old = copy_tree(case.before, workplace / "old")
    runner.losses(training, old, slice(0, -1))
    resumed = [copy_tree(case.after, workplace / f"resumed-{name}") for name in ("O0", "bfloat16")]
    for folder in resumed:
        (folder / training.old_checkpoint).parent.mkdir(exist_ok=True)
        shutil.copy(old / training.old_checkpoint, folder / training.old_checkpoint)
    last = slice(-1, None)
    expected = runner.losses(training, old, last)
    assert runner.losses(training, resumed[0], last, AMPIFY_OPT_LEVEL="O0") == expected
    assert follows(runner.losses(training, resumed[1], last, AMPIFY_DTYPE="bfloat16"), expected, training.tolerance)


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


def edits_between(before: Tree, after: Tree) -> Iterator[tuple[str, int, bytes]]:
    """Each line of `before` that goes or is followed by new ones: its path, its number, and the new text there."""
    for path, old in before.items():
        old_lines, new_lines = old.splitlines(keepends=True), after[path].splitlines(keepends=True)
        matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        for tag, start, end, new_start, new_end in matcher.get_opcodes():
            if tag != "equal":
                lines = range(start + 1, end + 1) if end > start else (start,)
                yield from ((path, line, b"".join(new_lines[new_start:new_end])) for line in lines)


def difference(expected: bytes, actual: bytes, path: str) -> str:
    """The unified diff from the hand-written file to the one ampify wrote, with its invisible bytes shown."""
    old, new = ([repr(line)[2:-1] for line in content.splitlines(keepends=True)] for content in (expected, actual))
    return "\n".join(difflib.unified_diff(old, new, f"by hand/{path}", f"by ampify/{path}", lineterm=""))
