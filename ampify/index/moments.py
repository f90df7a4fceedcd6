"""What has happened by the time a place is reached: what a variable, field or list holds there by then.

The flow has no order of statements; here it is put back, as far as the writes that it noted and the calls under way
at a place tell. A write whose order to the place is not known may have happened, but is not counted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from ampify.index.events import Event, Stack
from ampify.index.flow import Flow
from ampify.index.store import Write
from ampify.index.syntax import blocks, dotted_name, inside, path_to
from ampify.index.values import NOTHING, Container, Frame, Value, Values
from ampify.model import facts as f

Path: TypeAlias = tuple[tuple[tuple[f.Stmt, ...], int], ...]

EXITS = ("Raise", "Continue", "Break")
PROGRAM_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit"})


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
        kept = done if not isinstance(owner, Frame) else self.lasting(done, spot)
        if isinstance(owner, Frame) and self.is_overwritten(owner, name, done, spot):
            given = NOTHING
        if not isinstance(owner, Container):
            kept += [w for w in writes if order[w] is None or (not order[w] and self.recurs(w, spot))]
        return given.union(*(writes[write] for write in kept))

    def elements(self, container: Container, spot: Spot) -> Values:
        """What a container surely was given by the time a place is reached."""
        fields = [name for name in self.flow.store.fields(container) if name.startswith("[")]
        return NOTHING.union(*(self.values(container, name, spot) for name in fields))

    # Order

    def over(self, write: Write, spot: Spot) -> bool | None:
        """Whether a write comes before a place, by the text of the frames that are under way, on any of the ways to
        the write; None if that cannot be told."""
        running = spot.running
        under = self.under_way(spot)
        untold = False
        stack, seen = [write], set()
        while stack:
            frame, span = stack.pop()
            if frame in running:
                at = running[frame]
                within = frame is spot.frame or self.precedes(frame, span, under)
                if span[2:] <= at[:2] or (within and inside(span, at)):
                    return True
            elif frame not in seen:
                seen.add(frame)
                callers = self.flow.callers.get(frame, {})
                if callers:
                    stack += callers
                elif self.finished(frame, spot):
                    return True
                else:
                    untold = True
        return None if untold else False

    def precedes(self, frame: Frame, span: f.Span, under: Mapping[Frame, list[f.Span]]) -> bool:
        """Whether a call is over before another of its statement, that is under way; what it is assigned to is not."""
        return span in self._calls.get(frame, {}) and any(precedes(span, call) for call in under.get(frame, ()))

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

    def lasting(self, done: list[Write], spot: Spot) -> list[Write]:
        """The writes to a variable that are not followed by another one on every way to a place."""
        last: dict[Frame, f.Span] = {}
        for frame, span in done:
            if self.certainly_follows(frame, span, spot) and span > last.get(frame, (0, 0, 0, 0)):
                last[frame] = span
        return [(frame, span) for frame, span in done if frame not in last or span >= last[frame]]

    def is_overwritten(self, owner: Frame, name: str, done: Iterable[Write], spot: Spot) -> bool:
        """Whether what a parameter was given is surely gone by the time a place is reached."""
        parameter = any(p.name == name for p in self.flow.scope(owner).parameters)
        return parameter and any(frame is owner and self.certainly_follows(frame, span, spot) for frame, span in done)

    def certainly_follows(self, frame: Frame, span: f.Span, spot: Spot) -> bool:
        """Whether a plain assignment stands on every way to the place where a frame is."""
        at = spot.running.get(frame)
        body = self.flow.scope(frame).body
        if at is None:
            return False
        way, place = path_to(body, span), path_to(body, at)
        if not 0 < len(way) <= len(place) or way[-1][0] is not place[len(way) - 1][0]:
            return False
        statement = way[-1][0][way[-1][1]]
        passed = way[-1][1] < place[len(way) - 1][1] + (frame is spot.frame)
        return passed and isinstance(statement, f.Assign) and statement.kind != "AugAssign"

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
        told = self.told(writes)
        under = self.under_way(spot)
        if any(self.reached(frame, at, told.get(frame, set()), under) for frame, at in spot.running.items()):
            return True
        past = [frame for frame in told if frame not in spot.running]
        return any(self.settled(frame, told, spot) or self.constructs(frame, owner, told[frame]) for frame in past)

    def constructs(self, frame: Frame, owner: Value, spans: set[f.Span]) -> bool:
        """Whether a frame makes an object and surely runs one of some ranges: what is at hand as that object has been
        through it, whichever way it came."""
        scope = self.flow.scope(frame)
        if scope.name != "__init__" or not scope.parameters or not self.runs_through(frame, spans):
            return False
        return self.flow.store.read(frame, scope.parameters[0].name, None) == frozenset((owner,))

    def told(self, writes: Iterable[Write]) -> dict[Frame, set[f.Span]]:
        """Writes by frame, with the calls of frames that surely write when they are run to their end."""
        found: dict[Frame, set[f.Span]] = {}
        sure: set[Frame] = set()
        stack = list(writes)
        while stack:
            frame, span = stack.pop()
            spans = found.setdefault(frame, set())
            spans.add(span)
            calls = self.flow.callers.get(frame, {})
            if calls and frame not in sure and self.runs_through(frame, spans):
                sure.add(frame)
                stack += [(caller, at) for caller, at in calls if sure.issuperset(self._calls[caller][at])]
        return found

    def reached(self, frame: Frame, at: f.Span, spans: set[f.Span], under: Mapping[Frame, list[f.Span]]) -> bool:
        """Whether a frame under way surely has passed one of some ranges when it is at a statement: there before a
        call that is `under` way, or, if none is, anywhere in it."""
        body = self.flow.scope(frame).body
        place = path_to(body, at)
        if any(passed(path_to(body, span), place, spans) for span in spans):
            return True
        if under.get(frame):
            return any(inside(span, at) and self.precedes(frame, span, under) for span in spans)
        return bool(place) and settles(place[-1][0][place[-1][1]], spans)

    def settled(self, frame: Frame, told: dict[Frame, set[f.Span]], spot: Spot) -> bool:
        """Whether a frame that nobody in sight calls has run, and surely wrote."""
        alone = not self.flow.callers.get(frame) and self.finished(frame, spot)
        return alone and self.runs_through(frame, told[frame])

    def runs_through(self, frame: Frame, spans: set[f.Span]) -> bool:
        """Whether a frame, run to its end, surely runs one of some ranges."""
        ways = (path_to(self.flow.scope(frame).body, span) for span in spans)
        return any(settles(way[0][0][way[0][1]], spans) for way in ways if way)


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
    return any(isinstance(s, f.Return) or (isinstance(s, f.Jump) and s.kind in EXITS) or _ends(s) for s in block)


def _ends(statement: f.Stmt) -> bool:
    """Whether a statement ends the program."""
    call = statement.value if isinstance(statement, f.Evaluate) else None
    return isinstance(call, f.Call) and dotted_name(call.func) in PROGRAM_EXITS


def conditional(body: tuple[f.Stmt, ...], span: f.Span, beyond: f.Span) -> bool:
    """Whether a range stands under a condition that a place does not stand under."""
    around = [block[index] for block, index in path_to(body, span)]
    return any(isinstance(s, f.Branch | f.While) and not inside(beyond, s.span) and s.span != span for s in around)


def passed(way: Path, place: Path, spans: set[f.Span]) -> bool:
    """Whether a place is reached only after the statement that `way` leads to has settled one of some ranges."""
    for level, (block, index) in enumerate(way):
        if level == len(place) or block is not place[level][0]:
            return False
        if index != place[level][1]:
            return index < place[level][1] and settles(block[index], spans)
    return len(way) < len(place)


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
