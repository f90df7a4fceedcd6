"""Cuts a document to a length, where it is told what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ampify.report.wording import counted


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a document: a head that is always there, and items that are there as far as there is room.

    `noun` is what an item is called where some are left out; `share` how much of the room that is left the part may
    take before the parts after it have had theirs; `closing` ends it.
    """

    head: str
    items: tuple[str, ...] = ()
    noun: str = ""
    share: float = 1.0
    closing: str = ""


def fitted(parts: Sequence[Part], limit: int, where_else: str) -> str:
    """The parts, one after the other, in at most `limit` characters if their heads have room in that.

    Where items had to go, the part says how many, and `where_else` to find them.
    """
    notices = [_notice(part, len(part.items), where_else) for part in parts]
    room = limit - sum(
        len(part.head) + len(part.closing) + len(notice) for part, notice in zip(parts, notices, strict=True)
    )
    taken = _allotted(parts, room)
    return "".join(_rendered(part, number, where_else) for part, number in zip(parts, taken, strict=True))


def _allotted(parts: Sequence[Part], room: int) -> list[int]:
    """How many items of each part there is room for: first within the shares, then in what was left over."""
    taken = [0] * len(parts)
    for sharing in (True, False):
        for index, part in enumerate(parts):
            allowance = int(room * part.share) if sharing else room
            while taken[index] < len(part.items) and len(part.items[taken[index]]) <= allowance:
                allowance -= len(part.items[taken[index]])
                room -= len(part.items[taken[index]])
                taken[index] += 1
    return taken


def _rendered(part: Part, number: int, where_else: str) -> str:
    left_out = len(part.items) - number
    notice = _notice(part, left_out, where_else) if left_out else ""
    return f"{part.head}{''.join(part.items[:number])}{notice}{part.closing}"


def _notice(part: Part, left_out: int, where_else: str) -> str:
    return f"\n_{counted(left_out, f'more {part.noun}')} left out here: {where_else}_\n" if part.items else ""
