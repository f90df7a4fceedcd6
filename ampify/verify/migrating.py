"""Migrates the copy of a project, as a run of the command line would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ampify import pipeline
from ampify.model.plan import Report
from ampify.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Migration:
    """What the migration did, in words: paths are relative to the project."""

    changed: tuple[str, ...]
    migrated_loops: int
    refused: tuple[str, ...]


def migrate_copy(tree: Path, paths: Sequence[str], settings: Settings) -> Migration:
    """Migrates `paths` of the copy at `tree`, in place."""
    inside = replace(settings, root=str(tree))
    report = pipeline.run([tree / path for path in paths], inside)
    pipeline.write(report, inside)
    return Migration(
        changed=tuple(_short(o.path, tree) for o in report.outcomes if o.status == "changed" and o.new_bytes is None),
        migrated_loops=sum(loop.state in ("migrated", "right") for loop in report.loops),
        refused=_refused(report, tree),
    )


def _refused(report: Report, tree: Path) -> tuple[str, ...]:
    findings = (finding for finding in report.findings if finding.refuses)
    rows = (f"{_short(f.anchor.path, tree)}:{f.anchor.line}: {f.code} [{f.name}] {f.message}" for f in findings)
    return tuple(dict.fromkeys(rows))


def _short(path: str, tree: Path) -> str:
    return path.removeprefix(tree.as_posix()).lstrip("/")
