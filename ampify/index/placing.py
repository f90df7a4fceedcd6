"""Where `amp.initialize` goes: the function that owns model and optimizer, after both are ready, before their use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.made_once import made_once
from ampify.index.moments import Path, Spot, conditional
from ampify.index.names import Expression, Names
from ampify.index.syntax import inside, path_to
from ampify.index.values import Frame, Value
from ampify.model import facts as f
from ampify.model.project import Initialize


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What one run trains: its optimizers and models, and the events that make them ready, in order."""

    optimizers: frozenset[Value]
    models: frozenset[Value]
    builds: tuple[Event, ...]
    model_builds: tuple[Event, ...]
    moves: tuple[Event, ...]
    backwards: tuple[Event, ...]
    favoured: tuple[str, ...] = ()


class Placing:
    """Finds the place for one run's ingredients."""

    def __init__(self, flow: Flow, names: Names) -> None:
        self.flow = flow
        self.names = names

    def place(self, run: Ingredients) -> tuple[Initialize, Spot] | None:
        """The place, or None if no function holds both models and optimizers after they are ready.

        A factory that hands out what it builds is a place where none of its callers can name all that is needed. What
        is made once, when first asked for, is initialized there and then: its callers ask again and again.
        """
        if not run.builds:
            return None
        depths = list(reversed(range(_common_depth(run.builds))))
        if any(made_once(build, self.flow) for build in run.builds):
            return self.at_depth(run, depths[0]) if depths and not self.moved_later(run, depths[0]) else None
        fallback: tuple[Initialize, Spot] | None = None
        for depth in depths:
            found = self.at_depth(run, depth)
            if found is None:
                continue
            if self.moved_later(run, depth):
                continue
            if not self.returned(run, found[1].frame, depth):
                return found
            fallback = fallback or found
        return fallback

    def at_depth(self, run: Ingredients, depth: int) -> tuple[Initialize, Spot] | None:
        """The place in the frame at one depth of the call stack, if that frame can name all that is needed."""
        frame = run.builds[0].stack[depth][0]
        body = self.flow.scope(frame).body
        last = max(b.number for b in run.builds)
        ready = [b.stack[depth][1] for b in run.builds]
        ready += [m.stack[depth][1] for m in run.moves if m.number > last and _passes(m, run.builds[0], depth)]
        statement = self.last_statement(body, ready, run, depth)
        if statement is None:
            return None
        stack = run.builds[-1].stack[:depth]
        outer = {place[0] for place in stack}
        loops = frozenset(
            loop
            for loop in run.builds[-1].loops
            if loop[0] in outer or (loop[0] is frame and inside(statement.span, loop[1]) and loop[1] != statement.span)
        )
        spot = Spot(frame, statement.span, stack, loops, run.builds[-1].root)
        optimizers = self.names.cover(spot, run.optimizers, self.names.optimizers)
        models = self.names.cover(spot, run.models, self.names.models, run.favoured)
        if not optimizers or not models:
            return None
        doubtful = any(e.optional or not self.names.certain(e, spot) for e in (*optimizers, *models))
        if doubtful and any(conditional(body, span, statement.span) for span in self.training(run, depth)):
            return None
        anchor = self.flow.files[frame.path].anchor(statement)
        texts = (tuple(e.text for e in models), tuple(e.text for e in optimizers))
        return Initialize(anchor, *texts, False, bare=any(self.outer(e, frame) for e in (*models, *optimizers))), spot

    def behind(self, build: Event, models: frozenset[Value]) -> tuple[Initialize, Spot] | None:
        """The place behind the statement that gives an optimizer its name, be it made there or returned to there; None
        if it gets none in this way."""
        depth = len(build.stack) - 1
        frame, statement, made = build.frame, build.statement, build.node
        while isinstance(statement, f.Return) and statement.value is made and depth:
            depth -= 1
            frame, span = build.stack[depth]
            block, index = path_to(self.flow.scope(frame).body, span)[-1]
            statement = block[index]
            made = statement.value if isinstance(statement, f.Assign | f.Return) and statement.value else made
        if not isinstance(statement, f.Assign) or statement.value is not made or not isinstance(made, f.Call):
            return None
        stack = build.stack[: depth + 1]
        outer = {fr for fr, _ in stack}
        spot = Spot(frame, statement.span, stack, frozenset(p for p in build.loops if p[0] in outer), build.root)
        optimizers = self.names.cover(spot, frozenset(build.values), self.names.optimizers)
        named = self.names.cover(spot, models, self.names.models)
        if not optimizers or not named or any(e.optional for e in (*optimizers, *named)):
            return None
        anchor = self.flow.files[frame.path].anchor(statement)
        texts = (tuple(e.text for e in named), tuple(e.text for e in optimizers))
        bare = any(self.outer(e, frame) for e in (*named, *optimizers))
        return Initialize(anchor, *texts, False, bare=bare, again=True), spot

    def outer(self, expression: Expression, frame: Frame) -> bool:
        """Whether an expression is a name that a function only reads, so that to bind it would make another of it, or a
        field that cannot be set."""
        if any(self.flow.classes.is_fixed(owner) for owner, _ in expression.through):
            return True
        scope = self.flow.scope(frame)
        own = scope.bound | scope.outer
        return frame.outer is not None and "." not in expression.text and expression.text not in own

    def last_statement(
        self, body: tuple[f.Stmt, ...], ready: list[f.Span], run: Ingredients, depth: int
    ) -> f.Stmt | None:
        """The statement to follow: it ends all the `ready` ones, and no backward runs before or inside it."""
        training = [path_to(body, span) for span in self.training(run, depth)]
        ways = [path_to(body, span) for span in ready]
        level = _shared_levels(ways)
        while True:
            block, index = max((way[level] for way in ways), key=lambda step: step[1])
            statement = block[index]
            if not any(_starts_by(way, statement) for way in training):
                return statement
            # Within a block that is no more than a part of the one around it, what precedes it has happened too.
            ways = [way for way in ways if len(way) > level + 1 and way[level][1] == index]
            level += 1
            inner = {id(way[level][0]) for way in (*ways, *training) if len(way) > level}
            short = any(len(way) <= level for way in training)
            if not ways or short or len(inner) > 1 or not self.transparent(statement, run, depth):
                return None

    def transparent(self, statement: f.Stmt, run: Ingredients, depth: int) -> bool:
        """Whether a block is no more than a part of the one around it: a `with`, or the script's own part."""
        if isinstance(statement, f.Branch):
            facts = self.flow.files[run.builds[0].stack[depth][0].path]
            return "__name__" in facts.text(statement.test.span)
        return isinstance(statement, f.With)

    @staticmethod
    def training(run: Ingredients, depth: int) -> list[f.Span]:
        """The statements of the frame at one depth in which a backward runs."""
        return [b.stack[depth][1] for b in run.backwards if _passes(b, run.builds[0], depth)]

    def returned(self, run: Ingredients, frame: Frame, depth: int) -> bool:
        """Whether the frame is a factory of optimizers: it hands them to its caller, and the models come from there."""
        if depth == 0:
            return False
        handed = set(self.names.entities.optimizers(self.flow.store.read(frame, "return", None)))
        own = [b for b in run.model_builds if len(b.stack) > depth and b.stack[depth][0] is frame]
        return bool(handed & run.optimizers) and not own

    def moved_later(self, run: Ingredients, depth: int) -> bool:
        """Whether a caller moves a model to its device after the frame at this depth is done."""
        return any(not _passes(m, run.builds[0], depth) for m in self.late_moves(run))

    def moved_inside(self, run: Ingredients) -> Event | None:
        """The move that alone is in the way of a place: it happens in a call that trains as well."""
        trains = {place for backward in run.backwards for place in backward.stack}
        trains -= {place for build in run.builds for place in build.stack}
        late = self.late_moves(run) if run.builds else []
        inside = (m for m in late if any(frame is not m.frame and (frame, at) in trains for frame, at in m.stack))
        named = any(self.at_depth(replace(run, moves=()), depth) for depth in range(_common_depth(run.builds)))
        return next(inside, None) if named else None

    @staticmethod
    def late_moves(run: Ingredients) -> list[Event]:
        """The moves of a model between its optimizer's construction and the first backward."""
        last = max(b.number for b in run.builds)
        first = min((b.number for b in run.backwards), default=last)
        return [m for m in run.moves if last < m.number < first]


def _common_depth(events: tuple[Event, ...]) -> int:
    """How many frames, from the outermost on, the stacks of all events share."""
    depth = 0
    for frames in zip(*(e.stack for e in events), strict=False):
        if any(place[0] is not frames[0][0] for place in frames):
            break
        depth += 1
        if any(place[1] != frames[0][1] for place in frames):
            break
    return depth


def _passes(event: Event, other: Event, depth: int) -> bool:
    """Whether an event happens in the same run of the frame at `depth` as another."""
    if len(event.stack) <= depth or len(other.stack) <= depth:
        return False
    above = all(event.stack[i] == other.stack[i] for i in range(depth))
    return above and event.stack[depth][0] is other.stack[depth][0]


def _starts_by(way: Path, statement: f.Stmt) -> bool:
    """Whether the statement that a way leads to starts before another one, or inside it."""
    span = way[-1][0][way[-1][1]].span
    return inside(span, statement.span) or span[:2] < statement.span[:2]


def _shared_levels(ways: list[Path]) -> int:
    """The level of the deepest block that all ways pass through."""
    level = 0
    while all(len(way) > level + 1 and way[level + 1][0] is ways[0][level + 1][0] for way in ways):
        level += 1
    return level
