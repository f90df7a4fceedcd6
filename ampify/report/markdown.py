"""The report for a pull request, in GitHub's Markdown: what changed and why, what is left to do, how to verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

import ampify
from ampify.model.finding import Finding
from ampify.model.plan import LoopSummary, Outcome, Report
from ampify.model.site import LedgerEntry, SiteState
from ampify.report.advice import risks, trials, undoing, verifying
from ampify.report.budget import Part, fitted
from ampify.report.excerpt import Excerpts, lines_of, read_excerpts
from ampify.report.fate import Fate, fate_in_words, fates_of
from ampify.report.links import Links
from ampify.report.markup import code, inline, link, row
from ampify.report.standing import Standing, left_alone, ranked, told_once
from ampify.report.text import summary_line
from ampify.report.wording import KINDS, counted, in_words
from ampify.rules import find_rule
from ampify.rules.documentation import read_documentation

# The length that GitHub takes for the text of a pull request or of a comment, in characters.
LIMIT: Final = 65_536
_ELSEWHERE: Final = "GitHub takes no more than 65,536 characters. `ampify --report report.html` shows all of them."
_PERSON: Final[tuple[tuple[Standing, str], ...]] = (
    ("failed", "could not be done"),
    ("refused", "not migrated"),
    ("review", "please judge"),
)
_STATES: Final[tuple[tuple[SiteState, str], ...]] = (
    ("refused", "**refused**"),
    ("rewritten", "**rewritten**"),
    ("right", "right already"),
    ("not_training", "not training"),
)
# Those that need a look before those that need none.
_FATES: Final[tuple[Fate, ...]] = ("migrated", "mended", "refused", "right")
_SITES_SHOWN: Final = 40
_RELATED_SHOWN: Final = 8


def markdown_report(report: Report, links: Links, limit: int = LIMIT) -> str:
    """The whole report in at most `limit` characters; where that is too few, it says what it leaves out."""
    excerpts = read_excerpts(report)
    parts = [
        Part(_opening(report)),
        _for_a_person(report, links),
        _rules(report),
        _loops(report, links, excerpts),
        _files(report, links),
        Part(_closing(report)),
    ]
    return fitted(parts, limit, _ELSEWHERE)


def _opening(report: Report) -> str:
    sites = Counter(entry.state for entry in report.ledger)
    told = in_words(f"{sites[state]} {words.strip('*')}" for state, words in _STATES if sites[state])
    lines = ["# Mixed precision, by ampify\n", f"\n**{inline(summary_line(report))}**"]
    if told:
        lines.append(f" {counted(len(report.ledger), 'site')} accounted for: {told}.")
    refused = {loop.id for loop in report.loops if loop.state == "refused"}
    # One that is in mixed precision already may have what is safe mended by itself, such as its checkpoint.
    if refused and not any(entry.site.loop in refused for entry in report.ledger if entry.state == "rewritten"):
        lines.append(" A loop that is not migrated is left as it was in all its files.")
    return "".join(lines) + "\n"


def _for_a_person(report: Report, links: Links) -> Part:
    groups = ranked(report)
    items = [_told(f, words, links) for standing, words in _PERSON for f in told_once(groups[standing])]
    items += [f"- {_place(loop.path, loop.line, links)} {inline(why)}\n" for loop, why in left_alone(report)]
    if not items:
        return Part("\n## For a person\n\nNothing was refused, and nothing needs a judgement.\n")
    return Part(f"\n## For a person ({len(items)})\n\nThe worst first.\n\n", tuple(items), "finding", share=0.6)


def _told(finding: Finding, standing: str, links: Links) -> str:
    rule = f"**{finding.code}** {code(finding.name)} ({standing})"
    lines = [f"- {_place(finding.anchor.path, finding.anchor.line, links)} {rule}: {inline(finding.message)}\n"]
    shown = finding.related[:_RELATED_SHOWN]
    lines += [f"  - {_place(r.anchor.path, r.anchor.line, links)}: {inline(r.message)}\n" for r in shown]
    if len(finding.related) > len(shown):
        lines.append(f"  - and {counted(len(finding.related) - len(shown), 'more place')}\n")
    if finding.hint:
        lines.append(f"  - *What to do:* {inline(finding.hint)}\n")
    return "".join(lines)


def _rules(report: Report) -> Part:
    """What was done, by rule, with each rule's own first sentence as the reason."""
    applied = Counter((finding.code, finding.name) for finding in ranked(report)["applied"])
    if not applied:
        return Part("")
    verb = "was done" if report.wrote else "would be done"
    head = f"\n## What {verb}, and why\n\n{row('rule', 'times', 'because')}|---|--:|---|\n"
    items = (row(f"{c} {code(name)}", str(n), inline(_reason(c))) for (c, name), n in sorted(applied.items()))
    return Part(head, tuple(items), "rule")


def _reason(rule_code: str) -> str:
    rule = find_rule(rule_code)
    return read_documentation(rule.documentation).summary if rule else ""


