"""Knows the marks of Python 2 and of newer Python in a line that does not parse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NewerSyntax:
    """A construct and the first Python version, as (major, minor), that reads it."""

    construct: str
    since: tuple[int, int]


_NAME: Final = r"[A-Za-z_]\w*"
_LOWERCASE_NAME: Final = r"[a-z_][a-z0-9_]*"

# Tried on the line Python's parser complains of, in this order.
_PYTHON_2: Final = (
    (re.compile(r"(?:^|[:;])\s*print\s+[\"'\w`-]|\bprint\s*>>"), "a print statement"),
    (re.compile(r"(?:^|[:;])\s*exec\s+[\"'\w]"), "an exec statement"),
    (re.compile(rf"^\s*except\b[^:]*,\s*{_LOWERCASE_NAME}\s*:"), "`except X, e` in place of `except X as e`"),
    (re.compile(rf"^\s*raise\s+{_NAME}(\.{_NAME})*\s*,"), '`raise X, "message"` in place of `raise X("message")`'),
    (re.compile(r"`[^`]+`"), "backticks in place of `repr()`"),
    (re.compile(r"<>"), "the operator `<>` in place of `!=`"),
    (re.compile(r"(?<![\w.])0[0-7]+(?![\w.])"), "an octal number without `0o`"),
    (re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)[lL]\b"), "a long integer with the suffix `L`"),
    (re.compile(r"\b[uU][rR][\"']"), "a string with the prefix `ur`"),
    (re.compile(rf"^\s*def\s+{_NAME}\s*\([^)]*\("), "a tuple among the parameters of a function"),
    (re.compile(r"\blambda\s*\("), "a tuple among the parameters of a lambda"),
)

_NEWER: Final = (
    (re.compile(rf"^\s*(async\s+)?def\s+{_NAME}\s*\[[^\]]*="), NewerSyntax("a default of a type parameter", (3, 13))),
    (
        re.compile(rf"^\s*(class|type)\s+{_NAME}\s*\[[^\]]*=[^\]]*\]"),
        NewerSyntax("a default of a type parameter", (3, 13)),
    ),
    (re.compile(rf"^\s*(async\s+)?(def|class)\s+{_NAME}\s*\["), NewerSyntax("a type parameter list", (3, 12))),
    (re.compile(rf"^\s*type\s+{_NAME}\s*[\[=]"), NewerSyntax("the `type` statement", (3, 12))),
    (re.compile(r"^\s*except\s*\*"), NewerSyntax("`except*`", (3, 11))),
    (re.compile(r"^\s*except\b[^:(]*,"), NewerSyntax("`except A, B` without parentheses", (3, 14))),
    (re.compile(r"(?<!\w)([tT][rR]?|[rR][tT])[\"']"), NewerSyntax("a template string", (3, 14))),
    (
        re.compile(rf"\[[^\]]*(?<![\w\])*])\*{_NAME}|\*{_NAME}\s*:\s*\*"),
        NewerSyntax("an unpacking in an index", (3, 11)),
    ),
)
_NESTED_F_STRING: Final = NewerSyntax("an f-string with quotes, backslashes or comments inside its braces", (3, 12))
# Text and whole fields, and then a field that the string's own quote cuts short.
_F_STRING: Final = re.compile(
    r"(?<!\w)([fF][rR]?|[rR][fF])(\"(?:[^\"{]|\{[^\"{}]*\})*\{[^\"}]*\"|'(?:[^'{]|\{[^'{}]*\})*\{[^'}]*')"
)
_F_STRING_COMPLAINTS: Final = ("cannot include a backslash", "cannot include '#'")


def python2_construct(line: str, complaint: str) -> str | None:
    """What makes `line`, of which Python 3 complains with `complaint`, Python 2; None if nothing does."""
    if "Missing parentheses in call to 'exec'" in complaint:
        return "an exec statement"
    if "Missing parentheses in call to 'print'" in complaint:
        return "a print statement"
    return next((construct for pattern, construct in _PYTHON_2 if pattern.search(_without_strings(line))), None)


def newer_syntax(line: str, complaint: str) -> NewerSyntax | None:
    """What in `line` needs a Python newer than 3.10, if anything does; `complaint` is what an older parser said."""
    if _F_STRING.search(line) or any(part in complaint for part in _F_STRING_COMPLAINTS):
        return _NESTED_F_STRING
    return next((newer for pattern, newer in _NEWER if pattern.search(_without_strings(line))), None)


def _without_strings(line: str) -> str:
    """`line` without comments and with the text of its plain one-line strings taken out, quotes kept."""
    return re.sub(r"(\"|')(?:\\.|(?!\1)[^\\\n])*\1|#.*", lambda match: (match[1] or "") * 2, line)
