"""Tells a person at a terminal what a verification found."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.report.colour import Colour, paint
from ampify.verify.figures import Figures, figures_of
from ampify.verify.session import Verification
from ampify.verify.verdict import MEANINGS


def text_verification(verification: Verification, *, colour: bool = False) -> str:
    """The verdict, what it rests on, and what else a person should know."""
    return "\n".join(_lines(verification, colour)) + "\n"


def _lines(verification: Verification, colour: bool) -> Iterator[str]:
    verdict = verification.verdict
    hue: Colour = "green" if verdict.good else "red"
    yield f"{paint(verdict.judgement, hue, enabled=colour)}: {MEANINGS[verdict.judgement]}"
    yield f"  {verdict.reason}"
    for place in verdict.places:
        yield f"  at {place}"
    if verdict.rule:
        yield f"  likely rule: {verdict.rule} (`ampify explain {verdict.rule}`)"
    yield from (f"  {detail}" for detail in verdict.details)
    yield from _migration(verification)
    yield from _figures(figures_of(verification))
    yield from verification.checkpoints
    if verification.outside:
        yield "written outside of the copies:"
        yield from (f"  {path}" for path in verification.outside)


def _migration(verification: Verification) -> Iterator[str]:
    migration = verification.migration
    if migration is None:
        return
    yield f"migrated, in the copy: {', '.join(migration.changed) or 'nothing'}"
    if migration.changed:
        yield from (f"  refused: {line}" for line in migration.refused)


def _figures(figures: Figures) -> Iterator[str]:
    for row in figures.rows:
        yield f"{row.name + ':':<26} {row.before} -> {row.after}" if row.before else f"{row.name + ':':<26} {row.after}"
