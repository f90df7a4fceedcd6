"""Where gradients are unscaled before something reads them, and where the scale is adapted after steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.moments import Path, block_settles
from ampify.index.syntax import blocks, inside, path_to
from ampify.index.trace import Trace
from ampify.index.values import Frame, Value
from ampify.model import facts as f


@dataclass(frozen=True, slots=True)
class At:
    """A statement of a frame at some depth of an event's stack. `receiver` is the optimizer as the step there spells
    it, if that is in the same function."""

    frame: Frame
    statement: f.Stmt
    depth: int
    event: Event
    receiver: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an event cannot be had right, and what it is about."""

    event: Event
    detail: str


class Unscaling:
    """Answers from a trace, for one loop."""

    def __init__(self, flow: Flow, trace: Trace, backwards: Iterable[Event]) -> None:
        self.flow = flow
        self.trace = trace
        self.backwards = tuple(backwards)

    # Before what reads gradients

    def place(self, reader: Event, optimizer: Value) -> At | Trouble | None:
        """The statement before which an optimizer's gradients are unscaled for a reader; None if that is not needed:
        they are read after the step, or they are not read in training."""
        steps = [s for b in reader.latest | reader.live for s in self.steps_of(b, optimizer) if s.root == reader.root]
        done = self.done(reader, steps)
        if done is not None:
            return None if self.surely_after(reader, done) else Trouble(reader, "a step need not come before this")
        after = [s for s in steps if s.number > reader.number]
        return self.before(reader, min(after, key=lambda s: s.number)) if after else None

    def done(self, reader: Event, steps: list[Event]) -> Event | None:
        """The step that has consumed the gradients that are read, and unscaled them."""
        last = self.last_backward(reader)
        return next((s for s in steps if (last.number if last else -1) < s.number < reader.number), None)

    def last_backward(self, reader: Event) -> Event | None:
        """The last backward before a reader that may have made what it reads."""
        places = {b.anchor for b in reader.latest | reader.live}
        rounds = [e for e in self.trace.events if e.kind == "backward" and e.anchor in places]
        return max((e for e in rounds if e.number < reader.number), key=lambda e: e.number, default=None)

    def surely_after(self, reader: Event, step: Event) -> bool:
        """Whether a step has happened on every way to a place in its function or in one that called it."""
        depth = self.common(reader, step)
        frame, span = reader.stack[depth]
        spans = {step.stack[depth][1]}
        way = path_to(self.flow.scope(frame).body, span)
        return any(block_settles(block[:index], spans) for block, index in way)

    def steps_of(self, backward: Event, optimizer: Value) -> list[Event]:
        """The steps of an optimizer that consume a backward's gradients."""
        own = self.trace.backwards.get((backward.frame, backward.anchor), backward)
        anchors = {s.anchor for o, s in own.feeds.items() if o is optimizer}
        return [e for e in self.trace.events if e.kind == "step" and e.anchor in anchors and optimizer in e.values]

    def before(self, reader: Event, step: Event) -> At | Trouble:
        """The statement before which to unscale: as near to the reader as it happens once a step."""
        depth = self.common(reader, step)
        frame, span = step.stack[depth]
        body = self.flow.scope(frame).body
        way, read = path_to(body, span), path_to(body, reader.stack[depth][1])
        for inner_frame, inner in step.stack[depth + 1 :]:
            inside_it = path_to(self.flow.scope(inner_frame).body, inner)
            if len(inside_it) != 1 or leaves(inside_it[0][0][: inside_it[0][1]]):
                return Trouble(reader, "a condition decides on the step, and not on this")
        earlier = False
        for block, index in self.blocks_of(way):
            level = next((i for i, (b, _) in enumerate(read) if b is block), None)
            if level is not None and read[level][1] < index:
                if leaves(block[read[level][1] : index]):
                    return Trouble(reader, "a way leads past the step, where the scale would not be adapted")
                alone = (block, index) == way[-1] and frame is step.frame
                return self.past_backwards(
                    At(frame, block[read[level][1]], depth, reader, self.receiver(step) if alone else ""), read[level:]
                )
            earlier = earlier or (level is not None and index < read[level][1])
        last = self.last_backward(reader)
        if earlier and last is not None:
            since = f"after the step on line {step.anchor.line}, and before this"
            return Trouble(reader, f"{since}, the backward on line {last.anchor.line} may have added scaled gradients")
        return Trouble(reader, "it happens in other rounds than the step does")

    def past_backwards(self, at: At, way: Path) -> At | Trouble:
        """A place for unscaling, moved into the arms of `if` statements on the way to its reader until no backward is
        left that runs behind it: a step unscales by itself where none of them was taken."""
        spans = [span for b in self.backwards for frame, span in b.stack if frame is at.frame]
        for block, index in way:
            statement = block[index]
            if not any(inside(span, statement.span) for span in spans):
                return replace(at, statement=statement)
            if not isinstance(statement, f.Branch):
                break
        return Trouble(at.event, "the backward runs in the same statement")

    def receiver(self, step: Event) -> str:
        """The optimizer as a step spells it."""
        assert isinstance(step.node, f.Call)
        function = step.node.func
        return self.flow.files[step.frame.path].text(function.value.span) if isinstance(function, f.Attribute) else ""

    @staticmethod
    def common(one: Event, other: Event) -> int:
        """The depth of the innermost frame that both stacks share."""
        depth = -1
        for i, ((frame, span), (frame_too, span_too)) in enumerate(zip(one.stack, other.stack, strict=False)):
            if frame is not frame_too:
                break
            depth = i
            if span != span_too:
                break
        return max(depth, 0)

    def blocks_of(self, way: Path) -> Iterator[tuple[tuple[f.Stmt, ...], int]]:
        """The blocks that decide how often a step happens, the innermost first: a loop over optimizers, or a `with`,
        decides nothing."""
        for level in range(len(way) - 1, -1, -1):
            yield way[level]
            statement = way[level - 1][0][way[level - 1][1]]
            if level == 0 or not (isinstance(statement, f.With) or self.is_inner_loop(statement)):
                return

    def block_of(self, way: Path) -> tuple[tuple[f.Stmt, ...], int]:
        """The innermost of these blocks that is in no loop over optimizers."""
        level = len(way) - 1
        while level > 0 and self.is_inner_loop(way[level - 1][0][way[level - 1][1]]):
            level -= 1
        return way[level]

    def is_inner_loop(self, statement: f.Stmt) -> bool:
        """Whether a statement is a loop that no backward of ours runs in: one over optimizers."""
        if not isinstance(statement, f.For):
            return False
        return not any(inside(span, statement.span) for b in self.backwards for _, span in b.stack)

    def block_key(self, at: At) -> int:
        """Tells the blocks of statements apart."""
        return id(path_to(self.flow.scope(at.frame).body, at.statement.span)[-1][0])

    def fed(self, step: Event) -> bool:
        """Whether a backward surely comes before a step, in each of its rounds."""
        feeding = [b for b in self.backwards if any(s.anchor == step.anchor for s in b.feeds.values())]
        feeding = [b for b in feeding if b.root == step.root]
        if not feeding:
            return step.root not in {b.root for b in self.backwards}
        # Those of the same call of a function, where several calls lead there.
        depth = max(self.common(b, step) for b in feeding)
        feeding = [b for b in feeding if self.common(b, step) == depth]
        frame, span = step.stack[depth]
        spans = {b.stack[depth][1] for b in feeding}
        way = path_to(self.flow.scope(frame).body, span)
        before = any(block_settles(block[:index], spans) for block, index in way)
        return before and all(self.runs_on(b, depth, feeding) for b in feeding[:1])

    def runs_on(self, backward: Event, depth: int, feeding: list[Event]) -> bool:
        """Whether the functions that lead to a backward surely get there, or to another that feeds the same step."""
        for level in range(depth + 1, len(backward.stack)):
            frame = backward.stack[level][0]
            spans = {b.stack[level][1] for b in feeding if len(b.stack) > level and b.stack[level][0] is frame}
            if not block_settles(self.flow.scope(frame).body, spans):
                return False
        return True

    # After steps

    def updates(self, steps: list[Event]) -> Iterator[At | Trouble]:
        """The statements after which the scale is adapted: the last of the steps of each block, once no gradients of
        the old scale wait for another step."""
        groups: dict[int, list[tuple[int, f.Stmt, Event]]] = {}
        inner: dict[int, list[tuple[int, Event]]] = {}
        for step in steps:
            way = path_to(self.flow.scope(step.frame).body, step.stack[-1][1])
            block, index = self.block_of(way)
            groups.setdefault(id(block), []).append((index, block[index], step))
            for outer, at in way[: way.index((block, index))]:
                inner.setdefault(id(outer), []).append((at, step))
        for key, members in groups.items():
            for round_ in _rounds(sorted(members, key=lambda member: member[0]), inner.get(key, [])):
                yield self.update(round_)

    def update(self, members: list[tuple[int, f.Stmt, Event]]) -> At | Trouble:
        """The statement after which the scale is adapted for steps that belong together."""
        _, statement, last = members[-1]
        if self.outer_loop(last):
            return Trouble(last, "a loop in another function steps several optimizers by this statement")
        waiting = self.waiting([step for _, _, step in members if step.anchor == last.anchor], members)
        if waiting is not None:
            return Trouble(last, f"gradients of the backward on line {waiting.anchor.line} still wait for a step")
        return At(last.frame, statement, len(last.stack) - 1, last)

    def waiting(self, rounds: list[Event], members: list[tuple[int, f.Stmt, Event]]) -> Event | None:
        """A backward whose gradients are there when a step is done, in one of its rounds, and wait for another."""
        ours = {step.anchor for _, _, step in members}
        for backward in self.backwards:
            for step in backward.feeds.values():
                crossed = any(backward.root == e.root and backward.number < e.number < step.number for e in rounds)
                if crossed and step.anchor not in ours:
                    return backward
        return None

    def outer_loop(self, step: Event) -> bool:
        """Whether a loop of a calling function goes over optimizers: no backward is in it."""
        mine = {loop for loop in step.loops if loop[0] is not step.frame}
        fed = {b.anchor for b in self.backwards if any(s.anchor == step.anchor for s in b.feeds.values())}
        # All rounds, since each call of a function that trains has loops of its own.
        rounds = [e for e in self.trace.events if e.kind == "backward" and e.anchor in fed]
        return any(all(loop not in b.loops for b in rounds) for loop in mine) and bool(fed)


