"""Follows control from each starting point of a project through its calls, and keeps which gradients are pending.

A backward makes gradients pending for every optimizer; a `zero_grad` ends that for the optimizers it clears; a `step`
consumes what is pending. Branches join by union, loops run twice (a third round changes nothing: pending sets only
grow towards the first round's result), calls are followed into their functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ampify.index.classify import Classifier
from ampify.index.clearing import Clearing
from ampify.index.constants import Constants
from ampify.index.events import Event, Stack
from ampify.index.flow import Flow
from ampify.index.names import Names
from ampify.index.syntax import first_argument, in_order
from ampify.index.values import NOTHING, Frame, Place, Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor

# Events of which it matters which gradients are there.
FOLLOWING = frozenset({"clip", "grad_read", "unknown_step", "autograd_grad", "zero_grad"})
MAXIMUM_DEPTH = 24
EVENT_BUDGET = 40_000
VISIT_BUDGET = 60_000
# In gradients looked at; walking a statement counts as many.
WORK_BUDGET = 10_000_000
STATEMENT_WORK = 20


@dataclass(frozen=True, slots=True)
class Pending:
    """Backward events whose gradients may still be there, each with the optimizers it has been cleared for, and the
    last backward on each path."""

    cleared: tuple[tuple[Event, frozenset[Value]], ...] = ()
    latest: frozenset[Event] = frozenset()

    def with_backward(self, event: Event) -> Pending:
        """After a backward."""
        kept = tuple(pair for pair in self.cleared if pair[0] is not event)
        return Pending((*kept, (event, frozenset())), frozenset((event,)))

    def without(self, optimizers: frozenset[Value]) -> Pending:
        """After a `zero_grad` of these optimizers."""
        pairs = ((e, cleared if optimizers <= cleared else cleared | optimizers) for e, cleared in self.cleared)
        return Pending(tuple(pairs), self.latest)

    def live_for(self, optimizer: Value) -> tuple[Event, ...]:
        """Backward events whose gradients a step of this optimizer would consume."""
        return tuple(event for event, cleared in self.cleared if optimizer not in cleared)


def join(states: Iterable[Pending | None]) -> Pending | None:
    """Where paths meet: what is pending on one is pending, and cleared only if it is on all that have it; None if no
    path is reached."""
    reached = list({id(state): state for state in states if state is not None}.values())
    if len(reached) < 2:
        return reached[0] if reached else None
    merged: dict[Event, frozenset[Value]] = {}
    for state in reached:
        for event, cleared in state.cleared:
            merged[event] = merged[event] & cleared if event in merged else cleared
    pairs = tuple(sorted(merged.items(), key=lambda pair: pair[0].number))
    return Pending(pairs, frozenset().union(*(state.latest for state in reached)))


@dataclass(slots=True)
class _Exits:
    """States at jumps out of the loop or function being walked."""

    breaks: list[Pending | None] = field(default_factory=list)
    continues: list[Pending | None] = field(default_factory=list)
    returns: list[Pending | None] = field(default_factory=list)

    def all(self) -> list[Pending | None]:
        """The states at all jumps."""
        return [*self.breaks, *self.continues, *self.returns]

    def extend(self, inner: _Exits, instead: list[Pending | None]) -> None:
        """Takes over the jumps of an inner block; `instead` is what their states become on the way, if anything."""
        self.breaks += (instead or inner.breaks) if inner.breaks else []
        self.continues += (instead or inner.continues) if inner.continues else []
        self.returns += (instead or inner.returns) if inner.returns else []


class Trace:
    """All events of a project's runs, in order."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.classify = Classifier(flow)
        self.events: list[Event] = []
        self.builds: dict[Value, list[Event]] = {}
        self.names = Names(flow, self.classify.entities, self.builds)
        self.constants = Constants(flow)
        self.clearing = Clearing(flow, self.names)
        self.visited: set[Frame] = set()
        self.met: set[Place] = set()
        self.stack: list[tuple[Frame, f.Stmt]] = []
        self.loops: list[tuple[Frame, f.Span]] = []
        self.scaled: list[frozenset[str]] = []
        self.raised: list[list[Pending]] = []
        self.backwards: dict[tuple[Frame, Anchor], Event] = {}
        # By the identity of an expression: the facts live as long as this.
        self._steps: dict[int, tuple[tuple[f.Expr, tuple[f.Expr, ...], tuple[f.Span, ...]], ...]] = {}
        self.root = 0
        self.visits = 0
        self.work = 0
        self.exhausted = False

    def run(self) -> None:
        """Walks every module as a script, then whatever no script reached."""
        for path in sorted(self.flow.files):
            module = self.flow.module_frame(path)
            if self.classify.loud(module):
                self.start([module])
        uncalled = [fr for fr in tuple(self.flow.frames) if fr not in self.flow.callers and fr not in self.visited]
        for frame in uncalled:
            if self.flow.scope(frame).kind == "function" and self.classify.loud(frame):
                self.start([frame])
        for frame in tuple(self.flow.frames):
            if frame not in self.visited and self.flow.scope(frame).kind == "function" and self.classify.loud(frame):
                self.start([frame])

    def start(self, frames: list[Frame]) -> None:
        """One run: these frames one after the other."""
        self.root += 1
        state: Pending | None = Pending()
        for frame in frames:
            state = self.frame(frame, state or Pending())

    # Frames and statements

    def frame(self, frame: Frame, state: Pending) -> Pending:
        self.visited.add(frame)
        self.visits += 1
        exits = _Exits()
        scope = self.flow.scope(frame)
        end = self.block(scope.body, frame, state, exits)
        return join([end, *exits.returns]) or state

    def block(self, statements: Iterable[f.Stmt], frame: Frame, state: Pending | None, exits: _Exits) -> Pending | None:
        for statement in statements:
            if state is None or self.spent():
                return state
            self.met.add((frame.path, statement.span))
            self.stack.append((frame, statement))
            try:
                state = self.statement(statement, frame, state, exits)
            finally:
                self.stack.pop()
        return state

    def spent(self) -> bool:
        """Whether there is no time left for another statement."""
        self.work += STATEMENT_WORK
        self.exhausted = self.exhausted or self.work > WORK_BUDGET
        return self.work > WORK_BUDGET

    def statement(self, statement: f.Stmt, frame: Frame, state: Pending, exits: _Exits) -> Pending | None:
        match statement:
            case f.Assign():
                state = self.expressions((statement.value, *statement.targets), frame, state)
            case f.Evaluate():
                state = self.expressions((statement.value,), frame, state)
            case f.Return():
                if statement.value is not None:
                    state = self.expressions((statement.value,), frame, state)
                exits.returns.append(state)
                return None
            case f.Branch():
                state = self.expressions((statement.test,), frame, state)
                ends = [self.block(arm, frame, state, exits) for arm in self.arms(statement, frame)]
                return join([*ends, state if statement.kind == "Match" and not statement.exhaustive else None])
            case f.For() | f.While():
                return self.loop(statement, frame, state, exits)
            case f.With():
                return self.with_(statement, frame, state, exits)
            case f.Try():
                return self.attempt(statement, frame, state, exits)
            case f.Define():
                state = self.expressions(statement.decorators, frame, state)
                scope = self.flow.files[frame.path].scopes[statement.scope]
                if scope.kind == "class":
                    body_frame = self.flow.make(Frame, frame.path, scope.index, (), frame)
                    state = self.frame(body_frame, state)
            case f.Jump():
                state = self.expressions(statement.operands, frame, state)
                if statement.kind == "Break":
                    exits.breaks.append(state)
                elif statement.kind == "Continue":
                    exits.continues.append(state)
                return None
            case f.Simple():
                state = self.expressions(statement.operands, frame, state)
        return state

    def arms(self, branch: f.Branch, frame: Frame) -> tuple[tuple[f.Stmt, ...], ...]:
        """The arms of a branch that a frame may enter."""
        if branch.kind == "Match" or len(branch.arms) != 2:
            return branch.arms
        holds = self.constants.decided(branch.test, frame)
        return branch.arms if holds is None else branch.arms[:1] if holds else branch.arms[1:]

    def loop(self, statement: f.For | f.While, frame: Frame, state: Pending, exits: _Exits) -> Pending | None:
        """Two rounds, so that what one leaves behind meets the next; a `for` is taken to run at least once."""
        if isinstance(statement, f.For):
            state = self.expressions((statement.iterable,), frame, state)
        self.loops.append((frame, statement.span))
        inner = _Exits(returns=exits.returns)
        skipped = state if isinstance(statement, f.While) else None
        current: Pending | None = state
        before: Pending | None = None
        for _ in range(2):
            if current is None or current == before:
                break
            before = current
            if isinstance(statement, f.While):
                current = self.expressions((statement.test,), frame, current)
            end = self.block(statement.body, frame, current, inner)
            current = join([end, *inner.continues])
        self.loops.pop()
        after = join([current, skipped])
        after = self.block(statement.orelse, frame, after, exits)
        return join([after, *inner.breaks])

    def attempt(self, statement: f.Try, frame: Frame, state: Pending, exits: _Exits) -> Pending | None:
        """A handler, and what comes finally, may follow any event of the body; the latter follows jumps as well."""
        inner = _Exits()
        self.raised.append([state])
        body = self.block(statement.body, frame, state, inner)
        failed = join(self.raised.pop())
        handled = [self.block(h, frame, failed, inner) for h in statement.handlers]
        done = join([self.block(statement.orelse, frame, body, inner), *handled])
        if not statement.final:
            exits.extend(inner, [])
            return done
        self.block(statement.final, frame, failed, exits)
        end = self.block(statement.final, frame, join([done, *inner.all()]), exits)
        exits.extend(inner, [end])
        return end if done is not None else None

    def with_(self, statement: f.With, frame: Frame, state: Pending, exits: _Exits) -> Pending | None:
        names: set[str] = set()
        for context, target in statement.items:
            state = self.expressions((context,), frame, state)
            if isinstance(target, f.Name) and self.classify.scales(context, frame):
                names.add(target.id)
        self.scaled.append(frozenset(names))
        try:
            return self.block(statement.body, frame, state, exits)
        finally:
            self.scaled.pop()

    # Expressions

    def expressions(self, expressions: Iterable[f.Expr], frame: Frame, state: Pending) -> Pending:
        for expression in expressions:
            for node, parents, spans in self.steps(expression):
                self.loops += [(frame, span) for span in spans]
                state = self.happens(node, parents, frame, state)
                if spans:
                    del self.loops[-len(spans) :]
        return state

    def steps(self, expression: f.Expr) -> tuple[tuple[f.Expr, tuple[f.Expr, ...], tuple[f.Span, ...]], ...]:
        """The parts of an expression in order, each with what it is part of, and what of that repeats it: the same in
        every frame."""
        steps = self._steps.get(id(expression))
        if steps is None:
            found = tuple(in_order(expression))
            repeats = any(isinstance(node, f.Comprehension) for node, _ in found)
            steps = tuple((node, outer, tuple(repeating(node, outer if repeats else ()))) for node, outer in found)
            self._steps[id(expression)] = steps
        return steps

    def happens(self, node: f.Expr, parents: tuple[f.Expr, ...], frame: Frame, state: Pending) -> Pending:
        found = self.classify.events(node, frame)
        closing = [event for event in found if event.kind == "step"]
        for event in found:
            if event.kind != "step":
                state = self.emit(replace(event, parents=parents), frame, state)
                for states in self.raised:
                    if states[-1] is not state:
                        states.append(state)
        if isinstance(node, f.Call | f.Attribute):
            state = self.calls(node, frame, state, inside_step=bool(closing))
        for event in closing:
            state = self.emit(replace(event, parents=parents), frame, state)
        return state

    def emit(self, event: Event, frame: Frame, state: Pending) -> Pending:
        if len(self.events) >= EVENT_BUDGET:
            self.exhausted = True
            return state
        self.work += len(state.cleared)
        live = frozenset(e for e, _ in state.cleared) if event.kind in FOLLOWING else frozenset()
        statement = self.stack[-1][1]
        event = replace(
            event,
            statement=statement,
            stack=self.places(),
            loops=frozenset(self.loops),
            number=len(self.events),
            root=self.root,
            live=live,
            latest=state.latest,
            scaled=self.scaled_name(event),
            feeds={},
        )
        self.events.append(event)
        if event.kind == "backward":
            return state.with_backward(self.backwards.setdefault((frame, event.anchor), event))
        if event.kind == "build":
            for value in event.values:
                self.builds.setdefault(value, []).append(event)
        if event.kind == "zero_grad" and self.clearing.sure(event):
            return state.without(frozenset(event.values))
        if event.kind == "step":
            for optimizer in event.values:
                for backward in state.live_for(optimizer):
                    if self.early(backward.feeds.get(optimizer, event), optimizer):
                        backward.feeds[optimizer] = event
                    backward.feeds.setdefault(optimizer, event)
        return state

    def early(self, step: Event, optimizer: Value) -> bool:
        """Whether a step comes before its run builds an optimizer: it steps what the name means by then."""
        built = [build.number for build in self.builds.get(optimizer, ()) if build.root == step.root]
        return bool(built) and min(built) > step.number

    def scaled_name(self, event: Event) -> str | None:
        """The name of the scaled loss that a backward runs on, or that a clip or step stands in the block of."""
        names = frozenset().union(*self.scaled)
        if event.kind in ("clip", "step"):
            return min(names, default=None)
        if event.kind != "backward" or not isinstance(event.node, f.Call):
            return None
        loss = event.node.func.value if isinstance(event.node.func, f.Attribute) else None
        loss = first_argument(event.node) if event.detail == "function" else loss
        return loss.id if isinstance(loss, f.Name) and loss.id in names else None

    def places(self) -> Stack:
        return tuple((frame, statement.span) for frame, statement in self._innermost())

    def _innermost(self) -> Iterator[tuple[Frame, f.Stmt]]:
        """One entry a frame of the call stack: the innermost statement it is at."""
        for index, (frame, statement) in enumerate(self.stack):
            if index + 1 == len(self.stack) or self.stack[index + 1][0] is not frame:
                yield frame, statement

    # Calls

    def calls(self, call: f.Call | f.Attribute, frame: Frame, state: Pending, inside_step: bool) -> Pending:
        """Follows a call, or the function of a property; of an optimizer's step only into the closure it is given, not
        into its own code."""
        ends = []
        for target in self.classify.targets(call, frame):
            if inside_step and self.is_own_step(target):
                continue
            if self.enterable(target):
                ends.append(self.frame(target, state))
        return join(ends) or state

    def is_own_step(self, target: Frame) -> bool:
        """Whether a function is the step of an optimizer; that of what only holds one is none."""
        scope = self.flow.scope(target)
        receivers = self.flow.store.read(target, scope.parameters[0].name, None) if scope.parameters else NOTHING
        return scope.name == "step" and all(map(self.classify.entities.is_optimizer, receivers))

    def enterable(self, target: Frame) -> bool:
        if target not in self.flow.frames or not self.classify.loud(target):
            return False
        if self.visits >= VISIT_BUDGET:
            self.exhausted = True
            return False
        on_stack = any(fr is target for fr, _ in self.stack)
        # What looks like recursion in a shared frame may be a call of its own, which is not followed then.
        self.exhausted = self.exhausted or (on_stack and target in self.flow.contexts.shared)
        return not on_stack and len(self.stack) < MAXIMUM_DEPTH * 4


def repeating(node: f.Expr, parents: tuple[f.Expr, ...]) -> Iterator[f.Span]:
    """Expressions that run a part of theirs, or a function they are given, any number of times."""
    for outer, part in pairwise((*parents, node)):
        if isinstance(outer, f.Comprehension) and part is not outer.generators[0][1]:
            yield outer.span
    if isinstance(node, f.Call) and isinstance(node.func, f.Name) and node.func.id == "map":
        yield node.span
