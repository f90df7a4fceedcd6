"""One step back from a variable, field or return: to the writes, arguments and imports that give it its value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify.index.positions import ARGUMENT, ASSIGNED, ELEMENT, RETURNED, At, Held, Looking, Step, hop
from ampify.index.values import Container, Frame, Instance, Opaque, Partial
from ampify.index.written import Origin, Written
from ampify.model import facts as f
from ampify.model.evidence import Hop


class FromHolders:
    """Answers from a solved flow."""

    def __init__(self, looking: Looking, written: Written) -> None:
        self.flow = looking.flow
        self.looking = looking
        self.written = written

    def steps(self, held: Held) -> Iterator[Step]:
        """All that a variable, field or return may have its value from."""
        if isinstance(held.owner, Frame):
            yield from self.returned(held.owner, held)
            yield from self.parameter(held.owner, held)
            yield from self.imported(held.owner, held)
        yield from self.writes(held)
        if isinstance(held.owner, Container | Partial) or (
            isinstance(held.owner, Instance) and not self.flow.store.writes(held.owner, held.name)
        ):
            yield from self.creation(held.owner, held)

    def into(self, parts: Iterable[f.Expr], frame: Frame, held: Held, hops: tuple[Hop, ...]) -> Iterator[Step]:
        """Steps to those of some expressions that the value may come from."""
        for part in parts:
            for position in self.looking.reach(part, frame, held.value, held.rest):
                yield hops, position

    # Frames

    def returned(self, frame: Frame, held: Held) -> Iterator[Step]:
        if held.name == "return":
            for expr in self.written.returned(frame):
                yield from self.into((expr,), frame, held, (hop(expr, frame, RETURNED),))

    def imported(self, frame: Frame, held: Held) -> Iterator[Step]:
        for statement, name in self.written.imports(frame, held.name):
            found = self.flow.modules.find(frame.path, name.module, name.level)
            if found is not None and name.attribute is not None:
                passed = hop(f.Name(statement.span, held.name), frame, f"import of {held.name}")
                there = f.Name(statement.span, name.attribute)
                yield (passed,), At(there, self.flow.module_frame(found), held.value, held.rest)

    def parameter(self, frame: Frame, held: Held) -> Iterator[Step]:
        """The arguments of all calls that lead to a frame, and the default."""
        scope = self.flow.scope(frame)
        parameter = next((p for p in scope.parameters if p.name == held.name), None)
        if parameter is None:
            return
        here = Hop(frame.path, scope.span[0], f"parameter {held.name}")
        for caller, span in self.flow.callers.get(frame, ()):
            call = self.written.call_at(caller, span)
            if call is not None:
                hops = (here, hop(call, caller, ARGUMENT))
                yield from self.into(arguments(call, scope, parameter), caller, held, hops)
                yield from self.received(call, caller, held, here)
        if parameter.default is not None and frame.outer is not None:
            default = (hop(parameter.default, frame, f"default of parameter {held.name}"),)
            yield from self.into((parameter.default,), frame.outer, held, default)
        if isinstance(held.value, Opaque) and held.value.of is frame:
            forward = scope.name == "forward"
            unknown = "whose inputs are not followed" if forward else "which nothing in the files given calls"
            how = f"parameter {held.name} of {scope.name}(), {unknown}"
            yield (Hop(frame.path, scope.span[0], how, lost=True),), None

    def received(self, call: f.Call, caller: Frame, held: Held, here: Hop) -> Iterator[Step]:
        """The object that a method is called on, that a constructor makes, or what a partial function keeps."""
        if isinstance(call.func, f.Attribute):
            yield from self.into((call.func.value,), caller, held, (here, hop(call, caller, ARGUMENT)))
        if isinstance(held.value, Instance) and held.value.place == (caller.path, call.span) and not held.rest:
            yield (hop(call, caller, self.looking.call(call, caller)),), None
        for argument in (call.func, *call.args, *(value for _, value in call.keywords)):
            for callee in self.looking.values(argument, caller):
                if isinstance(callee, Partial):
                    for name in self.flow.store.fields(callee):
                        if held.value in self.looking.read(callee, name):
                            hops = (here, hop(call, caller, ARGUMENT))
                            yield hops, Held(callee, name, held.value, held.rest)

    # Writes

    def writes(self, held: Held) -> Iterator[Step]:
        for (frame, span), values in self.flow.store.writes(held.owner, held.name).items():
            if held.value not in values:
                continue
            for origin in self.written.origins(frame, span):
                passed = Hop(frame.path, span[0], self.word(frame, span, held, origin))
                reach = self.looking.parts if origin.part else self.looking.reach
                for position in reach(origin.expr, frame, held.value, held.rest):
                    yield (passed,), position
                if origin.part and held.value in self.looking.values(origin.expr, frame):
                    yield (passed,), At(origin.expr, frame, held.value, held.rest)

    def word(self, frame: Frame, span: f.Span, held: Held, origin: Origin) -> str:
        """How a write is called: by its target, or by the call that adds an element."""
        target = next(iter(self.written.nodes_at(frame, span)), None)
        match target:
            case f.Attribute():
                return f"attribute {self.looking.text(target, frame)}"
            case f.Subscript():
                return f"{ELEMENT} {self.looking.text(target.value, frame)}"
            case f.Call():
                return f"element by {self.looking.call(target, frame)}"
        if origin.part:
            return f"{ELEMENT} {self.looking.text(origin.expr, frame)}"
        return held.how if held.how.startswith(("global", "variable", "attribute of")) else ASSIGNED

    # Objects

    def creation(self, owner: Instance | Container | Partial, held: Held) -> Iterator[Step]:
        """The parts of the expression that makes an object: what it is given there, it holds."""
        for frame in self.written.frames(owner.place, owner.sites):
            for node in self.written.nodes_at(frame, owner.place[1]):
                text = self.looking.text(node, frame)
                hops = (hop(node, frame, f"{ELEMENT} {text}" if isinstance(owner, Container) else ARGUMENT),)
                yield from self.into(parts(node), frame, held, hops)
                for part in parts(node) if isinstance(node, f.Call) else ():
                    yield from ((hops, p) for p in self.looking.parts(part, frame, held.value, held.rest))
            if owner.place[1] == self.flow.scope(frame).span:
                for caller, span in self.flow.callers.get(frame, ()):
                    call = self.written.call_at(caller, span)
                    if call is not None:
                        yield from self.into(parts(call), caller, held, (hop(call, caller, ARGUMENT),))


def arguments(call: f.Call, scope: f.Scope, parameter: f.Parameter) -> tuple[f.Expr, ...]:
    """The arguments of a call that a parameter may be given: the one of its name, or all without one."""
    named = tuple(value for name, value in call.keywords if name == parameter.name)
    if named:
        return named
    others = tuple(value for name, value in call.keywords if name is None or parameter.kind == "doublestar")
    return (*call.args, *others, *(value for name, value in call.keywords if name in ("args", "kwargs")))


def parts(node: f.Expr) -> tuple[f.Expr, ...]:
    """What an expression puts into the object that it makes."""
    match node:
        case f.Elements():
            return tuple(item.value if isinstance(item, f.Starred) else item for item in node.items)
        case f.Mapping():
            return node.values
        case f.Comprehension():
            return (node.element,)
        case f.Call():
            receiver = (node.func.value,) if isinstance(node.func, f.Attribute) else ()
            return (*node.args, *(value for _, value in node.keywords), *receiver)
    return ()
