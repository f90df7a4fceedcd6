"""Writes a verification as Markdown, for the pull request that holds the migration."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.report.markup import code, inline, row
from ampify.verify.curves import Distance
from ampify.verify.figures import Figures, figures_of
from ampify.verify.judging import allowed
from ampify.verify.session import Verification
from ampify.verify.verdict import MEANINGS

_SIGNS = {True: "✅", False: "❌"}
# A pull request's text may have 65,536 characters, and is not for this alone.
_MOST_MODULES = 30


def markdown_verification(verification: Verification) -> str:
    """The verdict, the figures and the precision map."""
    return "\n".join(block for block in _blocks(verification, figures_of(verification)) if block)


def _blocks(verification: Verification, figures: Figures) -> Iterator[str]:
    verdict = verification.verdict
    meaning = inline(MEANINGS[verdict.judgement])
    yield f"## {_SIGNS[verdict.good]} ampify verify: {verdict.judgement}\n"
    yield f"{meaning[0].upper()}{meaning[1:]}: {inline(verdict.reason)}.\n"
    yield "".join(f"- at {code(place)}\n" for place in verdict.places)
    if verdict.rule:
        yield f"Likely rule: **{verdict.rule}**; {code(f'ampify explain {verdict.rule}')} tells of it.\n"
    yield f"Command: {code(verification.command.shown)}\n"
    yield _table(figures)
    yield _curves(verification)
    yield _precision(figures)
    yield _details(verification)


def _table(figures: Figures) -> str:
    if not figures.rows:
        return ""
    rows = (row(inline(one.name), inline(one.before), inline(one.after)) for one in figures.rows)
    return f"{row('', 'original', 'migrated')}{row('---', '---:', '---:')}{''.join(rows)}"


def _curves(verification: Verification) -> str:
    compared = verification.compared
    if not compared.distances:
        return ""
    rows = (
        _curve(index, distance, *allowed(compared.noise, index)) for index, distance in enumerate(compared.distances)
    )
    head = row("loss curve", "mean distance", "allowed", "final distance", "allowed")
    return f"{head}{row('---', *['---:'] * 4)}{''.join(rows)}"


def _curve(index: int, distance: Distance, mean: float, final: float) -> str:
    return row(str(index + 1), f"{distance.mean:.2%}", f"{mean:.2%}", f"{distance.final:.2%}", f"{final:.2%}")


def _precision(figures: Figures) -> str:
    shares = figures.precision
    if not shares:
        return ""
    total = sum(share.flops for share in shares) or 1
    rows = [row(code(s.module or "outside"), f"{s.flops / total:.1%}", f"{s.reduced:.0%}") for s in shares]
    more = f"\nand {len(rows) - _MOST_MODULES} more modules\n" if len(rows) > _MOST_MODULES else ""
    head = f"{row('module', 'share of the work', 'in reduced precision')}{row('---', '---:', '---:')}"
    body = f"{head}{''.join(rows[:_MOST_MODULES])}{more}"
    return f"<details><summary>Where reduced precision is used</summary>\n\n{body}\n</details>\n"


def _details(verification: Verification) -> str:
    migration = verification.migration
    lines = [
        *verification.verdict.details,
        *verification.checkpoints,
        *(f"refused: {line}" for line in (migration.refused if migration else ())),
        *(f"written outside of the copies: {path}" for path in verification.outside),
    ]
    if not lines:
        return ""
    # Four spaces make each line code, so that nothing in it is markup.
    return "<details><summary>Details</summary>\n\n" + "".join(f"    {line}\n" for line in lines) + "\n</details>\n"
