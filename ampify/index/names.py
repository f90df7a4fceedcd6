"""How a function can name what it holds: expressions in scope at a place, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from ampify.index.entities import Entities
from ampify.index.evaluated import evaluated
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.made_once import made_once
from ampify.index.moments import Moments, Spot, apart, around
from ampify.index.syntax import assigned, inside, statements
from ampify.index.values import LISTS, NOTHING, Container, Frame, Instance, NoneValue, Opaque, Value, Values, ordered
from ampify.model import facts as f

# Fields that are no attributes in the code, and what functions return.
INTERNAL = ("params", "wrapped", "return")

# Values of which a name can stand for a model, an optimizer, or what holds these.
INTERESTING = (Instance, Container, Opaque)

# A field that is an element under a string that needs no escape.
_PLAIN_KEY = re.compile(r"""\['[^'"\\\n]+'\]""")

Entity: TypeAlias = "Callable[[Values, Spot], frozenset[Value]]"


@dataclass(frozen=True, slots=True)
class Held:
    """An expression, what it may hold at a place, and the variable and fields that it goes through."""

    text: str
    values: Values
    through: tuple[tuple[Value, str], ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """`text` may stand for `values` and names `covers` of them; a lower `rank` is the more natural way to write it.
    `optional`: it may be None. `container`: it holds them in a list. `through`: the variable and fields it reads."""

    text: str
    values: frozenset[Value]
    covers: frozenset[Value]
    rank: int
    optional: bool
    container: bool
    through: tuple[tuple[Value, str], ...]


class Names:
    """Finds expressions for entities. `builds` are the events that build each."""

    def __init__(self, flow: Flow, entities: Entities, builds: Mapping[Value, Sequence[Event]]) -> None:
        self.flow = flow
        self.entities = entities
        self.moments = Moments(flow)
        self._objects: dict[Frame, tuple[str, ...]] = {}
        self._bindings: dict[int, dict[str, list[f.Stmt]]] = {}
        self.builds = builds

    def optimizers(self, values: Values, place: Spot) -> frozenset[Value]:
        """The optimizers a variable's values hold, or hold in a list; none if they hold other objects too: then the
        flow has lost track."""
        found: set[Value] = set()
        for value in values:
            held = self.moments.elements(value, place) if isinstance(value, Container) else frozenset((value,))
            if isinstance(value, Container) and value.part not in LISTS:
                return NOTHING
            if any(isinstance(v, Instance | Container) and not self.entities.is_optimizer(v) for v in held):
                return NOTHING
            found.update(v for v in held if self.entities.is_optimizer(v))
        return frozenset(found)

    def models(self, values: Values, place: Spot) -> frozenset[Value]:
        """The modules a variable's values are, inside any parallel wrapper, or those in a list; none if it holds an
        optimizer too."""
        found: set[Value] = set()
        if any(isinstance(v, Container) for v in values):
            values = self.listed(values, place)
        if any(self.entities.is_optimizer(v) for v in values):
            return NOTHING
        for value in values:
            if isinstance(value, Instance | Opaque):
                found |= self.entities.unwrapped(value)
        # A model, or the model that holds it: where only the one may have been made, the name stands for the other.
        return frozenset(v for v in found if not found & (self.entities.outermost(v) - {v}))

    def listed(self, values: Values, place: Spot) -> Values:
        """What the one list that values are surely holds by a place; nothing if that is not all modules, or if a loop
        around the place would take them all each round."""
        lists = [v for v in values if isinstance(v, Container) and v.part in LISTS]
        held = self.moments.elements(lists[0], place) if len(lists) == len(values) == 1 else NOTHING
        once = all(place.loops <= build.loops for v in held for build in self.seen(v, place))
        return held if once and all(self.entities.is_module(v) for v in held) else NOTHING

    def cover(
        self,
        place: Spot,
        targets: frozenset[Value],
        entity: Entity,
        favoured: Iterable[str] = (),
        paired: Iterable[str] = (),
    ) -> tuple[Expression, ...] | None:
        """The fewest, most natural expressions at a place that together stand for all `targets`; None if some cannot
        be named there. `paired` stand for the right one of several that are built alike."""
        known = [e for e in self.expressions(place, entity, frozenset(paired)) if e.covers & targets]
        liked = tuple(favoured)
        single = [e for e in known if not e.container]
        plain = [e for e in single if len(e.values) == 1 and self.certain(e, place)]
        chosen = fewest(plain, targets, liked) or fewest(single, targets, liked)
        if chosen and (len(chosen) == 1 or all(self.certain(e, place) for e in chosen)):
            return chosen
        # A list does not go into a list.
        whole = [e for e in known if e.container and e.values == targets]
        return (min(whole, key=lambda e: e.rank),) if whole else None

    def certain(self, expression: Expression, place: Spot) -> bool:
        """Whether all that an expression reads surely has been set when a place is reached, or it was read by then."""
        (variable, *fields) = expression.through
        if all(self.moments.certain(owner, name, place) for owner, name in fields):
            head = expression.text.partition(".")[0]
            if self.moments.certain(*variable, place) or self.was_read(head, place):
                return True
        return self.was_read(expression.text, place)

    def was_read(self, text: str, place: Spot) -> bool:
        """Whether an expression surely was read in its function by the time a place is reached."""
        frame = place.frame
        return evaluated(text, self.flow.files[frame.path], self.flow.scope(frame).body, place.at)

    def expressions(self, place: Spot, entity: Entity, paired: frozenset[str] = frozenset()) -> Iterator[Expression]:
        """Every expression of at most two attributes that names some entity at a place in a frame's function."""
        for rank, name in enumerate(self.visible(place)):
            for held in (name, *self.attributes(name, place)):
                found = entity(held.values, place)
                if found:
                    depth = held.text.count(".")
                    container = any(isinstance(v, Container) for v in held.values)
                    exact = container or held.text in paired
                    yield Expression(
                        text=held.text,
                        values=found,
                        covers=found if exact else self.single(found, place),
                        # A name from outside the function last: it may mean something else by the time of a later call.
                        rank=rank + 1000 * depth + 1000 * (depth > 0) + 5000 * (held.through[0][0] is not place.frame),
                        optional=any(isinstance(v, NoneValue) for v in held.values),
                        container=container,
                        through=held.through,
                    )

    def single(self, found: frozenset[Value], place: Spot) -> frozenset[Value]:
        """The values that a variable stands for all by itself: not one of several objects that exist side by side."""
        ways = [self.seen(value, place) for value in found]
        pairs = ((one, other) for a, b in combinations(ways, 2) for one in a for other in b)
        # One call that makes an object of one of several classes makes one.
        beside = any(
            not apart(one, other, self.flow) and (one is not other or one.loops - place.loops) for one, other in pairs
        )
        if beside and self.told_apart(found, place):
            return NOTHING
        return frozenset(v for v in found if not self.several(v, place))

    def told_apart(self, found: frozenset[Value], place: Spot) -> bool:
        """Whether something that lives on at a place holds some of the values and not the others."""
        frames = {place.frame, *place.running, *around(place.frame)}
        keys = ((owner, name) for owner, name in self.flow.store.holders(found) if name not in INTERNAL)
        living = (key for key in keys if not isinstance(key[0], Frame) or key[0] in frames)
        return any(NOTHING < held & found < found for key in living for held in self.pieces(*key, place))

    def pieces(self, owner: Value, name: str, place: Spot) -> list[Values]:
        """What a name may hold at a place; for the elements of a list, what each write puts there."""
        if name != "[*]":
            return [self.moments.values(owner, name, place)]
        writes = self.flow.store.writes(owner, name)
        given = self.flow.store.read(owner, name, None).difference(*writes.values())
        return [*writes.values(), *(frozenset((value,)) for value in given)]

    def several(self, value: Value, place: Spot) -> bool:
        """Whether more than one object may be meant by a value, as seen from a place: it is built in a loop that the
        place is not in, or on several ways."""
        within = [build for build in self.seen(value, place) if not made_once(build, self.flow)]
        return any(b.loops - place.loops for b in within) or len({b.stack for b in within}) > 1

    def seen(self, value: Value, place: Spot) -> Sequence[Event]:
        """The events that build a value in the activation of a place's function, or, if none does, anywhere."""
        every = self.builds.get(value, ())
        events = [b for b in every if b.root == place.root] or every
        outer = place.stack[: next((i for i, (frame, _) in enumerate(place.stack) if frame is place.frame), None)]
        return [b for b in events if b.stack[: len(outer)] == outer] or events

    def attributes(self, name: Held, place: Spot) -> Iterator[Held]:
        """Fields of what a variable holds, and their fields."""
        for field in self.fields(name, place):
            yield field
            inner = frozenset(v for v in field.values - name.values if not self.entities.is_module(v))
            yield from self.fields(Held(field.text, inner, field.through), place)

    def fields(self, held: Held, place: Spot) -> Iterator[Held]:
        """Fields of what an expression may hold; what only some of these have is no field. Those of a dict are what it
        has under constant strings."""
        if len(held.values) == 1:
            yield from self.items(held, next(iter(held.values)), place)
        owners = [v for v in ordered(held.values) if isinstance(v, Instance)]
        for field in dict.fromkeys(name for owner in owners for name in self.flow.store.fields(owner)):
            if not field.isidentifier() or field in INTERNAL:
                continue
            if any(self.shut(owner) or field not in self.flow.store.fields(owner) for owner in owners):
                continue
            values = NOTHING.union(*(self.moments.values(owner, field, place) for owner in owners))
            yield Held(f"{held.text}.{field}", values, (*held.through, *((owner, field) for owner in owners)))

    def items(self, held: Held, owner: Value, place: Spot) -> Iterator[Held]:
        """The elements of a dict that is only ever given some under constant strings."""
        fields = self.flow.store.fields(owner) if isinstance(owner, Container) and owner.part == "dict" else ()
        quote = self.flow.files[place.frame.path].quote
        if all(_PLAIN_KEY.fullmatch(field) for field in fields):
            for field in fields:
                values = self.moments.values(owner, field, place)
                yield Held(f"{held.text}[{quote}{field[2:-2]}{quote}]", values, (*held.through, (owner, field)))

    def shut(self, owner: Instance) -> bool:
        """Whether the fields of an object are its own business: an optimizer's, or a module's that does not train."""
        module = self.entities.is_module(owner) and not self.entities.trains(owner)
        return module or self.entities.is_optimizer(owner)

    def visible(self, place: Spot) -> Iterator[Held]:
        """Names in scope at a place: the function's own that are bound by then, then those around it.

        A function around it that is still running has bound only what stands before the statement it is at.
        """
        running = place.running
        hidden: set[str] = set()
        current: Frame | None = place.frame
        while current is not None:
            scope = self.flow.scope(current)
            if current is place.frame or scope.kind != "class":
                for name in self.objects(current):
                    if name not in hidden and self.inside_header(scope, name, running.get(current)):
                        owner = self.flow.variables.home(current, name)
                        yield Held(name, self.moments.values(owner, name, place), ((owner, name),))
                hidden |= scope.bound - scope.outer
            current = current.outer

    def objects(self, frame: Frame) -> tuple[str, ...]:
        """Names of a frame's function that may hold objects of any interest here, in the order of the text."""
        if frame not in self._objects:
            scope = self.flow.scope(frame)
            names = dict.fromkeys([*(p.name for p in scope.parameters), *self.bindings(scope)])
            held = {name: self.flow.store.read(self.flow.variables.home(frame, name), name, None) for name in names}
            objects = [n for n, values in held.items() if any(isinstance(v, INTERESTING) for v in values)]
            self._objects[frame] = tuple(objects)
        return self._objects[frame]

    def bindings(self, scope: f.Scope) -> dict[str, list[f.Stmt]]:
        """The statements of a scope that bind each of its names."""
        if id(scope) not in self._bindings:
            found: dict[str, list[f.Stmt]] = {}
            for statement in statements(scope.body):
                for name in _targets(statement):
                    found.setdefault(name, []).append(statement)
            self._bindings[id(scope)] = found
        return self._bindings[id(scope)]

    def inside_header(self, scope: f.Scope, name: str, at: f.Span | None) -> bool:
        """Whether a name may be used at a place: one that only headers of loops and `with` bind, only in these."""
        binding = self.bindings(scope).get(name, [])
        if at is None or not binding or not all(isinstance(s, f.For | f.With) for s in binding):
            return True
        return any(inside(at, s.span) and s.span != at for s in binding)


def fewest(
    known: Iterable[Expression], targets: frozenset[Value], liked: tuple[str, ...]
) -> tuple[Expression, ...] | None:
    """The fewest, most natural expressions that together stand for all `targets` and for nothing else."""
    fitting = [e for e in known if e.values <= targets]
    wanted = set(targets)
    chosen: list[Expression] = []
    while wanted:
        best = min(
            (e for e in fitting if e.covers & wanted),
            key=lambda e: (
                -len(e.covers & wanted),
                liked.index(e.text) if e.text in liked else len(liked),
                e.rank,
            ),
            default=None,
        )
        if best is None:
            return None
        chosen.append(best)
        wanted -= best.covers
    return tuple(sorted(chosen, key=lambda e: min(v.number for v in e.covers & targets)))


def _targets(statement: f.Stmt) -> Iterator[str]:
    """Names a statement binds itself."""
    if isinstance(statement, f.Import):
        return (name.bound for name in statement.names)
    return (name.id for name in assigned(statement))
