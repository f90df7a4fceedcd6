"""Where the search for an object's origin can be: at an expression, or at a variable, field or return that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ampify.index.flow import Flow
from ampify.index.values import NOTHING, Frame, Value, Values, ordered
from ampify.model import facts as f
from ampify.model.evidence import Hop

# What is still to be found inside of a value, from the outside in: fields, and what they hold.
Rest: TypeAlias = tuple[tuple[str, Value], ...]

ASSIGNED, ARGUMENT, ELEMENT, RETURNED = "assigned", "argument", "element of", "returned"
# The longest text of code in a hop, in characters.
LONGEST = 48


@dataclass(frozen=True, slots=True)
class At:
    """An expression of a frame that may be `value`."""

    expr: f.Expr
    frame: Frame
    value: Value
    rest: Rest = ()

    @property
    def key(self) -> tuple[object, ...]:
        """What tells positions apart; expressions by their range: to compare them is to compare all their parts."""
        return (self.expr.span, self.expr.kind, self.frame, self.value, self.rest)


@dataclass(frozen=True, slots=True)
class Held:
    """A name of a frame, or a field of an object, that may hold `value`; `how` is the word for a write to it."""

    owner: Value
    name: str
    value: Value
    rest: Rest = ()
    how: str = ASSIGNED

    @property
    def key(self) -> tuple[object, ...]:
        """What tells positions apart."""
        return (self.owner, self.name, self.value, self.rest)


Position: TypeAlias = At | Held
# Hops, and where they lead; None where the object is made, or the trail is lost.
Step: TypeAlias = tuple[tuple[Hop, ...], Position | None]


class Looking:
    """What a solved flow says of expressions; each is evaluated once a frame."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._known: dict[tuple[int, Frame], Values] = {}
        # As long as the store is as it was: the elements of each container, and these with the elements of them.
        self._state = -1
        self._elements: dict[Value, list[tuple[str, Values]]] = {}
        self._within: dict[Value, Values] = {}

    def values(self, expr: f.Expr, frame: Frame) -> Values:
        """What an expression may be in a frame."""
        key = (id(expr), frame)
        if key not in self._known:
            self._known[key] = self.flow.evaluate(expr, frame)
        return self._known[key]

    def read(self, owner: Value, name: str) -> Values:
        """What a name of a frame, or a field of an object, may hold."""
        return self.flow.store.read(owner, name, None)

    def reach(self, expr: f.Expr, frame: Frame, value: Value, rest: Rest) -> Iterator[At]:
        """The expression as what may be `value`, or else as what may hold it as an element."""
        if value in self.values(expr, frame):
            yield At(expr, frame, value, rest)
        else:
            yield from self.parts(expr, frame, value, rest)

    def parts(self, expr: f.Expr, frame: Frame, value: Value, rest: Rest) -> Iterator[At]:
        """The expression as what may hold `value` as an element, or as an element of one."""
        for whole in ordered(self.values(expr, frame)):
            if value not in self.within(whole):
                continue
            for field, held in self.elements(whole):
                if value in held:
                    yield At(expr, frame, whole, ((field, value), *rest))
                    continue
                for part in ordered(held):
                    for inner, within in self.elements(part):
                        if value in within:
                            yield At(expr, frame, whole, ((field, part), (inner, value), *rest))

    def elements(self, owner: Value) -> list[tuple[str, Values]]:
        """The elements of a container, by their fields."""
        self._renew()
        found = self._elements.get(owner)
        if found is None:
            names = (name for name in self.flow.store.fields(owner) if name.startswith("["))
            found = self._elements[owner] = [(name, self.read(owner, name)) for name in names]
        return found

    def within(self, owner: Value) -> Values:
        """All elements of a container, and all elements of these."""
        self._renew()
        found = self._within.get(owner)
        if found is None:
            held = NOTHING.union(*(values for _, values in self.elements(owner)))
            inner = (values for part in held for _, values in self.elements(part))
            found = self._within[owner] = held.union(*inner)
        return found

    def _renew(self) -> None:
        """Forgets what the store has outgrown: to evaluate an expression may add to it."""
        if self._state != self.flow.store.changes:
            self._state = self.flow.store.changes
            self._elements.clear()
            self._within.clear()

    def text(self, expr: f.Expr, frame: Frame) -> str:
        """The code of an expression in one line, cut where it is long."""
        text = " ".join(self.flow.files[frame.path].text(expr.span).split())
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

    def call(self, call: f.Call, frame: Frame) -> str:
        """A call without its arguments: `build(...)`."""
        return f"{self.text(call.func, frame)}({'...' if call.args or call.keywords else ''})"


def hop(expr: f.Expr, frame: Frame, how: str, *, lost: bool = False) -> Hop:
    """A hop at an expression; of a call over several lines, at the one where its function's name ends."""
    line = expr.func.span[2] if isinstance(expr, f.Call) else expr.span[0]
    return Hop(frame.path, line, how, lost)