def _loops(report: Report, links: Links, excerpts: Excerpts) -> Part:
    sites: dict[str | None, list[LedgerEntry]] = {}
    for entry in report.ledger:
        sites.setdefault(entry.site.loop, []).append(entry)
    fates = fates_of(report)
    ordered = sorted(report.loops, key=lambda loop: _FATES.index(fates[loop.id]))
    items = [_loop(loop, fates[loop.id], sites.get(loop.id, []), report, links, excerpts) for loop in ordered]
    loose = sites.get(None, [])
    if loose:
        items.append(f"\n### In no training loop\n\n{_table(loose, '', links, excerpts)}")
    head = f"\n## Training loops ({len(report.loops)})\n" if report.loops else "\n## Training code\n"
    return Part(head, tuple(items), "training loop", share=0.8) if items else Part("")


def _loop(
    loop: LoopSummary, fate: Fate, entries: Sequence[LedgerEntry], report: Report, links: Links, excerpts: Excerpts
) -> str:
    trained = in_words(map(code, loop.models)) or "its model"
    by = in_words(map(code, loop.optimizers)) or "its optimizer"
    start = ""
    if loop.initialize and loop.state != "refused" and report.target == "runtime":
        verb = "stands at" if loop.state == "right" or loop.had_amp else "follows"
        start = f" `amp.initialize` {verb} {_place(*loop.initialize, links)}."
    title = f"\n### {_place(loop.path, loop.line, links)}: {fate_in_words(fate, wrote=report.wrote)}\n"
    return f"{title}\nTrains {trained} with {by}.{start}\n\n{_table(entries, loop.path, links, excerpts)}"


def _table(entries: Sequence[LedgerEntry], path: str, links: Links, excerpts: Excerpts) -> str:
    """The sites of a loop in `path`, those that need attention first where there are too many."""
    order = [state for state, _ in _STATES]
    shown = list(entries)
    if len(shown) > _SITES_SHOWN:
        shown = sorted(entries, key=lambda entry: order.index(entry.state))[:_SITES_SHOWN]
    lines = [row("line", "site", "state", "rule", "code"), "|---|---|---|---|---|\n"]
    lines += [_site(entry, path, links, excerpts) for entry in shown]
    more = len(entries) - len(shown)
    if more:
        lines.append(f"\n_{counted(more, 'more site')} left out here: `--format json` lists all._\n")
    return "".join(lines)


def _site(entry: LedgerEntry, path: str, links: Links, excerpts: Excerpts) -> str:
    anchor = entry.site.anchor
    known = anchor.path == path
    where = _line(anchor.path, anchor.line, links) if known else _place(anchor.path, anchor.line, links)
    return row(where, KINDS[entry.site.kind], dict(_STATES)[entry.state], entry.code, code(excerpts.code(anchor)))


def _files(report: Report, links: Links) -> Part:
    changed = [o for o in report.outcomes if o.status == "changed" and o.before is not None and o.after is not None]
    new = [outcome.path for outcome in report.outcomes if outcome.new_bytes is not None]
    items = [_file(outcome, links) for outcome in changed]
    if new:
        folder = f"{new[0].partition('ampify_runtime/')[0]}ampify_runtime/"
        items.append(row(code(folder), f"{counted(len(new), 'new file')}: a copy of the runtime"))
    head = f"\n## Files ({len(changed) + len(new)})\n\n{row('file', 'lines')}|---|---|\n"
    return Part(head, tuple(items), "file") if items else Part("")


def _file(outcome: Outcome, links: Links) -> str:
    assert outcome.before is not None
    added, removed = changed_lines(lines_of(outcome.before.text), lines_of(outcome.after or ""))
    return row(link(code(outcome.path), links.line(outcome.path, 1)), f"+{added} -{removed}")


def changed_lines(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines a diff adds and removes."""
    steps = SequenceMatcher(None, before, after).get_opcodes()
    changes = [step for step in steps if step[0] != "equal"]
    return sum(j2 - j1 for *_, j1, j2 in changes), sum(i2 - i1 for _, i1, i2, *_ in changes)


def _closing(report: Report) -> str:
    return (
        "".join(_sections(report))
        + f"\n---\nampify {ampify.__version__} · `ampify explain CODE` tells more of a rule\n"
    )


def _sections(report: Report) -> Iterator[str]:
    if risks(report):
        yield f"\n## Risk\n\n{''.join(f'- {inline(risk)}{chr(10)}' for risk in risks(report))}"
    if trials(report):
        yield f"\n## Test plan\n\n{''.join(f'- [ ] {inline(trial)}{chr(10)}' for trial in trials(report))}"
    if verifying(report):
        yield f"\n## Verify\n\n{_shell(verifying(report))}"
    if undoing(report):
        yield f"\n## Undo\n\n{_shell(undoing(report))}"
        yield "\nwhere it was written, or `git revert` once it is committed.\n"


def _shell(commands: Iterable[str]) -> str:
    return "".join(["```sh\n", *(f"{command}\n" for command in commands), "```\n"])


def _line(path: str, line: int, links: Links) -> str:
    return link(links.places.within(path, line), links.line(path, line))


def _place(path: str, line: int, links: Links) -> str:
    return link(code(links.places.named(path, line)), links.line(path, line))
