"""Reads what a rule's docstring says under its headings, and makes `docs/rules.md` and `ampify explain` of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent

from ampify.rules import Rule, all_rules

FIXING = ("What it does", "Why it matters", "Before", "After", "Fix safety")
FINDING = ("What it does", "Why it matters", "Before", "Hint")
# For what a stage other than the rules reports: often no code that runs would show it.
STAGE = ("What it does", "Why it matters", "Hint")
CODE_HEADINGS = ("Before", "After")

_HEADING = re.compile(r"^(?P<title>\S.*)\n-{3,}\n", re.MULTILINE)
_INTRODUCTION = """\
# Rules

Made from the rules' docstrings by `make docs`; change it there. `ampify explain CODE` prints one of them.

0xx input · 1xx set-up · 2xx backward, step, clip, gradients · 3xx numerics · 4xx checkpoints · 5xx legacy APIs ·
6xx frameworks · 9xx failures of ampify itself
"""


@dataclass(frozen=True, slots=True)
class Documentation:
    """A rule's docstring: its first line, and its sections as (heading, text), code sections dedented."""

    summary: str
    sections: tuple[tuple[str, str], ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings, in order."""
        return tuple(heading for heading, _ in self.sections)

    def section(self, heading: str) -> str | None:
        """The text under a heading, None if there is no such section."""
        return dict(self.sections).get(heading)


def read_documentation(docstring: str) -> Documentation:
    """The parts of a rule's docstring."""
    summary, *parts = _HEADING.split(cleandoc(docstring))
    pairs = zip(parts[::2], parts[1::2], strict=True)
    sections = tuple((heading, _body(heading, text)) for heading, text in pairs)
    return Documentation(summary.strip(), sections)


def explanation(rule: Rule) -> str:
    """One rule in full, for a terminal."""
    documentation = read_documentation(rule.documentation)
    parts = [f"{rule.code} {rule.name}", documentation.summary]
    for heading, text in documentation.sections:
        shown = _indented(text) if heading in CODE_HEADINGS else text
        parts.append(f"{heading}\n{'-' * len(heading)}\n{shown}")
    return "\n\n".join(parts) + "\n"


def rules_page(rules: Iterable[Rule]) -> str:
    """All rules, as the page `docs/rules.md`."""
    documented = [(rule, read_documentation(rule.documentation)) for rule in rules]
    table = ["| code | name | |", "|---|---|---|"]
    table += [f"| [{r.code}](#{_slug(r)}) | `{r.name}` | {d.summary} |" for r, d in documented]
    pages = ["\n\n".join(_page(rule, documentation)) for rule, documentation in documented]
    return "\n\n".join([_INTRODUCTION.rstrip(), "\n".join(table), *pages]) + "\n"


def _page(rule: Rule, documentation: Documentation) -> Iterator[str]:
    yield f"## {rule.code} {rule.name}"
    yield documentation.summary
    for heading, text in documentation.sections:
        yield f"### {heading}"
        yield f"```python\n{text}\n```" if heading in CODE_HEADINGS else text


def _body(heading: str, text: str) -> str:
    return dedent(text).strip("\n") if heading in CODE_HEADINGS else text.strip()


def _slug(rule: Rule) -> str:
    return f"{rule.code.lower()}-{rule.name}"


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" if line else line for line in code.split("\n"))


def main(arguments: list[str]) -> None:
    """Writes the page to the file named first, `docs/rules.md` if none is."""
    path = Path(arguments[0] if arguments else "docs/rules.md")
    path.write_text(rules_page(all_rules()), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
