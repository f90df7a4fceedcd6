"""Writes what a report says has changed, all of it or nothing, and takes it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os.path import commonpath
from pathlib import Path

from ampify.model.plan import Outcome, Report
from ampify.model.settings import Settings
from ampify.write import Change, IfEdited, NothingToUndo, Undone, commit
from ampify.write import uncommitted as uncommitted_files
from ampify.write import undo as undo_last

JOURNAL = ".ampify"


def write(report: Report, settings: Settings) -> Report:
    """The report, once its changes are on disk; raises WriteError, and then every file is as it was."""
    root = Path(settings.root).resolve()
    changes = tuple(_changes(report.outcomes, root))
    if not changes:
        return report
    commit(_journal_root(changes, root), changes)
    return replace(report, wrote=True)


def uncommitted(report: Report, settings: Settings) -> tuple[str, ...]:
    """Those of the files that the report changes of which git has no copy as they are now, by the names to show."""
    root = Path(settings.root).resolve()
    paths = {root / o.path: o.path for o in report.outcomes if o.status == "changed" and o.new_bytes is None}
    return tuple(paths[path] for path in uncommitted_files(paths))


def undo(folder: Path, if_edited: IfEdited = "refuse") -> Undone:
    """Puts back what the last write changed, as recorded in `folder` or the nearest one above; raises WriteError."""
    start = folder.resolve()
    # Looked for upwards from a file or a misspelt name, the record of a whole tree would be found and undone.
    if not start.is_dir():
        raise NothingToUndo(
            start, "this is no folder", "undo takes back the whole last write; name its folder, or none"
        )
    root = next((place for place in (start, *start.parents) if (place / JOURNAL).is_dir()), start)
    return undo_last(root, if_edited)


def _changes(outcomes: Iterable[Outcome], root: Path) -> Iterable[Change]:
    for outcome in outcomes:
        if outcome.new_bytes is not None:
            yield Change(root / outcome.path, None, outcome.new_bytes)
        elif outcome.before is not None and outcome.after is not None:
            yield Change(root / outcome.path, outcome.before.raw, outcome.before.encode(outcome.after))


def _journal_root(changes: Sequence[Change], root: Path) -> Path:
    """The folder to write from: the current one, or, if files are outside of it, the one that holds them all."""
    folders = [change.path.resolve().parent for change in changes]
    return root if all(folder.is_relative_to(root) for folder in folders) else Path(commonpath(folders))
