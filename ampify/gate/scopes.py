"""The scopes of a module: which names each binds, in what meaning, and which it reads."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Meaning: TypeAlias = tuple[str, ...]

# Bound by Python itself in every module.
_GIVEN: Final = frozenset(dir(builtins)) | {
    "__annotations__", "__builtins__", "__class__", "__doc__", "__file__", "__loader__", "__name__", "__package__",
    "__path__", "__spec__",
}  # fmt: skip
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# An assignment that reads the name it binds: what the name stands for goes on.
UPDATE: Final[Meaning] = ("update",)
# `del name`: the name means nothing new by it.
DELETION: Final[Meaning] = ("Del",)


@dataclass(slots=True, eq=False)
class Scope:
    """One scope. `path` tells it apart; comprehensions and lambdas of one scope share theirs, as nobody names them."""

    path: tuple[str, ...]
    kind: str
    parent: Scope | None = None
    bound: Counter[tuple[str, Meaning]] = field(default_factory=Counter)
    loads: Counter[str] = field(default_factory=Counter)
    global_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    children: dict[str, Scope] = field(default_factory=dict)
    has_star: bool = False

    def names(self) -> set[str]:
        """The names bound in this very scope."""
        return {name for name, _ in self.bound}

    def meanings(self, name: str) -> set[Meaning]:
        """In what meanings this scope binds `name`."""
        return {meaning for own, meaning in self.bound if own == name}

    def count_anew(self, name: str) -> int:
        """How often this scope binds `name` to something that it did not stand for before."""
        # Updates come and go with calls of `amp.initialize`, and would make up for a binding that is new.
        return sum(times for (own, kind), times in self.bound.items() if own == name and kind != UPDATE)

    def home(self, name: str) -> Scope | None:
        """The scope whose `name` is meant by `name` here; None if it is built in or unbound."""
        scope: Scope | None = self.module() if name in self.global_names else self
        while scope is not None:
            readable = scope is self or scope.kind != "class"
            if readable and name in scope.names():
                return scope
            scope = scope.parent
        return None

    def module(self) -> Scope:
        """The outermost scope."""
        return self if self.parent is None else self.parent.module()

    def everything(self) -> Iterator[Scope]:
        """This scope and all inside it."""
        yield self
        for child in self.children.values():
            yield from child.everything()

    def unbound(self) -> Iterator[str]:
        """The names read here that nothing binds."""
        return (name for name in self.loads if name not in _GIVEN and self.home(name) is None)

    def child(self, label: str, kind: str) -> Scope:
        """The scope inside this one that goes by `label`, made if it is new."""
        return self.children.setdefault(label, Scope((*self.path, label), kind, self))

    def bind(self, name: str, meaning: Meaning) -> None:
        """Notes that a statement of this scope binds `name`."""
        scope = self
        if name in self.global_names:
            scope = self.module()
        elif name in self.outer_names and self.parent is not None:
            scope = self.parent.home(name) or self.parent
        scope.bound[name, meaning] += 1


def scopes_of(module: ast.Module) -> Scope:
    """The scope of `module`, with all others inside it."""
    scope = Scope((), "module")
    _Reader(scope).block(module.body)
    return scope


class _Reader(ast.NodeVisitor):
    """Reads the statements of one scope into it, and those of inner scopes into theirs."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def block(self, body: list[ast.stmt]) -> None:
        # `global` holds for the whole scope, wherever it stands.
        for node in body:
            for part in _own_nodes(node):
                if isinstance(part, ast.Global):
                    self.scope.global_names.update(part.names)
                elif isinstance(part, ast.Nonlocal):
                    self.scope.outer_names.update(part.names)
        for node in body:
            self.visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scope.loads[node.id] += 1
        else:
            self.scope.bind(node.id, (type(node.ctx).__name__,))

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, _meaning(node.value), node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self._bind(node.target, _meaning(node.value), node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._bind(node.target, UPDATE)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        place = self.scope
        while place.kind == "comprehension" and place.parent is not None:
            place = place.parent
        _Reader(place)._bind(node.target, _meaning(node.value), node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._bind(node.target, ("for", *_meaning(node.iter)))
        for part in (*node.body, *node.orelse):
            self.visit(part)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, ("with", *_meaning(item.context_expr)))
        for part in node.body:
            self.visit(part)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.scope.bind(alias.asname or alias.name.split(".")[0], ("import", alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.scope.has_star = True
            else:
                module = "." * node.level + (node.module or "")
                self.scope.bind(alias.asname or alias.name, import_meaning(module, alias.name))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.scope.bind(node.name, ("except",))
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.scope.bind(node.name, ("match",))
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.scope.bind(node.name, ("match",))

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.scope.bind(node.rest, ("match",))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scope.bind(node.name, ("def",))
        self._outside(node.args)
        for part in (*node.decorator_list, *filter(None, [node.returns])):
            self.visit(part)
        inner = self.scope.child(self._label(node.name), "function")
        reader = _Reader(inner)
        reader._parameters(node.args)
        reader._type_parameters(node)
        reader.block(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._outside(node.args)
        reader = _Reader(self.scope.child("<lambda>", "function"))
        reader._parameters(node.args)
        reader.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.bind(node.name, ("class",))
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        reader = _Reader(self.scope.child(self._label(node.name), "class"))
        reader._type_parameters(node)
        reader.block(node.body)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        else:
            super().generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        # The first iterable is evaluated outside, all else inside.
        self.visit(node.generators[0].iter)
        reader = _Reader(self.scope.child("<comprehension>", "comprehension"))
        for place, generator in enumerate(node.generators):
            reader._bind(generator.target, ("for",))
            for part in (*([generator.iter] if place else []), *generator.ifs):
                reader.visit(part)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            reader.visit(part)

    def _label(self, name: str) -> str:
        taken = sum(1 for label in self.scope.children if label.split("#")[0] == name)
        return f"{name}#{taken}"

    def _outside(self, arguments: ast.arguments) -> None:
        """What of a function's head is evaluated in the scope around it."""
        annotations = (argument.annotation for argument in _arguments(arguments))
        for part in (*arguments.defaults, *arguments.kw_defaults, *annotations):
            if part is not None:
                self.visit(part)

    def _parameters(self, arguments: ast.arguments) -> None:
        for argument in _arguments(arguments):
            self.scope.bind(argument.arg, ("parameter",))

    def _type_parameters(self, node: ast.AST) -> None:
        for parameter in getattr(node, "type_params", ()):
            self.scope.bind(parameter.name, ("type parameter",))  # pragma: no cover (from Python 3.12 on)

    def _bind(self, target: ast.expr, meaning: Meaning, value: ast.expr | None = None) -> None:
        """Binds the names of an assignment's target; parts of it that are no names are only read."""
        read = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)} if value is not None else set()
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, UPDATE if target.id in read else meaning)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._bind(part, meaning, value)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, meaning, value)
        else:
            self.visit(target)


def import_meaning(module: str, name: str | None) -> Meaning:
    """The meaning of what `from module import name` binds, or `import module`."""
    return ("import", module) if name is None else ("from", module, name)


def _meaning(value: ast.expr | None) -> Meaning:
    """What a value is, as far as it matters: the function that made it, or the expression itself."""
    if value is None:
        return ("declared",)
    return ("value", ast.dump(value.func if isinstance(value, ast.Call) else value))


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def _own_nodes(node: ast.stmt) -> Iterator[ast.AST]:
    """The statement and all in it that belongs to the same scope, as far as statements go."""
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            waiting += ast.iter_child_nodes(part)
