"""What a person reads after a run: what failed, what was refused and why, what to look at, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias

from ampify.model.finding import Finding
from ampify.model.plan import LoopSummary, Report
from ampify.report.colour import Colour, paint

LoopState: TypeAlias = Literal["migrated", "right", "refused"]

_INTERNAL = "AMP9"
_UNREADABLE = "AMP00"


def text_report(report: Report, *, check: bool = False, colour: bool = False) -> str:
    """Findings, worst first, and the summary; where no diff shows them, the files that change."""
    blocks = [*_groups(report, colour), _left_alone(report), _changes(report, check), [*_summary(report, check)]]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _groups(report: Report, colour: bool) -> Iterator[list[str]]:
    failed_paths = {outcome.path for outcome in report.outcomes if outcome.status == "failed"}
    failures = [f for f in report.findings if _is_failure(f, failed_paths)]
    refusals = [f for f in report.findings if f.refuses and f not in failures]
    remarks = [f for f in report.findings if f not in failures and not f.refuses and f.applicability != "safe"]
    yield _group("Failed", failures, "red", colour)
    yield _group("Not migrated", refusals, "red", colour)
    yield _group("To look at", remarks, "yellow", colour)


def _is_failure(finding: Finding, failed_paths: set[str]) -> bool:
    return finding.code.startswith(_INTERNAL) or (
        finding.code.startswith(_UNREADABLE) and finding.anchor.path in failed_paths
    )


def _group(title: str, findings: list[Finding], hue: Colour, colour: bool) -> list[str]:
    if not findings:
        return []
    # One cause can forbid several loops, and is told once.
    told = list(dict.fromkeys("\n".join(_finding(finding, hue, colour)) for finding in findings))
    return [paint(f"{title} ({len(told)})", "bold", enabled=colour), *told]


def _finding(finding: Finding, hue: Colour, colour: bool) -> Iterator[str]:
    where = finding.anchor
    code = paint(finding.code, hue, enabled=colour)
    yield f"{where.path}:{where.line}:{where.column + 1}: {code} [{finding.name}] {finding.message}"
    for related in finding.related:
        yield f"    {related.anchor.path}:{related.anchor.line}: {related.message}"
    if finding.hint:
        yield f"    {paint('hint:', 'dim', enabled=colour)} {finding.hint}"


def _left_alone(report: Report) -> list[str]:
    """Loops whose refusal is silenced: the findings do not speak of them, and yet they are not migrated."""
    spoken_of = {finding.loop for finding in report.findings if finding.refuses}
    quiet = [loop for loop in report.loops if loop.state == "refused" and loop.id not in spoken_of]
    return [_quiet(loop, report) for loop in quiet]


def _quiet(loop: LoopSummary, report: Report) -> str:
    codes = {entry.code for entry in report.ledger if entry.site.loop == loop.id and entry.state == "refused"}
    why = f" ({', '.join(sorted(codes))})" if codes else ""
    return f"{loop.path}:{loop.line}: this training loop is left as it is, because what forbids it is silenced{why}"


def _changes(report: Report, check: bool) -> list[str]:
    """The files, where no diff shows them."""
    if not check and not report.wrote:
        return []
    verb = "changed" if report.wrote else "would change"
    changed = [outcome.path for outcome in report.outcomes if outcome.status == "changed" and outcome.new_bytes is None]
    return [f"{verb} {path}" for path in changed]


def _summary(report: Report, check: bool) -> Iterator[str]:
    files = Counter(outcome.status for outcome in report.outcomes if outcome.new_bytes is None)
    looked_at = files.total()
    loops: Counter[LoopState] = Counter(loop.state for loop in report.loops)
    changed = files["changed"]
    if changed:
        verb = "changed" if report.wrote else "would change"
        yield f"{_count(changed, 'file')} {verb}; {_loops(loops)}."
        yield from _vendored(report)
        if not report.wrote and not check:
            yield "Nothing was written; --write writes it."
        return
    others = "".join(f"; {files[status]} {status}" for status in ("failed", "skipped") if files[status])
    if not loops:
        yield f"Nothing to do: no training loop found in {_count(looked_at, 'file')}{others}."
    elif loops["refused"]:
        yield f"Nothing changed: {_loops(loops)}{others}."
    else:
        yield f"Nothing to do: {_loops(loops)}{others}."


def _vendored(report: Report) -> Iterator[str]:
    new = [outcome.path for outcome in report.outcomes if outcome.new_bytes is not None]
    if new:
        folder = f"{new[0].partition('ampify_runtime/')[0]}ampify_runtime"
        yield f"{_count(len(new), 'file')} of the runtime {'went' if report.wrote else 'would go'} to {folder}."


def _loops(loops: Counter[LoopState]) -> str:
    words: dict[LoopState, str] = {"migrated": "migrated", "right": "right already", "refused": "not migrated"}
    parts = [f"{_count(loops[state], 'training loop')} {words[state]}" for state in words if loops[state]]
    return ", ".join(parts) if parts else "no training loop"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
