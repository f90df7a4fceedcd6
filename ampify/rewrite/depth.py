"""How deeply code nests, and room on the stack for it: LibCST recurses, and its parser crashes where room ends."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Callable
from typing import Final, TypeVar

from ampify.rewrite.failure import RewriteFailed
from ampify.stack import with_much_room

_Result = TypeVar("_Result")

# CPython itself reads no more open brackets than this.
MOST_BRACKETS: Final = 200
# CPython's parser gives up at about this depth of operators and calls (three levels a frame of its default limit).
MOST_DEPTH: Final = 3_000
# Up to here the ordinary stack and recursion limit do, with much to spare.
COMFORTABLE: Final = 40
_NESTING_WORDS: Final = frozenset(keyword.kwlist) - {"True", "False", "None"}
_NEUTRAL: Final = frozenset({"=", ":", ";"})


def depth_of(text: str) -> int:
    """An upper bound for how deeply LibCST nests when it reads `text`; raises RewriteFailed beyond what it can read.

    Of each bracket that is open the operators, words and calls since the last comma are counted.
    """
    deepest = elifs = 0
    open_counts = [0]
    for kind, string in _tokens(text):
        if kind == tokenize.NEWLINE or string == ",":
            open_counts[-1] = 0
        elif string in ("(", "[", "{"):
            open_counts[-1] += 1
            open_counts.append(0)
        elif string in (")", "]", "}"):
            del open_counts[max(1, len(open_counts) - 1) :]
        elif string == "elif":
            elifs += 1
        elif _nests(kind, string):
            open_counts[-1] += 1
        inside = _brackets_in(string) if kind == tokenize.STRING else 0
        _refuse_beyond(len(open_counts) - 1 + inside, MOST_BRACKETS, "brackets")
        deepest = max(deepest, sum(open_counts) + inside)
    _refuse_beyond(deepest + elifs, MOST_DEPTH, "operators, calls and branches")
    return deepest + elifs


def with_room_for(depth: int, work: Callable[[], _Result]) -> _Result:
    """What `work` returns, called where code nested `depth` deep does not exhaust the stack."""
    if depth <= COMFORTABLE:
        return work()
    return with_much_room(work)


def _tokens(text: str) -> list[tuple[int, str]]:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        return [(token.type, token.string) for token in tokenize.generate_tokens(io.StringIO(plain).readline)]
    except (tokenize.TokenError, SyntaxError) as error:
        raise RewriteFailed(f"its code cannot be split into words: {error}") from error


def _nests(kind: int, string: str) -> bool:
    if kind == tokenize.OP:
        return string not in _NEUTRAL
    return kind == tokenize.STRING or (kind == tokenize.NAME and string in _NESTING_WORDS)


def _brackets_in(string: str) -> int:
    """How deep brackets open in the expressions of an f-string, at most; before Python 3.12 it is a single token."""
    prefix = string[: min(string.find(quote) for quote in "'\"" if quote in string)]
    if "f" not in prefix.lower():
        return 0
    depth = deepest = 0
    for character in string:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _refuse_beyond(found: int, limit: int, what: str) -> None:
    if found > limit:
        raise RewriteFailed(f"its code nests more than {limit} {what}, which cannot be edited safely")
