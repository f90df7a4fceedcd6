"""Which statements run the model and build the loss of a backward: what is to stand under autocast, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ampify import catalog
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.gradless import Gradless
from ampify.index.penalty_forwards import PenaltyForwards
from ampify.index.probabilities import Probabilities
from ampify.index.slices import ANY, Slices, reads
from ampify.index.syntax import first_argument, in_order, inside, path_to, spelled
from ampify.index.trace import Trace
from ampify.index.values import Derived, Frame, FunctionValue, Instance, Method, Opaque, Value
from ampify.model import facts as f

Block: TypeAlias = tuple[f.Stmt, ...]

# What must not run under autocast, or must not be parted from what is around it.
BARRIERS = frozenset({"backward", "backward_call", "step", "unknown_step", "clip", "grad_read", "autograd_grad"})
# Methods of a module that do not run it.
QUIET = frozenset(
    {*catalog.PARAMETER_METHODS, *catalog.SAME_OBJECT_METHODS, *catalog.DEVICE_METHODS, "state_dict"}
    | {"load_state_dict", "zero_grad", "register_buffer", "add_module", "apply", "children", "modules"}
)


@dataclass(slots=True)
class Picked:
    """The statements of one block, by position, that a loss is built by; `frame` and `depth` tell from where, on the
    stack of `event`."""

    block: Block
    frame: Frame
    depth: int
    event: Event
    positions: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a block, both ends included, as met on the way to a backward."""

    first: f.Stmt
    last: f.Stmt
    frame: Frame
    depth: int
    event: Event


