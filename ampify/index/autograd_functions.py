"""Functions with a backward of their own: which of them must be given float32, as their backward is not cast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from ampify.catalog import AUTOGRAD_BASES
from ampify.index.autograd_arguments import AutogradArguments
from ampify.index.autograd_methods import AutogradMethods, Definition, frames_in, scopes_within
from ampify.index.flow import Flow
from ampify.index.grouping import Groups
from ampify.index.programs import closure, imported_files
from ampify.index.syntax import calls, last_name
from ampify.index.type_dependence import depends
from ampify.index.values import ClassValue, External, Frame
from ampify.model import facts as f
from ampify.model.project import AutogradFunction

CAST = frozenset({"custom_fwd", "float_function", "half_function"})
DIRTY = "it changes what it is given in place (mark_dirty)"
APART = "it saves what it is given in setup_context"
MADE = "it is made by a call of {}"
STRANGE = "what it derives from is not in the files given"
NO_FORWARD = "its forward is not in the files given"
SHARED = "it shares a method with one that cannot be decorated, or is already"
# What a class derives from that gives it no `apply`.
_PLAIN_BASES = frozenset({"object", "ABC", "Generic", "Protocol", "Enum"})
_MAKERS = frozenset({"type", "new_class"})


@dataclass(frozen=True, slots=True)
class _Function:
    """A function before it is known what shares its methods: where its class stands, whether its code depends on the
    type that it is given, and whether its author saw to that."""

    path: str
    told: AutogradFunction
    dependent: bool
    cast: bool = False


class AutogradFunctions:
    """Answers for the files of a flow, each file read once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.methods = AutogradMethods(flow)
        self.arguments = AutogradArguments(flow)

    def reached(self, roots: Iterable[str]) -> tuple[AutogradFunction, ...]:
        """Those in files that some files import, at any remove, in the order of the text; with those that share a
        method with them, which must be decorated alike."""
        if not self._groups:
            return ()
        files, modules = self.flow.files, self.flow.modules
        reached = closure(roots, lambda path: imported_files(path, files[path], modules) if path in files else ())
        groups = (group for group in self._groups if any(function.path in reached for function in group))
        told = {function.told for group in groups for function in group if not function.cast}
        return tuple(sorted(told, key=lambda function: (function.forward, function.backward, function.name)))

    @cached_property
    def _groups(self) -> tuple[tuple[_Function, ...], ...]:
        """The functions to be given float32, those together that share a method."""
        if not any(_speaks_of_functions(facts) for facts in self.flow.files.values()):
            return ()
        found = [function for path, facts in self.flow.files.items() for function in self._of(facts)]
        together = Groups()
        for function in found:
            together.merge((function, function.told.forward, function.told.backward))
        groups: dict[object, list[_Function]] = {}
        for function in found:
            groups.setdefault(together.find(function), []).append(function)
        return tuple(_alike(group) for group in groups.values() if any(f.dependent for f in group))

    def _of(self, facts: f.FileFacts) -> Iterator[_Function]:
        for scope in facts.scopes:
            if scope.kind == "class" and scope.bases:
                for frame in frames_in(self.flow, facts.path, scope.parent)[:1]:
                    yield from self._of_class(self.flow.make(ClassValue, facts.path, scope.index, frame))
            yield from self._made(facts, scope)

    def _of_class(self, cls: ClassValue) -> Iterator[_Function]:
        certain = bool(AUTOGRAD_BASES.intersection(self.flow.classes.external_bases(cls)))
        if not certain and not self._may_be_one(cls):
            return
        forwards, backwards = self.methods.of(cls, "forward"), self.methods.of(cls, "backward", "vjp")
        if certain and backwards and not forwards and not self._is_derived_from(cls):
            anchor = backwards[0].anchor
            name = self.flow.classes.scope(cls).name
            yield _Function(cls.path, AutogradFunction(name, anchor, anchor, NO_FORWARD), dependent=True)
        for forward, backward in product(forwards, backwards):
            yield self._function(cls, forward, backward, "" if certain else STRANGE)

    def _function(self, cls: ClassValue, forward: Definition, backward: Definition, strange: str) -> _Function:
        scope = self.flow.classes.scope(cls)
        inner = self._code(cls, forward, backward)
        unknown = forward.scope is None or backward.scope is None
        dependent = unknown or any(depends(self.flow, path, inside) for path, inside in inner)
        obstacle = strange or forward.obstacle or backward.obstacle
        if not obstacle and self.methods.of(cls, "setup_context"):
            obstacle = APART
        elif not obstacle and any(last_name(call.func) == "mark_dirty" for _, s in inner for call in calls(s.body)):
            obstacle = DIRTY
        cast = bool(CAST & forward.decorators)
        spoilt = ""
        if dependent and not cast and forward.scope is not None:
            spoilt = self.arguments.spoilt(scope.name, forward.scope)
        told = AutogradFunction(scope.name, forward.anchor, backward.anchor, obstacle, spoilt)
        return _Function(cls.path, told, dependent and not cast, cast)

    def _code(self, cls: ClassValue, *methods: Definition) -> list[tuple[str, f.Scope]]:
        """The functions that a class computes with: all of its own, and the methods that it has from elsewhere."""
        found = {(cls.path, s.index): s for s in scopes_within(self.flow.files[cls.path], self._span(cls))}
        for method in methods:
            if method.scope is not None:
                within = scopes_within(self.flow.files[method.path], method.scope.span)
                found |= {(method.path, s.index): s for s in within}
        return [(path, scope) for (path, _), scope in found.items()]

    def _span(self, cls: ClassValue) -> f.Span:
        return self.flow.classes.scope(cls).span

    def _may_be_one(self, cls: ClassValue) -> bool:
        """Whether a class of an unknown base has what only such functions have: a forward and a backward, static."""
        classes = self.flow.classes
        last = {dotted.rpartition(".")[2] for dotted in classes.external_bases(cls)}
        if classes.is_module(cls) or (classes.complete(cls) and not last - _PLAIN_BASES):
            return False
        found = (self.methods.of(cls, "forward"), self.methods.of(cls, "backward", "vjp"))
        return all(any("staticmethod" in method.decorators for method in methods) for methods in found)

    def _is_derived_from(self, cls: ClassValue) -> bool:
        return any(
            cls in self.flow.classes.order(self.flow.make(ClassValue, path, scope.index, frame))
            for path, facts in self.flow.files.items()
            for scope in facts.scopes
            if scope.kind == "class" and scope.bases and (path, scope.index) != (cls.path, cls.scope)
            for frame in frames_in(self.flow, path, scope.parent)[:1]
        )

    def _made(self, facts: f.FileFacts, scope: f.Scope) -> Iterator[_Function]:
        """Those that a call makes: `type("Product", (Function,), {...})`."""
        if not _MAKERS & (facts.names | facts.methods):
            return
        for call in calls(scope.body):
            if last_name(call.func) not in _MAKERS or len(call.args) < 2:
                continue
            frames = frames_in(self.flow, facts.path, scope.index)
            bases = call.args[1].items if isinstance(call.args[1], f.Elements) else (call.args[1],)
            if any(self._is_base(base, frame) for base in bases for frame in frames):
                name = call.args[0].value if isinstance(call.args[0], f.Constant) else facts.text(call.span)
                anchor, obstacle = facts.anchor(call), MADE.format(last_name(call.func))
                told = AutogradFunction(str(name), anchor, anchor, obstacle)
                yield _Function(facts.path, told, dependent=True)

    def _is_base(self, base: f.Expr, frame: Frame) -> bool:
        names: set[str] = set()
        for value in self.flow.evaluate(base, frame):
            names |= {value.dotted} if isinstance(value, External) else set()
            names |= {*self.flow.classes.external_bases(value)} if isinstance(value, ClassValue) else set()
        return bool(AUTOGRAD_BASES & names)


def _alike(group: list[_Function]) -> tuple[_Function, ...]:
    """Functions that share methods, each with what forbids to decorate one of them."""
    if len({(function.told.forward, function.told.backward) for function in group}) == 1:
        return tuple(group)
    bound = any(function.cast or function.told.obstacle for function in group)
    spoilt = next((function.told.spoilt for function in group if function.told.spoilt), "")
    return tuple(
        replace(
            function,
            told=replace(function.told, obstacle=function.told.obstacle or SHARED * bound, spoilt=spoilt),
        )
        for function in group
    )


def _speaks_of_functions(facts: f.FileFacts) -> bool:
    """Whether a file may have to do with such functions at all: it names a backward, or imports one's base."""
    imported = (n for statement in facts.imports for n in statement.names)
    return "autograd" in facts.methods | facts.read | facts.names or any(
        "autograd" in n.module or (n.attribute or "").endswith("Function") for n in imported
    )
