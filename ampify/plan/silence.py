"""Comments that silence: `# ampify: ignore[CODE]` on a line, `# ampify: skip-file` in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from tokenize import COMMENT, generate_tokens
from typing import TYPE_CHECKING

from ampify.model.anchor import Anchor
from ampify.model.finding import Finding

if TYPE_CHECKING:  # it takes long to load
    from ampify.model.facts import FileFacts

UNUSED_IGNORE = ("AMP009", "unused-ignore")

_SKIP = re.compile(rb"#\s*ampify:\s*skip-file\b")
_DIRECTIVE = re.compile(r"#\s*ampify:\s*(?P<word>[\w-]*)\s*(?P<list>\[(?P<codes>[^\]]*)\])?")


@dataclass(frozen=True, slots=True)
class Silence:
    """One `ignore` comment; without `codes` it silences every finding of its line."""

    anchor: Anchor
    codes: tuple[str, ...]

    def covers(self, finding: Finding) -> bool:
        """Whether it silences the finding."""
        where = finding.anchor
        # A comment on the last line of a compound statement belongs to the last statement of its body.
        lines = {where.line} if where.compound else {where.line, where.end_line}
        named = not self.codes or finding.code in self.codes
        return named and where.path == self.anchor.path and self.anchor.line in lines


@dataclass(frozen=True, slots=True)
class Comments:
    """All comments to ampify in a project: files to skip, findings to silence, and what could not be understood."""

    skipped: frozenset[str]
    silences: tuple[Silence, ...]
    unknown: tuple[Finding, ...]

    def silenced(self, finding: Finding) -> bool:
        """Whether a comment asks not to hear of this finding."""
        return finding.anchor.path in self.skipped or any(silence.covers(finding) for silence in self.silences)

    def unused(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Findings on the comments that silence none of `findings`, or name a code that does not occur there."""
        said = tuple(findings)
        return tuple(found for silence in self.silences if (found := _unused(silence, said))) + self.unknown


def read_comments(files: Iterable[FileFacts]) -> Comments:
    """The comments to ampify in these files."""
    skipped: set[str] = set()
    silences: list[Silence] = []
    unknown: list[Finding] = []
    for anchor, directive in (pair for facts in files for pair in _directives(facts)):
        if directive["word"] == "skip-file":
            skipped.add(anchor.path)
        elif directive["word"] == "ignore":
            silences.append(Silence(anchor, tuple(re.findall(r"\w+", (directive["codes"] or "").upper()))))
        else:
            message = f"`{directive[0].strip()}` is no comment that ampify obeys"
            unknown.append(Finding(*UNUSED_IGNORE, anchor, message, "write `ignore[CODE]` or `skip-file`"))
    kept = tuple(silence for silence in silences if silence.anchor.path not in skipped)
    return Comments(frozenset(skipped), kept, tuple(f for f in unknown if f.anchor.path not in skipped))


def asks_to_be_skipped(raw: bytes) -> bool:
    """Whether a file that cannot be read as Python says that it is to be skipped."""
    return _SKIP.search(raw) is not None


def _directives(facts: FileFacts) -> Iterator[tuple[Anchor, re.Match[str]]]:
    # Reading tokens takes long, and hardly any file speaks to ampify.
    if not any("ampify:" in line for line in facts.lines):
        return
    lines = (line.rstrip("\r\n") + "\n" for line in facts.lines)
    for token in generate_tokens(lambda: next(lines, "")):
        directive = _DIRECTIVE.search(token.string) if token.type == COMMENT else None
        if directive:
            line, column = token.start
            yield Anchor(facts.path, line, column + directive.start(), *token.end, "comment"), directive


def _unused(silence: Silence, findings: tuple[Finding, ...]) -> Finding | None:
    covered = {finding.code for finding in findings if silence.covers(finding)}
    if not silence.codes:
        message = None if covered else "this comment silences nothing: there is no finding on its line"
    else:
        idle = [code for code in silence.codes if code not in covered]
        message = f"this comment silences no {', '.join(idle)} on its line" if idle else None
    return Finding(*UNUSED_IGNORE, silence.anchor, message, "take it away, or correct its code") if message else None
