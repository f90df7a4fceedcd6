"""The lines of the files that a report speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ampify.model.anchor import Anchor
from ampify.model.plan import Report
from ampify.source import split_lines


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The lines of each file as it was read, without their ends."""

    lines: Mapping[str, tuple[str, ...]]

    def code(self, anchor: Anchor) -> str:
        """The text at a place, on one line; empty where the file is not known."""
        lines = self.lines.get(anchor.path, ())[anchor.line - 1 : anchor.end_line]
        if not lines or anchor.end == anchor.start:
            return " ".join("".join(lines).split())
        # The end first: it counts on a line that may be the first one, too.
        *others, last = lines
        first, *rest = [*others, last[: anchor.end_column]]
        return " ".join("\n".join([first[anchor.column :], *rest]).split())


def read_excerpts(report: Report) -> Excerpts:
    """The lines of all files that were read."""
    sources = (outcome.before for outcome in report.outcomes if outcome.before is not None)
    return Excerpts({source.path: lines_of(source.text) for source in sources})


def lines_of(text: str) -> tuple[str, ...]:
    """The lines of a text, without their ends."""
    return tuple(line.rstrip("\r\n") for line in split_lines(text))
