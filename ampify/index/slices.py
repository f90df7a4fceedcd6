"""What a value depends on, by names: the statements before a place that may set what is read there."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.flow import Flow
from ampify.index.syntax import dotted_name, expressions, in_order, inside, is_called, statements
from ampify.index.trace import Trace
from ampify.index.values import Frame
from ampify.model import facts as f

# Methods that put what they are given into their object.
FILLING = frozenset({"append", "extend", "insert", "update", "add", "setdefault"})
# In front of the name of a field whose object is not known.
ANY = "*."


class Slices:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow, trace: Trace) -> None:
        self.flow = flow
        self.trace = trace
        self._fields: dict[Frame, tuple[frozenset[str], frozenset[str]]] = {}

    def targets(self, call: f.Call, frame: Frame) -> tuple[Frame, ...]:
        """The frames that a call enters."""
        return self.trace.classify.targets(call, frame)

    def back(
        self, block: tuple[f.Stmt, ...], frame: Frame, needed: frozenset[str], positions: set[int]
    ) -> frozenset[str]:
        """Goes back through statements: notes the positions of those that set what is needed, and gives what is needed
        before them."""
        for index in range(len(block) - 1, -1, -1):
            statement = block[index]
            set_here, fields = self.sets(statement, frame)
            if any(meets(name, other) for name in set_here for other in needed) or any(
                name.rpartition(".")[2] in fields for name in needed if "." in name
            ):
                positions.add(index)
                needed = (needed - self.replaced(statement)) | self.read_by(statement, frame)
        return needed

    def outside(self, needed: frozenset[str], frame: Frame, caller: Frame, at: f.Span) -> frozenset[str]:
        """What a caller, at a statement, needs for what is needed where its callee begins."""
        scope = self.flow.scope(frame)
        own = scope.bound - scope.outer
        kept = {name for name in needed if name.partition(".")[0] not in own}
        calls = (node for node in self.calls(caller, at) if frame in self.targets(node, caller))
        call = next(calls, None)
        if call is None:
            return frozenset(kept)
        for parameter, argument in bound(scope, call):
            for name in needed:
                if name.partition(".")[0] == parameter:
                    kept |= joined(argument, name)
        return frozenset(kept)

    def calls(self, frame: Frame, at: f.Span) -> Iterator[f.Call]:
        """The calls of a function within a range."""
        for statement in statements(self.flow.scope(frame).body):
            if inside(at, statement.span) or inside(statement.span, at):
                for expr in self.evaluated(statement):
                    yield from (node for node, _ in in_order(expr) if isinstance(node, f.Call))

    # What a statement sets and reads

    def whole(self, statement: f.Stmt) -> Iterator[f.Stmt]:
        """A statement and all in its blocks."""
        yield from statements((statement,))

    def evaluated(self, statement: f.Stmt) -> tuple[f.Expr, ...]:
        """The expressions that a statement itself evaluates."""
        return () if isinstance(statement, f.Define) else expressions(statement)

    def sets(self, statement: f.Stmt, frame: Frame) -> tuple[set[str], frozenset[str]]:
        """The names that a statement may set, and the fields that what it calls may set."""
        names: set[str] = set()
        fields: set[str] = set()
        for inner in self.whole(statement):
            names.update(_set_by(inner))
            for expr in self.evaluated(inner):
                for node, _ in in_order(expr):
                    if isinstance(node, f.Walrus):
                        names.add(node.target.id)
                    elif isinstance(node, f.Call):
                        names.update(_filled_by(node))
                        fields.update(name for target in self.targets(node, frame) for name in self.fields(target)[0])
        return names, frozenset(fields)

    def replaced(self, statement: f.Stmt) -> frozenset[str]:
        """The names that a statement surely sets anew."""
        if not isinstance(statement, f.Assign) or statement.kind == "AugAssign":
            return frozenset()
        return frozenset(name for target in statement.targets for name, plain in _targets(target) if plain)

    def read_by(self, statement: f.Stmt, frame: Frame) -> frozenset[str]:
        """The names that a statement reads, and the fields that what it calls reads."""
        found: set[str] = set()
        for inner in self.whole(statement):
            for expr in self.evaluated(inner):
                found.update(reads(expr))
                for node, _ in in_order(expr):
                    if isinstance(node, f.Call):
                        for target in self.targets(node, frame):
                            found.update(ANY + name for name in self.fields(target)[1])
        return frozenset(found)

    def fields(self, frame: Frame) -> tuple[frozenset[str], frozenset[str]]:
        """The names of fields that a function, with all that it calls, may set, and of those that it reads."""
        if frame not in self._fields:
            self._fields[frame] = (frozenset(), frozenset())
            written: set[str] = set()
            read: set[str] = set()
            for statement in statements(self.flow.scope(frame).body):
                written.update(name.rpartition(".")[2] for name in _set_by(statement) if "." in name)
                for expr in self.evaluated(statement):
                    for node, _ in in_order(expr):
                        if isinstance(node, f.Attribute):
                            read.add(node.attr)
                        elif isinstance(node, f.Call):
                            for target in self.targets(node, frame):
                                inner = self.fields(target)
                                written |= inner[0]
                                read |= inner[1]
            self._fields[frame] = (frozenset(written), frozenset(read))
        return self._fields[frame]


def meets(one: str, other: str) -> bool:
    """Whether two dotted names may mean the same, or one a part of the other."""
    if one.startswith(ANY) or other.startswith(ANY):
        return "." in one and "." in other and one.rpartition(".")[2] == other.rpartition(".")[2]
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def reads(expr: f.Expr) -> Iterator[str]:
    """The names with their attributes, as far as they go, that an expression reads."""
    for node, parents in in_order(expr):
        outer = parents[-1] if parents else None
        if isinstance(node, f.Name | f.Attribute) and not isinstance(outer, f.Attribute):
            name = dotted_name(node.value if isinstance(node, f.Attribute) and is_called(node, parents) else node)
            if name:
                yield name


def bound(scope: f.Scope, call: f.Call) -> Iterator[tuple[str, f.Expr]]:
    """The parameters of a function, each with the argument that a call gives it, as far as that is plain."""
    names = [parameter.name for parameter in scope.parameters if parameter.kind == "positional"]
    if isinstance(call.func, f.Attribute) and names[:1] == ["self"]:
        yield "self", call.func.value
        names = names[1:]
    for name, argument in zip(names, call.args, strict=False):
        if isinstance(argument, f.Starred):
            break
        yield name, argument
    yield from ((name, value) for name, value in call.keywords if name is not None)


def joined(argument: f.Expr, name: str) -> set[str]:
    """What is read of an argument where a parameter's `name`, with attributes perhaps, is needed."""
    text = dotted_name(argument)
    rest = name.partition(".")[2]
    if text:
        return {f"{text}.{rest}" if rest else text}
    return set(reads(argument))


def _set_by(statement: f.Stmt) -> Iterator[str]:
    match statement:
        case f.Assign():
            for target in statement.targets:
                yield from (name for name, _ in _targets(target))
        case f.For():
            yield from (name for name, _ in _targets(statement.target))
        case f.With():
            bound_too = (target for _, target in statement.items if target is not None)
            yield from (name for each in bound_too for name, _ in _targets(each))


def _targets(target: f.Expr) -> Iterator[tuple[str, bool]]:
    """The names in a target; whether each is set as a whole."""
    match target:
        case f.Elements():
            for item in target.items:
                yield from _targets(item)
        case f.Starred():
            yield from _targets(target.value)
        case f.Subscript():
            yield from ((name, False) for name, _ in _targets(target.value))
        case f.Name() | f.Attribute():
            name = dotted_name(target)
            if name:
                yield name, True


def _filled_by(call: f.Call) -> Iterator[str]:
    """The object whose method takes in what it is given."""
    if isinstance(call.func, f.Attribute) and call.func.attr in FILLING and (call.args or call.keywords):
        name = dotted_name(call.func.value)
        if name:
            yield name