def _rounds(
    members: list[tuple[int, f.Stmt, Event]], inner: list[tuple[int, Event]]
) -> Iterator[list[tuple[int, f.Stmt, Event]]]:
    """Steps of one block, parted where an optimizer steps again, there or in a block inside it: the scale is adapted in
    between."""
    found: list[tuple[int, f.Stmt, Event]] = []
    for member in members:
        places = {step.anchor for _, _, step in found}
        stepped = {optimizer for _, _, step in found for optimizer in step.values}
        between = {o for at, step in inner if found and found[-1][0] < at < member[0] for o in step.values}
        again = stepped & set(member[2].values) if member[2].anchor not in places else set()
        if again or stepped & between:
            yield found
            found = []
        found.append(member)
    yield found


def leaves(block: Iterable[f.Stmt], *, looping: bool = False) -> bool:
    """Whether a block may be left before its end, to the next round or out of its loop or function; `looping` tells
    that it is part of a loop of its own, which a `continue` or `break` leads no further than."""
    for statement in block:
        if isinstance(statement, f.Return):
            return True
        if isinstance(statement, f.Jump) and statement.kind != "Raise" and not looping:
            return True
        within = looping or isinstance(statement, f.For | f.While)
        if any(leaves(inner, looping=within) for inner in blocks(statement)):
            return True
    return False
