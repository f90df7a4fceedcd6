"""Which assignments of a local name a read of it may see: reaching definitions, by the order of the text.

Only names that plain assignments, `for` and `with` bind are told apart, and only where every way to the read passes
one of these. Wherever the order is in doubt (a name bound in a `finally` as well) nothing is said, and all that was
ever assigned stands. What runs later (a function inside, a generator expression) runs after it is defined: it may see
what is there by then, and all that is assigned from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ampify.index.syntax import assigned, children, expressions, last_name, named, parts, statements
from ampify.model import facts as f

# By name, the places of the assignments that may have been the last; ENTRY: there may have been none.
Env: TypeAlias = Mapping[str, frozenset[f.Span]]

ENTRY: Final[f.Span] = (0, 0, 0, 0)
# Context managers that end the exceptions of their block.
SUPPRESSING: Final = frozenset({"suppress", "raises", "assertRaises"})


@dataclass(frozen=True, slots=True)
class Reaching:
    """The places of the assignments that may be seen, where these are not all there are: by the place of each `read`
    in the scope itself, and by name for each scope `inside` that is not run on the spot."""

    reads: Mapping[f.Span, frozenset[f.Span]]
    inside: Mapping[int, Env]


def reaching(facts: f.FileFacts, scope: f.Scope) -> Reaching:
    """What may be seen of the assignments to the local names of a scope."""
    bindings = _tracked(facts, scope)
    if not bindings:
        return Reaching({}, {})
    walk = _Walk(bindings)
    walk.block(scope.body, dict.fromkeys(bindings, frozenset((ENTRY,))))
    return Reaching(
        {at: seen for at, seen in walk.found.items() if ENTRY not in seen},
        {index: {n: seen for n, seen in env.items() if ENTRY not in seen} for index, env in walk.inside.items()},
    )


def _tracked(facts: f.FileFacts, scope: f.Scope) -> Mapping[str, tuple[f.Span, ...]]:
    """Names of a scope that are bound more than once, and in no way but those told apart; where each is assigned."""
    if scope.kind == "class":
        return {}
    bound: dict[str, list[f.Span]] = {}
    for name in (name for statement in statements(scope.body) for name in assigned(statement)):
        bound.setdefault(name.id, []).append(name.span)
    given = {parameter.name for parameter in scope.parameters}
    several = {name: tuple(spans) for name, spans in bound.items() if len(spans) + (name in given) > 1}
    otherwise = frozenset(_otherwise(facts, scope)) if several else frozenset()
    return {name: spans for name, spans in several.items() if name not in otherwise}


def _otherwise(facts: f.FileFacts, scope: f.Scope) -> Iterator[str]:
    """Names that are bound in other ways or by other functions, too, or in a block whose order is not followed."""
    yield from scope.outer
    for other in facts.scopes:
        yield from other.outer
    for statement in statements(scope.body):
        match statement:
            case f.Import():
                yield from (name.bound for name in statement.names)
            case f.Define():
                yield facts.scopes[statement.scope].name
            case f.Try():
                yield from (name.id for s in statements(statement.final) for name in assigned(s))
    yield from (part.target.id for part in parts(scope.body) if isinstance(part, f.Walrus))


@dataclass(slots=True)
class _Loop:
    """The ways out of a loop's body: to what follows the loop, and to its next round."""

    breaks: Env | None = None
    again: Env | None = None


