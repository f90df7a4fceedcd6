"""What people type who come from other tools, and what it is called here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

_SHOWN: Final = "the diff is shown anyway, and nothing is written without `--write`"
_WRITTEN: Final = "`--write` writes the changes"
# By how formatters and linters say it.
_OPTIONS: Final[Mapping[str, str]] = {
    "--diff": _SHOWN,
    "--dry-run": _SHOWN,
    "--fix": _WRITTEN,
    "--in-place": _WRITTEN,
    "--unsafe-fixes": "`--unsafe` makes changes, too, that a person has to review",
    "--output-format": "`--format` chooses what is printed",
    "--extend-select": "`--select` names the rules that are heeded alone",
    "--extend-exclude": "`--exclude` can be given several times",
}
_WORDS: Final[Mapping[str, str]] = {
    "check": "`ampify --check PATH` exits with 1 if anything would change",
    "diff": "`ampify PATH` shows the diff",
    "fix": "`ampify PATH --write` writes the changes",
    "format": "`ampify PATH --write` writes the changes",
    "help": "`ampify --help` tells of all options",
    "rule": "`ampify explain CODE` explains one rule, `ampify rules` lists all",
    "version": "`ampify --version` shows it",
}


def option_advice(option: str) -> str | None:
    """What an option of another tool is called here; None for one that none of them has."""
    return _OPTIONS.get(option)


def command_advice(word: str, commands: Collection[str]) -> str | None:
    """What somebody meant by a first word that is neither a command nor a path; None if nothing is like it."""
    if word in _WORDS:
        return _WORDS[word]
    near = get_close_matches(word.lower(), sorted(commands), n=1, cutoff=0.7)
    return f"did you mean `ampify {near[0]}`?" if near else None
