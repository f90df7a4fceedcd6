"""Reads how a file imports NVIDIA apex, and every place where its code mentions what it imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ampify.apex_catalog import EQUALS, EXTENSIONS, ROOT
from ampify.index.link import ModuleTable
from ampify.index.syntax import blocks, expressions, in_order
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex import ApexArgument, ApexAttempt, ApexImport, ApexMention, ApexName, MentionRole

# What an expression that is nothing but a mention is for, by the statement that evaluates it.
_ROLES: Mapping[str, MentionRole] = {
    **dict.fromkeys(("FunctionDef", "AsyncFunctionDef", "ClassDef"), "decorator"),
    **dict.fromkeys(("If", "While", "Assert"), "test"),
}
_FLAGS = (bool, int, str, type(None))


def apex_imports(facts: f.FileFacts, modules: ModuleTable) -> tuple[ApexImport, ...]:
    """The statements of a file that import from apex, in the order of the text."""
    return tuple(_Imports(facts, modules).read(facts.scopes))


def of_apex(facts: f.FileFacts, name: f.ImportedName, modules: ModuleTable) -> bool:
    """Whether an imported name is NVIDIA's, and no module of the project's own."""
    root = name.module.partition(".")[0]
    if name.level or not (root == ROOT or root in EXTENSIONS):
        return False
    own = modules.find(facts.path, root) or modules.find(facts.path, name.module) or modules.member(facts.path, name)
    return own is None


class _Imports:
    """Import statements, with the `try` that each is the point of."""

    def __init__(self, facts: f.FileFacts, modules: ModuleTable) -> None:
        self.facts = facts
        self.modules = modules

    def read(self, scopes: Iterable[f.Scope]) -> Iterator[ApexImport]:
        for scope in scopes:
            yield from self.of_block(scope.body, None)

    def of_block(self, block: tuple[f.Stmt, ...], attempt: ApexAttempt | None) -> Iterator[ApexImport]:
        for statement in block:
            if isinstance(statement, f.Import) and any(self.given(n) for n in statement.names):
                yield self.imported(statement, attempt)
            for inner in blocks(statement):
                tried = isinstance(statement, f.Try) and inner is statement.body
                yield from self.of_block(inner, self.attempt(statement) if tried else None)

    def given(self, name: f.ImportedName) -> bool:
        return of_apex(self.facts, name, self.modules)

    def imported(self, statement: f.Import, attempt: ApexAttempt | None) -> ApexImport:
        names: list[ApexName] = []
        for name in statement.names:
            dotted = f"{name.module}.{name.attribute}" if name.attribute else name.module
            whole = name.attribute is None and name.bound == ROOT
            bound = ROOT if whole else name.bound
            names.append(ApexName(bound, dotted, _spelled(name), self.given(name), name.attribute is not None))
        return ApexImport(self.facts.anchor(statement), tuple(names), attempt)

    def attempt(self, statement: f.Stmt) -> ApexAttempt | None:
        """A `try` that only imports, and sets flags: without a failure to fear, its body is all there is to it."""
        if not isinstance(statement, f.Try) or statement.final:
            return None
        for inner in (*statement.body, *statement.orelse):
            if not (self.surely(inner) if isinstance(inner, f.Import) else _sets_flag(inner)):
                return None
        body = tuple(self.facts.anchor(s) for s in (*statement.body, *statement.orelse))
        return ApexAttempt(self.facts.anchor(statement), body)

    def surely(self, statement: f.Import) -> bool:
        """Whether nothing that a statement imports can be missing but apex."""
        return all(self.given(n) or n.module.partition(".")[0] == "torch" for n in statement.names)


def _spelled(name: f.ImportedName) -> str:
    """The name as it stands in its import statement."""
    if name.attribute is None:
        return name.module if name.bound == name.module.partition(".")[0] else f"{name.module} as {name.bound}"
    return name.attribute if name.bound in (name.attribute, "*") else f"{name.attribute} as {name.bound}"


def _sets_flag(statement: f.Stmt) -> bool:
    return (
        isinstance(statement, f.Assign)
        and isinstance(statement.value, f.Constant)
        and isinstance(statement.value.value, _FLAGS)
        and all(isinstance(target, f.Name) for target in statement.targets)
    )


def apex_mentions(facts: f.FileFacts, imports: Sequence[ApexImport]) -> tuple[ApexMention, ...]:
    """Every use in code of a name that `imports` bind, in the order of the text; in what runs if an import fails, the
    name means what stands in for it."""
    bound = {name.bound: name.dotted for statement in imports for name in statement.names if name.apex}
    for module in [d.removesuffix(".*") for b, d in bound.items() if b == "*"]:
        bound.update({n: f"{module}.{n}" for n in EQUALS.get(module, ()) if n not in bound})
    if not bound:
        return ()
    attempts = {statement.attempt for statement in imports if statement.attempt is not None}
    found = (
        mention
        for scope in facts.scopes
        for mention in _of_scope(facts, scope, bound)
        if not any(_in_handler(mention.anchor, attempt) for attempt in attempts)
    )
    return tuple(sorted(found, key=lambda mention: mention.anchor))


def _in_handler(anchor: Anchor, attempt: ApexAttempt) -> bool:
    return attempt.anchor.contains(anchor) and not any(part.contains(anchor) for part in attempt.body)


def _of_scope(facts: f.FileFacts, scope: f.Scope, bound: Mapping[str, str]) -> Iterator[ApexMention]:
    for base in scope.bases:
        yield from _of_expression(facts, scope, base, base, bound, "base")
    yield from _of_block(facts, scope, scope.body, bound)
    for parameter in scope.parameters:
        if parameter.default is not None:
            yield from _of_expression(facts, scope, parameter.default, parameter.default, bound, "value")


def _of_block(
    facts: f.FileFacts, scope: f.Scope, block: Iterable[f.Stmt], bound: Mapping[str, str]
) -> Iterator[ApexMention]:
    for statement in block:
        targets = tuple(t for _, t in statement.items if t is not None) if isinstance(statement, f.With) else ()
        for expression in (*expressions(statement), *targets):
            role = _ROLES.get(statement.kind, "value")
            yield from _of_expression(facts, scope, statement, expression, bound, role)
        for inner in blocks(statement):
            yield from _of_block(facts, scope, inner, bound)


def _of_expression(
    facts: f.FileFacts,
    scope: f.Scope,
    statement: f.Stmt | f.Expr,
    expression: f.Expr,
    bound: Mapping[str, str],
    role: MentionRole,
) -> Iterator[ApexMention]:
    for node, parents in in_order(expression):
        if not isinstance(node, f.Name) or node.id not in bound or is_local(facts, scope, node.id):
            continue
        place: f.Expr = node
        dotted = bound[node.id]
        outer = list(parents)
        while outer and isinstance(outer[-1], f.Attribute):
            place = outer.pop()
            assert isinstance(place, f.Attribute)
            dotted = f"{dotted}.{place.attr}"
        call = outer[-1] if outer and isinstance(outer[-1], f.Call) and outer[-1].func is place else None
        yield ApexMention(
            anchor=facts.anchor(place),
            dotted=dotted,
            role="call" if call is not None else _role(outer, role),
            statement=facts.anchor(statement),
            bound=node.id,
            call=None if call is None else facts.anchor(call),
            arguments=None if call is None else _arguments(facts, call),
        )


def _role(outer: list[f.Expr], role: MentionRole) -> MentionRole:
    """What a mention that is not called is for, given what it is part of."""
    if not outer:
        return role
    part = outer[-1]
    if isinstance(part, f.Operation) and (part.kind == "BoolOp" or part.operator == "Not"):
        return _role(outer[:-1], role)
    if isinstance(part, f.Operation) and part.kind == "Compare":
        return "test" if any(isinstance(o, f.Constant) and o.value is None for o in part.operands) else "value"
    if isinstance(part, f.Call) and isinstance(part.func, f.Name) and part.func.id in ("isinstance", "issubclass"):
        return "kind"
    if isinstance(part, f.Elements) and len(outer) > 1:
        return "kind" if _role(outer[:-1], role) == "kind" else "value"
    return "value"


def _arguments(facts: f.FileFacts, call: f.Call) -> tuple[ApexArgument, ...] | None:
    """The arguments of a call; None if some are spread out of a list or dict."""
    if any(isinstance(a, f.Starred) for a in call.args) or any(name is None for name, _ in call.keywords):
        return None
    given = [(None, a) for a in call.args] + [(name, value) for name, value in call.keywords]
    found = [ApexArgument(name, facts.anchor(value), facts.text(value.span)) for name, value in given]
    return tuple(sorted(found, key=lambda argument: argument.anchor))


def is_local(facts: f.FileFacts, scope: f.Scope, name: str) -> bool:
    """Whether a name is a parameter, or a variable, of a function around."""
    current: f.Scope | None = scope
    while current is not None and current.parent is not None:
        if name in current.bound and name not in current.outer:
            here = (n.bound for i in _imports_of(current.body) for n in i.names)
            return name not in here
        current = facts.scopes[current.parent]
    return False


def _imports_of(body: Iterable[f.Stmt]) -> Iterator[f.Import]:
    for statement in body:
        if isinstance(statement, f.Import):
            yield statement
        for block in blocks(statement):
            yield from _imports_of(block)


def torch_is_bound(facts: f.FileFacts) -> bool:
    """Whether a file surely has `torch` under that name, wherever its code runs."""
    at_top = (n for s in facts.scopes[0].body if isinstance(s, f.Import) for n in s.names)
    plain = any(n.bound == "torch" and n.attribute is None and not n.level for n in at_top)
    return plain and not any("torch" in scope.bound for scope in facts.scopes[1:] if scope.kind != "class")
