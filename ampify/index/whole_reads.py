"""Where a dict is read as a whole, so that a key more than its reader knows would matter."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, statements
from ampify.index.values import Container, Instance, Opaque, Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor

_VIEWS = frozenset({"items", "keys", "popitem", "values"})
_FUNCTIONS = frozenset({"all", "any", "dict", "enumerate", "len", "list", "map", "set", "sorted", "tuple", "zip"})


class WholeReads:
    """Every dict, and every object of unknown making such as a loaded checkpoint, that is read as a whole."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._places: dict[Value, Anchor] | None = None

    def of(self, value: Value) -> Anchor | None:
        """Where a dict, or whatever holds this element, is read as a whole; None if nowhere."""
        if self._places is None:
            self._places = self._find()
        found = None
        while found is None:
            found = self._places.get(value)
            if not isinstance(value, Opaque):
                break
            value = value.of
        return found

    def _find(self) -> dict[Value, Anchor]:
        places: dict[Value, Anchor] = {}
        for frame in tuple(self.flow.frames):  # asked after its budget ran out, a flow meets new ones
            facts = self.flow.files[frame.path]
            for read in _reads(self.flow.scope(frame).body):
                for value in self.flow.evaluate(read, frame):
                    if isinstance(value, Container | Instance | Opaque):
                        places.setdefault(value, facts.anchor(read))
        return places


def _reads(body: tuple[f.Stmt, ...]) -> Iterator[f.Expr]:
    """The expressions of a scope whose values are read as a whole."""
    for statement in statements(body):
        if isinstance(statement, f.For):
            yield statement.iterable
        for whole in expressions(statement):
            for expr, _ in in_order(whole):
                yield from _read_by(expr)


def _read_by(expr: f.Expr) -> Iterator[f.Expr]:
    match expr:
        case f.Call(func=f.Attribute(attr=name, value=owner), args=()) if name in _VIEWS:
            yield owner
        case f.Call(func=f.Attribute(attr="update"), args=(given,)):
            yield given
        case f.Call(func=f.Name(id=name)) if name in _FUNCTIONS:
            yield from expr.args
        case f.Comprehension():
            yield from (iterable for _, iterable, _ in expr.generators)
    if isinstance(expr, f.Call):
        yield from (value for name, value in expr.keywords if name is None)
    if isinstance(expr, f.Mapping):
        yield from (value for key, value in zip(expr.keys, expr.values, strict=True) if key is None)
