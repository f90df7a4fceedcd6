"""How a function can name what it holds: expressions in scope at a place, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ampify.index.entities import Entities
from ampify.index.events import Event, Stack
from ampify.index.flow import Flow
from ampify.index.syntax import inside, path_to, statements
from ampify.index.values import NOTHING, Container, Frame, Instance, NoneValue, Opaque, Value, Values
from ampify.model import facts as f

Entity = Callable[[Values], frozenset[Value]]


@dataclass(frozen=True, slots=True)
class Expression:
    """`text` may stand for `values`; a lower `rank` is the more natural way to write it. `optional`: it may be None.
    `container`: it holds them in a list, which may not hold them all yet."""

    text: str
    values: frozenset[Value]
    rank: int
    optional: bool = False
    container: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a running program: a frame, the statement it is at, and the stack of all frames by then."""

    frame: Frame
    at: f.Span
    stack: Stack

    @classmethod
    def of(cls, event: Event) -> Spot:
        """The place of an event."""
        return cls(event.frame, event.statement.span, event.stack)


class Names:
    """Finds expressions for entities."""

    def __init__(self, flow: Flow, entities: Entities) -> None:
        self.flow = flow
        self.entities = entities

    def optimizers(self, values: Values) -> frozenset[Value]:
        """The optimizers a variable's values hold; none if it holds other objects too: then the flow has lost track."""
        if any(isinstance(v, Instance) and not self.entities.is_optimizer(v) for v in values):
            return NOTHING
        return frozenset(self.entities.optimizers(values))

    def models(self, values: Values) -> frozenset[Value]:
        """The modules a variable's values are, inside any parallel wrapper; none if it holds an optimizer too."""
        found: set[Value] = set()
        if any(self.entities.is_optimizer(v) for v in values):
            return NOTHING
        for value in values:
            if isinstance(value, Instance | Opaque):
                found |= self.entities.unwrapped(value)
        return frozenset(found)

    def cover(
        self, place: Spot, targets: frozenset[Value], entity: Entity, favoured: Iterable[str] = ()
    ) -> tuple[Expression, ...] | None:
        """The fewest, most natural expressions at a place that together stand for all `targets`; None if some cannot
        be named there."""
        wanted = set(targets)
        chosen: list[Expression] = []
        known = [e for e in self.expressions(place, entity) if e.values & targets]
        liked = tuple(favoured)
        while wanted:
            best = min(
                (e for e in known if e.values & wanted),
                key=lambda e: (
                    len(e.values - targets),
                    e.container,
                    -len(e.values & wanted),
                    liked.index(e.text) if e.text in liked else len(liked),
                    e.rank,
                ),
                default=None,
            )
            if best is None or best.values - targets:
                return None
            chosen.append(best)
            wanted -= best.values
        return tuple(sorted(chosen, key=lambda e: min(v.number for v in e.values & targets)))

    def expressions(self, place: Spot, entity: Entity) -> Iterator[Expression]:
        """Every expression of at most two attributes that names some entity at a place in a frame's function."""
        for rank, (name, values) in enumerate(self.visible(place)):
            optional = any(isinstance(v, NoneValue) for v in values)
            found = entity(values)
            if found:
                yield Expression(name, found, rank, optional, holds(values))
            for text, inner in self.attributes(name, values):
                found = entity(inner)
                if found:
                    yield Expression(text, found, 1000 + rank + 1000 * text.count("."), container=holds(inner))

    def attributes(self, name: str, values: Values) -> Iterator[tuple[str, Values]]:
        """Fields of what a variable holds, and their fields."""
        for owner in sorted(values, key=lambda v: v.number):
            if not isinstance(owner, Instance) or self.entities.is_optimizer(owner):
                continue
            if self.entities.is_module(owner) and not self.entities.trains(owner):
                continue
            for field in self.flow.store.fields(owner):
                if not field.isidentifier() or field in ("params", "wrapped"):
                    continue
                inner = self.flow.store.read(owner, field, None)
                yield f"{name}.{field}", inner
                for part in inner:
                    if isinstance(part, Instance) and part is not owner and not self.entities.is_module(part):
                        for last in self.flow.store.fields(part):
                            if last.isidentifier() and last not in ("params", "wrapped"):
                                yield f"{name}.{field}.{last}", self.flow.store.read(part, last, None)

    def visible(self, place: Spot) -> Iterator[tuple[str, Values]]:
        """Names in scope at a place: the function's own that are bound by then, then those around it.

        A function around it that is still running has bound only what stands before the statement it is at.
        """
        running = dict(place.stack)
        hidden: set[str] = set()
        current: Frame | None = place.frame
        while current is not None:
            scope = self.flow.scope(current)
            if current is place.frame or scope.kind != "class":
                if current is place.frame:
                    names = self.bound_before(scope, place.at, after=True)
                elif current in running:
                    names = self.bound_before(scope, running[current], after=False)
                else:
                    names = self.all_names(scope)
                for name in names:
                    if name not in hidden:
                        yield name, self.flow.store.read(current, name, None)
                hidden |= scope.bound - scope.outer
            current = current.outer

    @staticmethod
    def all_names(scope: f.Scope) -> list[str]:
        names = dict.fromkeys(p.name for p in scope.parameters)
        for statement in statements(scope.body):
            names.update(dict.fromkeys(_targets(statement)))
        return list(names)

    @staticmethod
    def bound_before(scope: f.Scope, at: f.Span, after: bool) -> list[str]:
        """Parameters, and names bound by a statement that ends before a place (or, `after`, at it), or by a loop
        around it."""
        names = dict.fromkeys(p.name for p in scope.parameters)
        around = [block[index] for block, index in path_to(scope.body, at)]
        for statement in statements(scope.body):
            before = statement.span[2:] <= at[:2] or (after and inside(statement.span, at))
            if isinstance(statement, f.For | f.With):
                if inside(at, statement.span) and statement in around:
                    names.update(dict.fromkeys(_targets(statement)))
            elif before:
                names.update(dict.fromkeys(_targets(statement)))
        return list(names)


def holds(values: Values) -> bool:
    """Whether values are containers."""
    return any(isinstance(v, Container) for v in values)


def _targets(statement: f.Stmt) -> Iterator[str]:
    """Names a statement binds itself."""
    match statement:
        case f.Assign():
            for target in statement.targets:
                yield from _names(target)
        case f.For():
            yield from _names(statement.target)
        case f.With():
            for _, name in statement.items:
                if name is not None:
                    yield from _names(name)
        case f.Import():
            yield from (name.bound for name in statement.names)


def _names(target: f.Expr) -> Iterator[str]:
    match target:
        case f.Name():
            yield target.id
        case f.Elements():
            for item in target.items:
                yield from _names(item)
        case f.Starred():
            yield from _names(target.value)
