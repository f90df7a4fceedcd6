"""Which files and lines are on the page, and what is said of each: decided once, for all that links to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ampify.model.finding import Finding
from ampify.model.plan import Outcome, Report
from ampify.report.html.flow import Place
from ampify.report.html.sections import Section, sections_of
from ampify.report.links import Links
from ampify.report.places import Places, places_of
from ampify.report.standing import Standing, ranked, told_once


@dataclass(frozen=True, slots=True)
class Note:
    """A finding with what it came to; `number` is its own on the page."""

    number: int
    standing: Standing
    finding: Finding


@dataclass(frozen=True, slots=True)
class FileView:
    """A file as the page shows it. `notes` are by line; those of line 0 speak of what is not shown."""

    number: int
    outcome: Outcome
    sections: tuple[Section, ...]
    notes: Mapping[int, tuple[Note, ...]]


@dataclass(frozen=True, slots=True)
class Views:
    """All files that are shown, by path, all notes, the worst first, how places are named, and where else a line can
    be seen."""

    files: Mapping[str, FileView]
    notes: tuple[Note, ...]
    places: Places
    links: Links
    _lines: frozenset[Place] = field(repr=False)

    def target(self, place: Place) -> str | None:
        """The address of a line: on the page, else where the repository is, else None."""
        path, line = place
        if place in self._lines:
            return f"#f{self.files[path].number}-{line}"
        return self.links.line(path, line) if self.links.base else None


def make_views(report: Report, links: Links) -> Views:
    """What the page shows of a report."""
    notes = tuple(_notes(report))
    spoken = _spoken_of(report)
    own: dict[str, list[Note]] = {}
    for note in notes:
        own.setdefault(note.finding.anchor.path, []).append(note)
    files: dict[str, FileView] = {}
    for outcome in report.outcomes:
        if outcome.new_bytes is None and (outcome.path in spoken or outcome.status == "changed"):
            said = own.get(outcome.path, [])
            files[outcome.path] = _view(len(files), outcome, spoken.get(outcome.path, set()), said)
    shown = frozenset((path, line) for path, view in files.items() for line in _shown(view.sections))
    return Views(files, notes, places_of(report.outcomes), links, shown)


def _notes(report: Report) -> list[Note]:
    told = [(standing, f) for standing, group in ranked(report).items() for f in told_once(group)]
    return [Note(number, standing, finding) for number, (standing, finding) in enumerate(told)]


def _spoken_of(report: Report) -> dict[str, set[int]]:
    """By file, the lines that findings, sites of training and initializations are at."""
    places = [(f.anchor.path, f.anchor.line) for f in report.findings]
    places += [(r.anchor.path, r.anchor.line) for f in report.findings for r in f.related]
    sites = (e.site for e in report.ledger if e.site.loop is not None or e.state == "refused")
    places += [(site.anchor.path, site.anchor.line) for site in sites]
    places += [loop.initialize for loop in report.loops if loop.initialize]
    spoken: dict[str, set[int]] = {}
    for path, line in places:
        spoken.setdefault(path, set()).add(line)
    return spoken


def _view(number: int, outcome: Outcome, spoken: set[int], notes: list[Note]) -> FileView:
    sections = sections_of(outcome, spoken)
    shown = _shown(sections)
    by_line: dict[int, list[Note]] = {}
    for note in notes:
        line = note.finding.anchor.line
        by_line.setdefault(line if line in shown else 0, []).append(note)
    return FileView(number, outcome, sections, {line: tuple(own) for line, own in by_line.items()})


def _shown(sections: Iterable[Section]) -> frozenset[int]:
    """The lines of the file that are on the page."""
    return frozenset(s.above + line.number for s in sections for block in s.blocks for line in block.old)
