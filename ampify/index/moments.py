"""What has happened by the time a place is reached: what a variable, field or list holds there by then.

The flow has no order of statements; here it is put back, as far as the writes that it noted and the calls under way
at a place tell. A write whose order to the place is not known may have happened, but is not counted on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from ampify.index.events import Event, Stack
from ampify.index.flow import Flow
from ampify.index.store import Write
from ampify.index.syntax import blocks, inside, path_to
from ampify.index.values import NOTHING, Container, Frame, Value, Values
from ampify.model import facts as f

Path: TypeAlias = tuple[tuple[tuple[f.Stmt, ...], int], ...]

EXITS = ("Raise", "Continue", "Break")


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a running program: a frame, the statement it is at, the stack of all frames by then, the loops under
    way, and the number of the run."""

    frame: Frame
    at: f.Span
    stack: Stack
    loops: frozenset[tuple[Frame, f.Span]]
    root: int

    @classmethod
    def of(cls, event: Event) -> Spot:
        """The place of an event."""
        return cls(event.frame, event.statement.span, event.stack, event.loops, event.root)

    @property
    def running(self) -> dict[Frame, f.Span]:
        """The statement that each frame under way is at."""
        return {**dict(self.stack), self.frame: self.at}


class Moments:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._calls: dict[Frame, dict[f.Span, list[Frame]]] = {}
        for callee, sites in flow.callers.items():
            for caller, span in sites:
                self._calls.setdefault(caller, {}).setdefault(span, []).append(callee)

    def values(self, owner: Value, name: str, spot: Spot) -> Values:
        """What `name` of `owner` may hold at a place; nothing if it is set only later."""
        writes = self.flow.store.writes(owner, name)
        given = self.flow.store.read(owner, name, None).difference(*writes.values())
        order = {write: self.over(write, spot) for write in writes}
        done = [write for write in writes if order[write]]
        if not done and not given:
            return NOTHING
        kept = [w for w in done if not isinstance(owner, Frame) or not self.replaced(w, done, spot)]
        if not isinstance(owner, Container):
            kept += [w for w in writes if order[w] is None or (not order[w] and self.recurs(w, spot))]
        return given.union(*(writes[write] for write in kept))

    def elements(self, container: Container, spot: Spot) -> Values:
        """What a container surely was given by the time a place is reached."""
        fields = [name for name in self.flow.store.fields(container) if name.startswith("[")]
        return NOTHING.union(*(self.values(container, name, spot) for name in fields))

    # Order

    def over(self, write: Write, spot: Spot) -> bool | None:
        """Whether a write comes before a place, by the text of the frames that are under way; None if that cannot be
        told."""
        running = spot.running
        under = self.under_way(spot)
        told: bool | None = None
        stack, seen = [write], set()
        while stack:
            frame, span = stack.pop()
            if frame in running:
                at = running[frame]
                within = frame is spot.frame or any(precedes(span, call) for call in under.get(frame, ()))
                if not (span[2:] <= at[:2] or (within and inside(span, at))):
                    return False
                told = True
            elif frame not in seen:
                seen.add(frame)
                callers = self.flow.callers.get(frame, {})
                if callers:
                    stack += callers
                elif self.finished(frame, spot):
                    told = True
                else:
                    return None
        return told

    def under_way(self, spot: Spot) -> dict[Frame, list[f.Span]]:
        """The calls in each frame of the stack that may have led to the next."""
        frames = [*(frame for frame, _ in spot.stack), spot.frame]
        return {
            frame: [span for caller, span in self.flow.callers.get(callee, ()) if caller is frame]
            for frame, callee in pairwise(frames)
            if frame is not callee
        }

    def finished(self, frame: Frame, spot: Spot) -> bool:
        """Whether a frame that nobody calls has run: a module, a constructor, a function around that of the place."""
        scope = self.flow.scope(frame)
        return scope.kind != "function" or scope.name == "__init__" or frame in around(spot.frame)

    def replaced(self, write: Write, done: Iterable[Write], spot: Spot) -> bool:
        """Whether a variable's write is followed by another on every way to a place."""
        frame, span = write
        at = spot.running.get(frame)
        if at is None:
            return False
        path = path_to(self.flow.scope(frame).body, at)
        passed = [statement for block, index in path for statement in block[: index + (frame is spot.frame)]]
        plain = [s for s in passed if isinstance(s, f.Assign) and s.kind != "AugAssign" and s.span[:2] > span[:2]]
        return any(other[0] is frame and inside(other[1], s.span) for other in done for s in plain)

    def recurs(self, write: Write, spot: Spot) -> bool:
        """Whether a later write comes around to a place in a loop that both are in."""
        frame, span = write
        at = spot.running.get(frame)
        if at is None:
            return False
        around = [block[index] for block, index in path_to(self.flow.scope(frame).body, at)]
        return any(isinstance(s, f.For | f.While) and inside(span, s.span) for s in around)

    # Certainty

    def certain(self, owner: Value, name: str, spot: Spot) -> bool:
        """Whether `name` of `owner` is surely set when a place is reached."""
        writes = self.flow.store.writes(owner, name)
        if self.flow.store.read(owner, name, None).difference(*writes.values()):
            return True
        told: dict[Frame, set[f.Span]] = {}
        for frame, span in writes:
            told.setdefault(frame, set()).add(span)
        under = self.under_way(spot)
        if any(self.reached(frame, at, told, under.get(frame, [])) for frame, at in spot.running.items()):
            return True
        return any(frame not in spot.running and self.settled(frame, told, spot) for frame in told)

    def reached(self, frame: Frame, at: f.Span, told: dict[Frame, set[f.Span]], calls: list[f.Span]) -> bool:
        """Whether a frame under way, or what it has called, surely has written when it is at a statement: there before
        one of `calls` that is under way, or, if none is, anywhere in it."""
        spans = self.spans(frame, told, frozenset())
        path = path_to(self.flow.scope(frame).body, at)
        passed = [statement for block, index in path for statement in block[:index]]
        if any(own(block[index], spans) for block, index in path[:-1]) or any(settles(s, spans) for s in passed):
            return True
        if calls:
            return any(inside(span, at) and precedes(span, call) for span in spans for call in calls)
        return bool(path) and settles(path[-1][0][path[-1][1]], spans)

    def settled(self, frame: Frame, told: dict[Frame, set[f.Span]], spot: Spot) -> bool:
        """Whether a frame that nobody in sight calls has run, and surely wrote."""
        return not self.flow.callers.get(frame) and self.finished(frame, spot) and self.sure(frame, told, frozenset())

    def sure(self, frame: Frame, told: dict[Frame, set[f.Span]], seen: frozenset[Frame]) -> bool:
        """Whether a frame, run to its end, surely writes, or calls what does."""
        return frame not in seen and block_settles(self.flow.scope(frame).body, self.spans(frame, told, seen))

    def spans(self, frame: Frame, told: dict[Frame, set[f.Span]], seen: frozenset[Frame]) -> set[f.Span]:
        """The places in a frame that write, or call what surely does."""
        calls = self._calls.get(frame, {})
        inner = seen | {frame}
        sure = {span for span, callees in calls.items() if all(self.sure(c, told, inner) for c in callees)}
        return sure | told.get(frame, set())