@dataclass(slots=True)
class _Walk:
    """One walk over the statements of a scope. An environment of None: control does not get there."""

    bindings: Mapping[str, tuple[f.Span, ...]]
    found: dict[f.Span, frozenset[f.Span]] = field(default_factory=dict)
    inside: dict[int, Env] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)
    # The statement under way, or the outermost loop around it: what is assigned from its start on may follow it.
    at: f.Span = ENTRY

    def block(self, body: Iterable[f.Stmt], env: Env | None) -> Env | None:
        for statement in body:
            if env is None:
                return None
            env = self.statement(statement, env)
        return env

    def statement(self, statement: f.Stmt, env: Env) -> Env | None:
        if not self.loops:
            self.at = statement.span
        match statement:
            case f.Branch():
                self.read(statement.test, env)
                ends = [self.block(arm, env) for arm in statement.arms]
                return _joined(*ends, *(() if statement.exhaustive else (env,)))
            case f.For():
                self.read(statement.iterable, env)
                return self.loop(statement, env)
            case f.While():
                return self.loop(statement, env)
            case f.With():
                return self.block_of_with(statement, env)
            case f.Try():
                return self.attempt(statement, env)
        for expression in expressions(statement):
            self.read(expression, env)
        if isinstance(statement, f.Define):
            self.open(statement.scope, env)
        if isinstance(statement, f.Jump):
            self.jump(statement, env)
        return None if isinstance(statement, f.Jump | f.Return) else self.bound(statement, env)

    def jump(self, statement: f.Jump, env: Env) -> None:
        if self.loops and statement.kind == "Break":
            self.loops[-1].breaks = _joined(self.loops[-1].breaks, env)
        elif self.loops and statement.kind == "Continue":
            self.loops[-1].again = _joined(self.loops[-1].again, env)

    def loop(self, statement: f.For | f.While, env: Env) -> Env | None:
        head: Env = env
        while True:
            inner = _Loop()
            self.loops.append(inner)
            if isinstance(statement, f.While):
                self.read(statement.test, head)
            end = self.block(statement.body, self.bound(statement, head))
            self.loops.pop()
            around = _joined(head, end, inner.again) or head
            if around == head:
                return _joined(self.block(statement.orelse, head), inner.breaks)
            head = around

    def block_of_with(self, statement: f.With, env: Env) -> Env | None:
        for context, target in statement.items:
            self.read(context, env)
            if target is not None:
                env = self.after(env, named(target), strong=True)
        end = self.block(statement.body, env)
        if any(isinstance(c, f.Call) and last_name(c.func) in SUPPRESSING for c, _ in statement.items):
            return _joined(end, self.anywhere(statement.body, env))
        return end

    def attempt(self, statement: f.Try, env: Env) -> Env | None:
        end = self.block(statement.orelse, self.block(statement.body, env))
        caught = self.anywhere(statement.body, env)
        end = _joined(end, *(self.block(handler, caught) for handler in statement.handlers))
        parts = (*statement.body, *statement.orelse, *(s for handler in statement.handlers for s in handler))
        last = self.block(statement.final, self.anywhere(parts, env))
        return end if last is not None else None

    def anywhere(self, body: Iterable[f.Stmt], env: Env) -> Env:
        """What holds when a block is left at any of its places."""
        names = (name for statement in statements(body) for name in assigned(statement))
        return self.after(env, names, strong=False)

    def bound(self, statement: f.Stmt, env: Env) -> Env:
        return self.after(env, assigned(statement), strong=statement.kind != "AugAssign")

    def after(self, env: Env, names: Iterable[f.Name], *, strong: bool) -> Env:
        """An environment after assignments; those that do not take the place of what was there add to it."""
        found = dict(env)
        for name in names:
            if name.id in self.bindings:
                found[name.id] = frozenset((name.span,)) if strong else found[name.id] | {name.span}
        return found

    def read(self, root: f.Expr, env: Env) -> None:
        waiting = [(root, env)]
        while waiting:
            node, now = waiting.pop()
            if isinstance(node, f.Name):
                if node.id in self.bindings:
                    self.found[node.span] = self.found.get(node.span, frozenset()) | now[node.id]
            elif isinstance(node, f.Lambda):
                self.open(node.scope, now)
            else:
                # A generator runs when it is gone through.
                now = self.onwards(now) if node.kind == "GeneratorExp" else now
                waiting.extend((child, now) for child in children(node))

    def open(self, scope: int, env: Env) -> None:
        """Notes what a scope inside may see that is defined here."""
        self.inside[scope] = _joined(self.inside.get(scope), self.onwards(env)) or env

    def onwards(self, env: Env) -> Env:
        """What may be seen here or at any time later."""
        start = self.at[:2]
        return {
            name: seen.union(span for span in self.bindings[name] if span[:2] >= start) for name, seen in env.items()
        }


def _joined(*ends: Env | None) -> Env | None:
    """What holds where several ways meet."""
    ways = [end for end in ends if end is not None]
    if not ways:
        return None
    return {name: frozenset[f.Span]().union(*(way[name] for way in ways)) for name in ways[0]}
