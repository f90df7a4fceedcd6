"""What a person reads after a run: what failed, what was refused and why, what to look at, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ampify.model.finding import Finding
from ampify.model.plan import LoopSummary, Report
from ampify.report.colour import Colour, paint
from ampify.report.fate import FATES, Fate, fate_in_words, fates_of
from ampify.report.places import Places, places_of
from ampify.report.standing import STANDINGS, Standing, left_alone, loose_refusals, ranked, told_once
from ampify.report.wording import counted, in_words

_TITLES: tuple[tuple[Standing, str, Colour], ...] = (
    ("failed", "Failed", "red"),
    ("refused", "Not migrated", "red"),
    ("review", "To look at", "yellow"),
)
_QUIET_TITLES = _TITLES[:2]


@dataclass(frozen=True, slots=True)
class Style:
    """How much is told, and whether in colours.

    `check`: no diff shows what would change, so that the files are named. `quiet`: only what failed and what was
    refused. `verbose`: the loops as well, with all their sites. `statistics`: how often each rule had something to say.
    """

    check: bool = False
    colour: bool = False
    quiet: bool = False
    verbose: bool = False
    statistics: bool = False


def text_report(report: Report, style: Style = Style()) -> str:
    """Findings, worst first, and the summary; where no diff shows them, the files that change."""
    places = places_of(report.outcomes)
    blocks: list[list[str]] = [*_groups(report, places, style)]
    if not style.quiet:
        blocks.append([f"{places.named(loop.path, loop.line)}: {why}" for loop, why in left_alone(report)])
    if style.verbose:
        fates = fates_of(report)
        blocks += [[*_loop(loop, fates[loop.id], report, places, style.colour)] for loop in report.loops]
    if style.statistics:
        blocks.append(_statistics(report, style.colour))
    if not style.quiet:
        blocks += [_changes(report, style.check), [*_summary(report, style.check)]]
    text = "\n\n".join("\n".join(lines) for lines in blocks if lines)
    return f"{text}\n" if text else ""


def _groups(report: Report, places: Places, style: Style) -> Iterator[list[str]]:
    findings = ranked(report)
    for standing, title, hue in _QUIET_TITLES if style.quiet else _TITLES:
        yield _group(title, findings[standing], places, hue, style.colour)


def _group(title: str, findings: Sequence[Finding], places: Places, hue: Colour, colour: bool) -> list[str]:
    if not findings:
        return []
    told = told_once(findings)
    lines = (line for finding in told for line in _finding(finding, places, hue, colour))
    return [paint(f"{title} ({len(told)})", "bold", enabled=colour), *lines]


def _finding(finding: Finding, places: Places, hue: Colour, colour: bool) -> Iterator[str]:
    where = finding.anchor
    place = f"{places.within(where.path, where.line)}:{where.column + 1}"
    code = paint(finding.code, hue, enabled=colour)
    path = paint(where.path, "bold", enabled=colour)
    yield f"{path}:{place}: {code} [{finding.name}] {finding.message}"
    for related in finding.related:
        yield f"    {places.named(related.anchor.path, related.anchor.line)}: {related.message}"
    if finding.hint:
        yield f"    {paint('hint:', 'dim', enabled=colour)} {finding.hint}"


def _loop(loop: LoopSummary, fate: Fate, report: Report, places: Places, colour: bool) -> Iterator[str]:
    """A training loop with what became of each of its sites."""
    trains = f"{in_words(loop.models) or 'a model'} with {in_words(loop.optimizers) or 'an optimizer'}"
    where = places.named(loop.path, loop.line)
    became = fate_in_words(fate, wrote=report.wrote)
    yield paint(f"{where}: training loop of {trains}: {became}", "bold", enabled=colour)
    names = {finding.code: finding.name for finding in report.findings}
    for entry in report.ledger:
        if entry.site.loop == loop.id:
            site = entry.site.anchor
            rule = f" {entry.code} [{names.get(entry.code, '')}]".replace(" []", "") if entry.code else ""
            state = entry.state.replace("_", " ")
            yield f"    {places.named(site.path, site.line)}:{site.column + 1}: {entry.site.kind} {state}{rule}"


def _statistics(report: Report, colour: bool) -> list[str]:
    """How often each rule had something to say, the commonest first, and what came of it."""
    counts: Counter[tuple[str, str]] = Counter()
    outcomes: dict[tuple[str, str], Counter[Standing]] = {}
    for standing, findings in ranked(report).items():
        for finding in told_once(findings):
            rule = (finding.code, finding.name)
            counts[rule] += 1
            outcomes.setdefault(rule, Counter())[standing] += 1
    if not counts:
        return []
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    width = len(str(rows[0][1]))
    return [f"{number:>{width}}  {rule[0]} [{rule[1]}] {_came_to(outcomes[rule], colour)}" for rule, number in rows]


def _came_to(standings: Counter[Standing], colour: bool) -> str:
    parts = (f"{standings[s]} {'to look at' if s == 'review' else s}" for s in STANDINGS if standings[s])
    return paint(f"({', '.join(parts)})", "dim", enabled=colour)


def _changes(report: Report, check: bool) -> list[str]:
    """The files, where no diff shows them."""
    if not check and not report.wrote:
        return []
    verb = "changed" if report.wrote else "would change"
    changed = [outcome.path for outcome in report.outcomes if outcome.status == "changed" and outcome.new_bytes is None]
    return [f"{verb} {path}" for path in changed]


def _summary(report: Report, check: bool) -> Iterator[str]:
    yield summary_line(report)
    changing = any(outcome.status == "changed" and outcome.new_bytes is None for outcome in report.outcomes)
    if changing:
        yield from _vendored(report)
        if not report.wrote and not check:
            yield "Nothing was written; --write writes it."


def summary_line(report: Report) -> str:
    """The whole run in one line."""
    files = Counter(outcome.status for outcome in report.outcomes if outcome.new_bytes is None)
    fates = fates_of(report)
    loops: Counter[Fate] = Counter(fates[loop.id] for loop in report.loops)
    loose = loose_refusals(report)
    others = [f"{counted(loose, 'other place')} refused"] if loose and loops else []
    told = _joined([*_loops(loops, wrote=report.wrote), *others])
    changed = files["changed"]
    if changed:
        verb = "changed" if report.wrote else "would change"
        return f"{counted(changed, 'file')} {verb}; {told}."
    unread = "".join(f"; {files[status]} {status}" for status in ("failed", "skipped") if files[status])
    looked_at = counted(files.total(), "file")
    if not loops and loose:
        place = counted(loose, "place")
        return f"Nothing changed: {place} of training code refused, no whole training loop in {looked_at}{unread}."
    if not loops:
        return f"Nothing to do: no training loop found in {looked_at}{unread}."
    return f"Nothing {'changed' if loops['refused'] or loose else 'to do'}: {told}{unread}."


def _vendored(report: Report) -> Iterator[str]:
    new = [outcome.path for outcome in report.outcomes if outcome.new_bytes is not None]
    if new:
        folder = f"{new[0].partition('ampify_runtime/')[0]}ampify_runtime"
        yield f"{counted(len(new), 'file')} of the runtime {'went' if report.wrote else 'would go'} to {folder}."


def _loops(loops: Counter[Fate], *, wrote: bool) -> Iterator[str]:
    words = ((fate, fate_in_words(fate, wrote=wrote)) for fate in FATES)
    return (f"{counted(loops[fate], 'training loop')} {told}" for fate, told in words if loops[fate])


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts) or "no training loop"
