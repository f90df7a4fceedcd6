"""One step back from an expression: to the names, fields, calls and parts that its value comes from."""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.index.positions import ASSIGNED, ELEMENT, At, Held, Looking, Step, hop
from ampify.index.values import (
    ClassValue,
    Container,
    Derived,
    External,
    Frame,
    Instance,
    ModuleValue,
    Opaque,
    Parameters,
    Partial,
    State,
    Text,
    Value,
    ordered,
)
from ampify.index.written import Written
from ampify.model import facts as f
from ampify.model.evidence import Hop


class FromExpressions:
    """Answers from a solved flow."""

    def __init__(self, looking: Looking, written: Written) -> None:
        self.flow = looking.flow
        self.looking = looking
        self.written = written

    def steps(self, at: At) -> Iterator[Step]:
        """All that an expression may have its value from."""
        yield from self.made(at)
        match at.expr:
            case f.Name():
                yield from self.name(at.expr, at)
            case f.Attribute():
                yield from self.attribute(at.expr, at)
            case f.Call():
                yield from self.call(at.expr, at)
            case f.Subscript():
                yield from self.subscript(at.expr, at)
            case f.Starred() | f.Walrus():
                yield from self.into(at.expr.value, at)
            case f.Comprehension():
                yield from self.into(at.expr.element, at)
            case f.Operation():
                for operand in at.expr.operands:
                    yield from self.into(operand, at)

    def into(self, part: f.Expr, at: At) -> Iterator[Step]:
        """Steps to a part of the expression that the value may come from, without a hop."""
        yield from (((), position) for position in self.looking.reach(part, at.frame, at.value, at.rest))

    # Where it is made

    def made(self, at: At) -> Iterator[Step]:
        """The end of the way, or the start of what is left of it, where the expression makes the value."""
        value = at.value
        if not isinstance(value, Instance | Container | Partial):
            return
        if value.place != (at.frame.path, at.expr.span) or value.sites != at.frame.sites:
            return
        if at.rest:
            field, inner = at.rest[0]
            how = f"{ELEMENT} {self.looking.text(at.expr, at.frame)}"
            yield (hop(at.expr, at.frame, how),), Held(value, field, inner, at.rest[1:])
        elif isinstance(at.expr, f.Call):
            known = not isinstance(value, Instance) or value.cls is not None or is_known(value.dotted)
            call = self.looking.call(at.expr, at.frame)
            how = call if known else f"what {call} returns is not known"
            yield (hop(at.expr, at.frame, how, lost=not known),), None

    # Names

    def name(self, name: f.Name, at: At) -> Iterator[Step]:
        """The variable of a name, or the star import that binds it."""
        home = self.flow.variables.home(at.frame, name.id)
        if at.value in self.looking.read(home, name.id):
            yield (), Held(home, name.id, at.value, at.rest, self.word(name.id, home, at.frame))
        for statement, module in self.written.imports(home, "*"):
            found = self.flow.modules.find(home.path, module.module, module.level)
            if found is None or found == home.path:
                continue
            outer = self.flow.module_frame(found)
            if at.value in self.flow.variables.lookup(outer, name.id, None):
                passed = hop(f.Name(statement.span, "*"), home, f"import of {name.id}")
                yield (passed,), At(name, outer, at.value, at.rest)

    def word(self, name: str, home: Frame, frame: Frame) -> str:
        """How a variable is called that is read in a frame."""
        if home is frame:
            return ASSIGNED
        scope = self.flow.scope(home)
        if scope.kind == "module":
            return f"global {name}"
        return f"variable {name} of {scope.name}()" if scope.kind == "function" else f"attribute of {scope.name}"

    # Attributes

    def attribute(self, expr: f.Attribute, at: At) -> Iterator[Step]:
        """The field of an owner, of its class, or of what it wraps; or the return of a property."""
        for callee in self.written.called(at.frame, expr.span):
            if at.value in self.looking.read(callee, "return"):
                passed = hop(expr, at.frame, f"property {self.looking.text(expr, at.frame)}")
                yield (passed,), Held(callee, "return", at.value, at.rest)
        for owner in ordered(self.looking.values(expr.value, at.frame)):
            yield from self.field(owner, expr, at)

    def field(self, owner: Value, expr: f.Attribute, at: At) -> Iterator[Step]:
        text = self.looking.text(expr, at.frame)
        how = f"global {expr.attr}" if isinstance(owner, ModuleValue) else f"attribute {text}"
        for holder, name in self.holders(owner, expr.attr):
            if at.value in self.looking.read(holder, name):
                yield (), Held(holder, name, at.value, at.rest, how)
        if at.value is owner or getattr(at.value, "of", None) is owner:
            if isinstance(at.value, Opaque) and at.value is not owner and not isinstance(owner, Opaque):
                yield (hop(expr, at.frame, f"nothing in the files given sets {text}", lost=True),), None
            else:
                yield (), At(expr.value, at.frame, owner, at.rest)

    def holders(self, owner: Value, name: str) -> Iterator[tuple[Value, str]]:
        """What may keep an attribute of `owner`, and under which name."""
        yield self.flow.owner(owner), name
        cls = owner.cls if isinstance(owner, Instance) else owner
        if isinstance(cls, ClassValue):
            own = (c for c in self.flow.classes.order(cls) if isinstance(c, ClassValue))
            yield from ((self.flow.classes.frame(c), name) for c in own)
        yield owner, "wrapped"
        yield owner, "params"
        yield from ((wrapped, name) for wrapped in ordered(self.looking.read(owner, "wrapped")))

    # Calls

    def call(self, call: f.Call, at: At) -> Iterator[Step]:
        """What a function of the project returns; else what the call computes from, is called on, or is given."""
        text = self.looking.call(call, at.frame)
        for callee in self.written.called(at.frame, call.span):
            if at.value in self.looking.read(callee, "return"):
                passed = hop(call, at.frame, f"returned by {text}")
                yield (passed,), Held(callee, "return", at.value, at.rest)
        source = at.value.of if isinstance(at.value, Derived | Parameters | State) else None
        if source is not None:
            asked = call.func.value if isinstance(call.func, f.Attribute) else call.func
            for function in (call.func, asked) if asked is not call.func else (asked,):
                yield from self.computed(function, source, hop(call, at.frame, text), at)
        if isinstance(call.func, f.Attribute):
            yield from self.into(call.func.value, at)
        if len(call.args) > 1 and self.is_getattr(call.func, at.frame):
            for name in ordered(self.looking.values(call.args[1], at.frame)):
                if isinstance(name, Text):
                    yield from self.attribute(f.Attribute(call.span, call.args[0], name.text), at)
        for argument in (*call.args, *(value for _, value in call.keywords)):
            for position in self.looking.reach(argument, at.frame, at.value, at.rest):
                yield (hop(call, at.frame, f"through {text}"),), position

    def computed(self, function: f.Expr, source: Value, passed: Hop, at: At) -> Iterator[Step]:
        """The object that a call computes with, or the parallel wrapper around it."""
        for value in ordered(self.looking.values(function, at.frame)):
            if value is source:
                yield (passed,), At(function, at.frame, source, at.rest)
            elif source in self.looking.read(value, "wrapped"):
                yield (passed,), At(function, at.frame, value, (("wrapped", source), *at.rest))

    def is_getattr(self, function: f.Expr, frame: Frame) -> bool:
        called = self.looking.values(function, frame)
        return any(isinstance(v, External) and v.dotted == "getattr" for v in called)

    def subscript(self, expr: f.Subscript, at: At) -> Iterator[Step]:
        """The value as an element of what is subscripted."""
        passed = hop(expr, at.frame, f"{ELEMENT} {self.looking.text(expr.value, at.frame)}")
        if at.value in self.looking.values(expr.value, at.frame):
            yield (), At(expr.value, at.frame, at.value, at.rest)
        for position in self.looking.parts(expr.value, at.frame, at.value, at.rest):
            yield (passed,), position


def is_known(dotted: str) -> bool:
    """Whether the class of an object that outside code made is known by its name."""
    return catalog.is_known(dotted) or catalog.is_optimizer_class(dotted) or catalog.is_module_class(dotted)