def around(frame: Frame) -> list[Frame]:
    """The frames that a frame's function is defined in, from the inside out."""
    found = []
    current = frame.outer
    while current is not None:
        found.append(current)
        current = current.outer
    return found


def precedes(span: f.Span, call: f.Span) -> bool:
    """Whether an expression is evaluated before a call of the same statement is made."""
    return span != call and (inside(span, call) or span[2:] <= call[:2])


def apart(one: Event, other: Event, flow: Flow) -> bool:
    """Whether of two events at most one happens, since they stand in different branches of one function."""
    for (frame, span), (frame_too, span_too) in zip(one.stack, other.stack, strict=False):
        if frame is not frame_too:
            return False
        if span != span_too:
            body = flow.scope(frame).body
            first, second = sorted((path_to(body, span), path_to(body, span_too)), key=lambda path: position(path[-1]))
            return exclusive(first, second)
    shared = [p for p in one.parents if p in other.parents and p.kind == "IfExp"]
    return any(isinstance(p, f.Operation) and side(p, one.node) != side(p, other.node) for p in shared)


def own(statement: f.Stmt, spans: Iterable[f.Span]) -> bool:
    """Whether a statement itself, its blocks apart, holds one of some ranges."""
    inner = [s.span for block in blocks(statement) for s in block]
    return any(inside(span, statement.span) and not any(inside(span, i) for i in inner) for span in spans)


def settles(statement: f.Stmt, spans: set[f.Span]) -> bool:
    """Whether running a statement to its end surely runs one of some ranges; a `for` is taken to run at least once."""
    if own(statement, spans):
        return True
    match statement:
        case f.Branch():
            return statement.exhaustive and all(leaves(arm) or block_settles(arm, spans) for arm in statement.arms)
        case f.For() | f.With():
            return block_settles(statement.body, spans)
        case f.Try():
            whole = block_settles(statement.body + statement.orelse, spans)
            handled = all(leaves(h) or block_settles(h, spans) for h in statement.handlers)
            return block_settles(statement.final, spans) or (whole and handled)
    return False


def block_settles(block: tuple[f.Stmt, ...], spans: set[f.Span]) -> bool:
    """Whether running a block surely runs one of some ranges."""
    return any(settles(statement, spans) for statement in block)


def leaves(block: tuple[f.Stmt, ...]) -> bool:
    """Whether control never gets to the end of a block."""
    return any(isinstance(s, f.Return) or (isinstance(s, f.Jump) and s.kind in EXITS) for s in block)


def conditional(body: tuple[f.Stmt, ...], span: f.Span, beyond: f.Span) -> bool:
    """Whether a range stands under a condition that a place does not stand under."""
    around = [block[index] for block, index in path_to(body, span)]
    return any(isinstance(s, f.Branch | f.While) and not inside(beyond, s.span) and s.span != span for s in around)


def position(step: tuple[tuple[f.Stmt, ...], int]) -> tuple[int, int]:
    """Where the statement of a path's last step stands."""
    return step[0][step[1]].span[:2]


def exclusive(first: Path, second: Path) -> bool:
    """Whether the ways to two statements, in the order of the text, part in a branch, or the first leaves before the
    second."""
    for level, ((block, index), (block_too, index_too)) in enumerate(zip(first, second, strict=False)):
        if block is not block_too:
            return isinstance(first[level - 1][0][first[level - 1][1]], f.Branch)
        if index != index_too:
            return any(leaves(inner[i:]) for inner, i in first[level + 1 :]) or leaves(block[index : index + 1])
    return False


def side(choice: f.Operation, node: f.Expr) -> int:
    """Which operand of a conditional expression holds a node."""
    return next(i for i, operand in enumerate(choice.operands) if inside(node.span, operand.span))
