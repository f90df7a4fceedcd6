"""Files that may not be written: what belongs to them is left whole, and the rest goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ampify.model.anchor import line_anchor
from ampify.model.finding import Finding
from ampify.model.plan import Plan
from ampify.write import Lock, lock_on

UNWRITABLE = ("AMP007", "unwritable-file")


def locks_of(places: Mapping[str, Path]) -> dict[str, Lock]:
    """By the name to show, what forbids writing a file; `places` are the real paths."""
    found = {display: lock_on(path) for display, path in places.items()}
    return {display: lock for display, lock in found.items() if lock is not None}


def locked_groups(plan: Plan, places: Mapping[str, Path]) -> tuple[Finding, ...]:
    """A refusal for each group of `plan` that would edit a file which may not be written."""
    locks = locks_of({path: places[path] for path, _ in plan.edits if path in places})
    first = {group: next((path for path in paths if path in locks), None) for group, paths in plan.groups}
    return tuple(_refusal(path, locks[path], group) for group, path in first.items() if path is not None)


def _refusal(path: str, lock: Lock, group: str) -> Finding:
    message = f"this file {lock.reason}, so that nothing of what has to change together with it is changed"
    hint = f"{lock.hint}, or leave it out with --exclude"
    return Finding(*UNWRITABLE, line_anchor(path, 1), message, hint, refuses=True, loop=group)
