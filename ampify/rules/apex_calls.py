"""Writes a call of a class of apex as the call of torch's successor that does the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ampify.apex_successors import Successor
from ampify.model.anchor import Anchor
from ampify.model.apex import ApexArgument, ApexMention
from ampify.model.edit import AddElement, Edit, Replace
from ampify.model.facts import FileFacts

_BEFORE_VALUE = re.compile(r"(\w+)\s*=\s*$")
_BETWEEN = re.compile(r"\s*,\s*")
_AT_END = re.compile(r"\s*,?\s*\)")


@dataclass(frozen=True, slots=True)
class Unlike:
    """Why a call cannot become one of torch, completing "torch's X"."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """An argument in the text of its call, from `start`, its keyword's, to `end`: the name it goes by in apex, the one
    that torch needs written (None: by position), and whether it goes."""

    start: int
    value: int
    end: int
    parameter: str
    keyword: str | None
    goes: bool


def chosen(found: Successor, mention: ApexMention) -> Successor:
    """The variant of a successor that the arguments of a call ask for."""
    if found.variant is None or mention.arguments is None:
        return found
    parameter, value, variant = found.variant
    given = _by_parameter(found, mention.arguments)
    return variant if isinstance(given, dict) and parameter in given and given[parameter].text == value else found


def called(facts: FileFacts, mention: ApexMention, found: Successor, function: str) -> tuple[Edit, ...] | Unlike:
    """The edits that make a mention's call one of `function`, the name that torch's successor goes by there."""
    assert mention.call is not None
    if mention.arguments is None:
        return Unlike("needs its arguments written out, which are spread from elsewhere")
    given = _by_parameter(found, mention.arguments)
    if isinstance(given, Unlike):
        return given
    stranger = _stranger(found, given)
    if stranger is not None:
        return stranger
    named = [] if facts.text(_span(mention.anchor)) == function else [Replace(mention.anchor, function)]
    spelled = [f"{name}={value}" for name, value in found.spelled.items() if name not in given]
    pieces = _pieces(facts, mention.call, found, given)
    if isinstance(pieces, Unlike):
        return pieces
    if not any(piece.goes or piece.keyword for piece in pieces):
        return (*named, *(AddElement(mention.call, text) for text in spelled))
    text = facts.text(_span(mention.call))
    if "#" in text:
        return Unlike("takes other arguments, and a comment stands among them")
    head = len(facts.text((*mention.call.start, *mention.anchor.end)))
    return (Replace(mention.call, function + _rebuilt(text, pieces, spelled)[head:]),)


def _by_parameter(found: Successor, arguments: tuple[ApexArgument, ...]) -> dict[str, ApexArgument] | Unlike:
    """The arguments by apex's names of them, in the order of the text."""
    given: dict[str, ApexArgument] = {}
    positions = iter(found.parameters)
    for argument in arguments:
        name = argument.name if argument.name is not None else next(positions, "")
        if name not in found.parameters:
            return Unlike(f"has no {argument.name or 'argument at that position'}")
        given[name] = argument
    return given


def _stranger(found: Successor, given: Mapping[str, ApexArgument]) -> Unlike | None:
    for name, argument in given.items():
        if name in found.only and argument.text not in found.only[name]:
            return Unlike(f"has no {name}, which is {argument.text} here")
    return None


def _pieces(
    facts: FileFacts, call: Anchor, found: Successor, given: Mapping[str, ApexArgument]
) -> list[_Piece] | Unlike:
    text = facts.text(_span(call))
    pieces: list[_Piece] = []
    by_name = False
    place = 0
    for name, argument in given.items():
        value, end = (len(facts.text((*call.start, *edge))) for edge in (argument.anchor.start, argument.anchor.end))
        before = _BEFORE_VALUE.search(text, 0, value) if argument.name is not None else None
        goes = name in found.idle or name in found.only
        wanted = found.renamed.get(name, name)
        keyword = None
        if not goes and argument.name is None:
            by_name = by_name or place >= len(found.positions) or found.positions[place] != wanted
            keyword = wanted if by_name else None
            place += 1
        elif not goes and wanted != name:
            keyword = wanted
        pieces.append(_Piece(before.start() if before else value, value, end, name, keyword, goes))
    between = (_BETWEEN.fullmatch(text, a.end, b.start) for a, b in pairwise(pieces))
    if not all(between) or (pieces and not _AT_END.fullmatch(text, pieces[-1].end)):
        return Unlike("takes other arguments, and these are laid out in a way that is not known")
    return pieces


def _rebuilt(text: str, pieces: list[_Piece], spelled: list[str]) -> str:
    """The text of a call with its arguments as they are to be."""
    kept = [piece for piece in pieces if not piece.goes]
    if not kept:
        return text[: pieces[0].start] + ", ".join(spelled) + text[pieces[-1].end :]
    parts = [text[: pieces[0].start]]
    for piece in kept:
        if piece is not kept[0]:
            before = pieces[pieces.index(piece) - 1]
            parts.append(text[before.end : piece.start])
        name = f"{piece.keyword}=" if piece.keyword else text[piece.start : piece.value]
        parts.append(name + text[piece.value : piece.end])
    parts += [f", {element}" for element in spelled]
    return "".join(parts) + text[pieces[-1].end :]


def _span(anchor: Anchor) -> tuple[int, int, int, int]:
    return (*anchor.start, *anchor.end)
