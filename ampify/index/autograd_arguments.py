"""What functions with a backward of their own are given that `torch.amp.custom_fwd` would hand on as something else.

With `cast_inputs` it goes through every argument that can be iterated, and makes a generator of all but lists, tuples
and dicts; a named tuple it cannot make anew (`_cast` in torch/amp/autocast_mode.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify import catalog
from ampify.index.autograd_methods import frames_in
from ampify.index.expressions import GENERATOR
from ampify.index.flow import Flow
from ampify.index.syntax import dotted_name, last_name, parts, statements
from ampify.index.values import (
    ClassValue,
    Container,
    External,
    Frame,
    FunctionValue,
    Instance,
    Method,
    NoneValue,
    Partial,
    Text,
    Value,
)
from ampify.model import facts as f

REBUILT = "custom_fwd(cast_inputs=...) would hand {} on as something else"
CALLED = "custom_fwd(cast_inputs=...) may hand {}, which it calls, on as something else"
READ = "custom_fwd(cast_inputs=...) may hand {}, whose {} it reads, on as something else"
LOOPED = "custom_fwd(cast_inputs=...) may hand {}, which it goes through, on as something else"
_CONTAINERS = frozenset({GENERATOR, "set", "SetComp", "GeneratorExp"})
_MAKERS = frozenset(
    {"enumerate", "filter", "frozenset", "iter", "map", "namedtuple", "range", "reversed", "set", "zip"}
)
_VIEWS = frozenset({"buffers", "children", "items", "keys", "modules", "named_parameters", "parameters", "values"})
_MODULES = frozenset({"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
# What a tensor or a `torch.Size` has beside its methods.
_OF_TENSORS = frozenset(
    """T H data device dtype grad grad_fn imag is_cuda is_leaf is_quantized is_sparse itemsize layout mH mT names nbytes
    ndim real requires_grad shape""".split()
)


class AutogradArguments:
    """Answers for the calls of `apply` in the files of a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def spoilt(self, name: str, forward: f.Scope) -> str:
        """What would not arrive in the forward of the class `name` as it was given, in words; "" if nothing is known
        of."""
        given: dict[int, list[tuple[f.Expr, tuple[Frame, ...]]]] = {}
        for call, frames in self._sites(name):
            starred = next((i for i, arg in enumerate(call.args) if isinstance(arg, f.Starred)), len(call.args))
            for index, arg in enumerate(call.args):
                if not isinstance(arg, f.Starred) and self._is_spoilt(arg, frames):
                    return REBUILT.format(f"`{self.flow.files[frames[0].path].text(arg.span)}`")
                if index < starred:
                    given.setdefault(index, []).append((arg, frames))
        for index, parameter in enumerate(p for p in forward.parameters[1:] if p.kind == "positional"):
            doubt = _doubt(parameter.name, forward)
            if doubt and not self._is_harmless(given.get(index, ())):
                return doubt
        return ""

    def _sites(self, name: str) -> Iterator[tuple[f.Call, tuple[Frame, ...]]]:
        """The calls of a class's `apply`, directly or by a name that it was bound to."""
        called = {name}
        for facts in self.flow.files.values():
            if name in facts.names or name in facts.methods or name in facts.read:
                called |= {alias for scope in facts.scopes for s in scope.body for alias in _aliases(s, name)}
        for path, facts in self.flow.files.items():
            for scope in facts.scopes:
                for node in parts(scope.body):
                    if isinstance(node, f.Call) and _applies(node.func, name, called):
                        yield node, frames_in(self.flow, path, scope.index)

    def _is_spoilt(self, arg: f.Expr, frames: tuple[Frame, ...]) -> bool:
        if isinstance(arg, f.Comprehension):
            return arg.kind in _CONTAINERS
        if isinstance(arg, f.Call):
            views = _VIEWS if isinstance(arg.func, f.Attribute) else _MAKERS
            if last_name(arg.func) in views:
                return True
        return any(map(self._is_iterated, self._values(arg, frames)))

    def _values(self, arg: f.Expr, frames: tuple[Frame, ...]) -> set[Value]:
        """What an argument may be. A function of the project is not called again for it."""
        inner = [node for node in parts((f.Evaluate(arg.span, arg),)) if isinstance(node, f.Call)]
        found: set[Value] = set()
        for frame in frames:
            callees = {value for call in inner for value in self.flow.evaluate(call.func, frame)}
            if not any(isinstance(value, FunctionValue) for value in callees):
                found |= self.flow.evaluate(arg, frame)
        return found

    def _is_iterated(self, value: Value) -> bool:
        """Whether a value is surely gone through, and none of the kinds that are made anew as they were."""
        if isinstance(value, Container):
            return value.part in _CONTAINERS
        if not isinstance(value, Instance):
            return False
        if value.cls is None:
            known = value.dotted.startswith("torch.nn.") and value.dotted.rpartition(".")[2] in _MODULES
            return known or value.dotted == catalog.NAMED_TUPLE or value.dotted in _MAKERS
        classes = self.flow.classes
        bases = [dotted.rpartition(".")[2] for dotted in classes.external_bases(value.cls)]
        named = any(base in _MODULES | {"NamedTuple", "namedtuple"} for base in bases)
        return named or bool(classes.class_member(value.cls, "__iter__", value))

    def _is_harmless(self, given: Iterable[tuple[f.Expr, tuple[Frame, ...]]]) -> bool:
        """Whether all that is given for a parameter is known, and is handed on as it is."""
        values = [self._values(arg, frames) for arg, frames in given]
        return bool(values) and all(found and all(map(self._is_single, found)) for found in values)

    def _is_single(self, value: Value) -> bool:
        if isinstance(value, Instance):
            return value.cls is not None and not self._is_iterated(value)
        if isinstance(value, Container):
            return not self._is_iterated(value)
        return isinstance(value, FunctionValue | ClassValue | Method | Partial | External | NoneValue | Text)


def _doubt(name: str, forward: f.Scope) -> str:
    """What tells that a parameter is no tensor, and no list, tuple or dict either: it is called or
    gone through, or a field is read."""
    copies = (s.targets for s in statements(forward.body) if isinstance(s, f.Assign) and dotted_name(s.value) == name)
    names = {name, *(dotted_name(target) for targets in copies for target in targets)} - {""}
    called = [node.func for node in parts(forward.body) if isinstance(node, f.Call)]
    if any(dotted_name(func) in names for func in called):
        return CALLED.format(f"`{name}`")
    if any(isinstance(s, f.For) and dotted_name(s.iterable) in names for s in statements(forward.body)):
        return LOOPED.format(f"`{name}`")
    methods = set(map(id, called))
    for node in parts(forward.body):
        if not isinstance(node, f.Attribute) or node.attr in _OF_TENSORS or id(node) in methods:
            continue
        if dotted_name(node.value) in names:
            return READ.format(f"`{name}`", f"`{node.attr}`")
    return ""


def _applies(func: f.Expr, name: str, called: set[str]) -> bool:
    if isinstance(func, f.Attribute) and func.attr == "apply":
        return last_name(func.value) in called
    return last_name(func) in called - {name}


def _aliases(statement: f.Stmt, name: str) -> Iterator[str]:
    """The names that a statement binds to a class's `apply`."""
    for inner in statements((statement,)):
        value = inner.value if isinstance(inner, f.Assign) else None
        if isinstance(inner, f.Assign) and isinstance(value, f.Attribute) and value.attr == "apply":
            yield from (last_name(target) for target in inner.targets if last_name(value.value) == name)