class Regions:
    """Answers from a trace."""

    def __init__(self, flow: Flow, trace: Trace) -> None:
        self.flow = flow
        self.trace = trace
        self.slices = Slices(flow, trace)
        self.probabilities = Probabilities(flow, trace)
        self.gradless = Gradless(flow, trace, self.slices)
        self.penalties = PenaltyForwards(flow, trace, self.slices)
        self._running: dict[Frame, bool] = {}

    def stretches(self, backwards: Iterable[Event]) -> tuple[list[Stretch], list[Event]]:
        """What is to stand under autocast for these backwards, in the order of the text, and the backwards for which
        nothing was found."""
        picked: dict[int, Picked] = {}
        lost = []
        for event in backwards:
            found = list(self.picked(event))
            running = [one for one in found if any(self.stretched(one))]
            torn = any(self.is_torn(one.block[i], one.frame) for one in found for i in one.positions)
            if torn or not (running or self.runs_inline(event)):
                lost.append(event)
            for one in found:
                same = picked.setdefault(id(one.block), one)
                same.positions |= one.positions
        found_all = [stretch for one in picked.values() for stretch in self.stretched(one)]
        return [one for one in found_all if not any(_within(one, other) for other in found_all)], lost

    def only_penalized(self, backward: Event) -> bool:
        """Whether all that runs a model for a loss stays out of autocast, for the gradients that are computed of it."""
        built = [(one.block[i], one.frame) for one in self.picked(backward) for i in one.positions]
        kept = [pair for pair in built if self.penalties.is_own(*pair)]
        return bool(kept) and not any(self.forwards(*pair) for pair in built if pair not in kept)

    def runs_inline(self, backward: Event) -> bool:
        """Whether the loss of a backward is an expression that runs the model."""
        return self.runs_model(loss_of(backward), backward.frame)

    # The statements that a loss depends on

    def picked(self, backward: Event) -> Iterator[Picked]:
        """By block, from the backward outwards, the statements that build its loss."""
        needed = frozenset(reads(loss_of(backward)))
        innermost = self.innermost_loop(backward)
        found_any = False
        for depth in range(len(backward.stack) - 1, -1, -1):
            frame, span = backward.stack[depth]
            for block, index in reversed(path_to(self.flow.scope(frame).body, span)):
                if found_any and (frame, block[index].span) == innermost:
                    return
                one = Picked(block, frame, depth, backward)
                needed = self.slices.back(block[:index], frame, needed, one.positions)
                if one.positions:
                    found_any = found_any or any(self.stretched(one))
                    yield one
            if depth:
                caller, at = backward.stack[depth - 1]
                if found_any:
                    # Of what callers prepare, only what a model computed matters still.
                    needed = frozenset(name for name in needed if self.is_computed(name, frame))
                needed = self.slices.outside(needed, frame, caller, at)

    def is_computed(self, name: str, frame: Frame) -> bool:
        """Whether a model may have computed what a dotted name means."""
        if name.startswith(ANY):
            return False
        return any(isinstance(v, Derived) for v in self.flow.evaluate(spelled(name), frame))

    @staticmethod
    def innermost_loop(backward: Event) -> tuple[Frame, f.Span] | None:
        """The loop whose rounds a backward is one of; what precedes it is there before, for all of them."""
        depths = {frame: depth for depth, (frame, _) in enumerate(backward.stack)}
        loops = [loop for loop in backward.loops if loop[0] in depths]
        return max(loops, key=lambda loop: (depths[loop[0]], loop[1][:2]), default=None)

    def probability_losses(self, backwards: Iterable[Event]) -> list[Event]:
        """The losses that autocast refuses and that the losses of these backwards are built by."""
        picked = [one for event in backwards for one in self.picked(event)]
        return self.probabilities.within((one.block[i], one.frame) for one in picked for i in one.positions)

    def parted(self, loss: Event, backwards: Iterable[Event]) -> bool:
        """Whether a loss that autocast refuses stays outside, since its statement is one by itself."""
        picked = (one for event in backwards for one in self.picked(event))
        return any(one.block[i] is loss.statement for one in picked for i in one.positions)

    def mixed(self, stretch: Stretch) -> bool:
        """Whether a stretch runs a trained model both with gradients and without."""
        span = (*stretch.first.span[:2], *stretch.last.span[2:])
        block, _ = path_to(self.flow.scope(stretch.frame).body, stretch.first.span)[-1]
        return any(inside(s.span, span) and self.gradless.hides(s, stretch.frame) for s in block)

    def is_torn(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a statement runs the model beside something that must not be cast."""
        if not isinstance(statement, f.Assign | f.Evaluate) or not self.is_barrier(statement, frame):
            return False
        if self.penalties.is_own(statement, frame):
            return False
        calls = (node for node, _ in in_order(statement.value) if isinstance(node, f.Call))
        return any(self.is_forward(call, frame) and not self.leads_to_barrier(call, frame) for call in calls)

    def leads_to_barrier(self, call: f.Call, frame: Frame) -> bool:
        """Whether what a call runs is for the function to see to that it enters."""
        return any((target.path, target.scope) in self._barriers for target in self.slices.targets(call, frame))

    # From statements to stretches

    def stretched(self, picked: Picked) -> Iterator[Stretch]:
        """The runs of picked statements that nothing parts, from the first that runs the model to the last."""
        for run in self.runs(picked):
            statements = [picked.block[i] for i in run]
            first = next((i for i, s in enumerate(statements) if self.forwards(s, picked.frame)), None)
            if first is None:
                first = next((i for i, s in enumerate(statements) if self.computes(s, picked.frame)), None)
            if first is not None:
                yield Stretch(statements[first], statements[-1], picked.frame, picked.depth, picked.event)

    def runs(self, picked: Picked) -> list[list[int]]:
        """Positions, put together where no barrier is between."""
        found: list[list[int]] = []
        last = -1
        for position in sorted(picked.positions):
            if self.is_barrier(picked.block[position], picked.frame):
                continue
            between = picked.block[last + 1 : position] if last >= 0 else ()
            if last < 0 or any(self.is_barrier(s, picked.frame) for s in between):
                found.append([])
            found[-1].append(position)
            last = position
        return found

    def is_barrier(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a statement runs what must not be cast, here or in what it calls."""
        spans = self._barriers.get((frame.path, frame.scope), ())
        apart = self.probabilities.is_own(statement, frame) or self.gradless.is_block(statement, frame)
        apart = apart or self.penalties.is_own(statement, frame)
        return apart or any(inside(span, statement.span) for span in spans)

    @cached_property
    def _barriers(self) -> dict[tuple[str, int], set[f.Span]]:
        found: dict[tuple[str, int], set[f.Span]] = {}
        for event in self.trace.events:
            if event.kind in BARRIERS:
                for frame, span in event.stack:
                    found.setdefault((frame.path, frame.scope), set()).add(span)
        return found

    # What runs a model

    def forwards(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a statement, with all that it calls, runs a module."""
        return any(self.runs_model(e, frame) for s in self.slices.whole(statement) for e in self.slices.evaluated(s))

    def computes(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a statement calls a function on what a model computed."""
        return any(
            isinstance(node, f.Call) and any(isinstance(v, Derived) for v in self.flow.evaluate(node, frame))
            for s in self.slices.whole(statement)
            for e in self.slices.evaluated(s)
            for node, _ in in_order(e)
        )

    def runs_model(self, expr: f.Expr, frame: Frame) -> bool:
        """Whether evaluating an expression runs a module."""
        return any(isinstance(node, f.Call) and self.is_forward(node, frame) for node, _ in in_order(expr))

    def is_forward(self, call: f.Call, frame: Frame) -> bool:
        """Whether a call runs a module, in what it calls perhaps."""
        if any(self.is_run(callee) for callee in self.flow.calls.callee(call, frame)):
            return True
        targets = (t for t in self.slices.targets(call, frame) if self.flow.scope(t).name != "__init__")
        return any(self.running(target) for target in targets)

    def is_run(self, callee: Value) -> bool:
        """Whether to call a value is to run a module."""
        entities = self.trace.classify.entities
        if isinstance(callee, Method):
            quiet = callee.name in QUIET or callee.name.startswith("super.")
            return not quiet and (entities.is_module(callee.of) or callee.of in self.trained)
        if isinstance(callee, Instance):
            return entities.is_module(callee) or bool(entities.modules(frozenset((callee,))) & self.trained)
        return isinstance(callee, Opaque) or (isinstance(callee, FunctionValue) and self.flow.calls.is_forward(callee))

    @property
    def trained(self) -> frozenset[Value]:
        """The modules that some optimizer trains."""
        return self.trace.classify.trained

    def running(self, frame: Frame) -> bool:
        """Whether a function, with all that it calls, runs a module; one that calls itself does no more for that."""
        if frame not in self._running:
            self._running[frame] = False
            body = self.flow.scope(frame).body
            self._running[frame] = any(self.forwards(statement, frame) for statement in body)
        return self._running[frame]


def loss_of(backward: Event) -> f.Expr:
    """The expression that a backward starts from."""
    assert isinstance(backward.node, f.Call)
    tensors = first_argument(backward.node) if backward.detail == "function" else None
    if tensors is not None:
        return tensors
    assert isinstance(backward.node.func, f.Attribute)
    return backward.node.func.value


def _within(one: Stretch, other: Stretch) -> bool:
    """Whether a stretch lies inside another one of its file."""
    span = (*other.first.span[:2], *other.last.span[2:])
    mine = (*one.first.span[:2], *one.last.span[2:])
    return one is not other and one.frame.path == other.frame.path and span != mine and inside(mine, span)
