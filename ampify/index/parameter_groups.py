"""Parameter groups that share out all parameters of a module: by a condition and its opposite, or in every branch of a
loop over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ampify import catalog
from ampify.index.flow import Flow
from ampify.index.moments import leaves as leaves_block
from ampify.index.syntax import blocks, inside, last_name, nodes, statements
from ampify.index.values import Container, Frame, Parameters, Value, Values
from ampify.model import facts as f

OPPOSITES: Final = {
    frozenset(pair) for pair in (("In", "NotIn"), ("Eq", "NotEq"), ("Is", "IsNot"), ("Lt", "GtE"), ("Gt", "LtE"))
}
NEEDED: Final = "requires_grad"
# Builtins that pass on all they are given.
PASSING_ON: Final = frozenset({"filter", "list", "tuple", "iter", "reversed", "enumerate"})


class ParameterGroups:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def shared_out(self, given: Values) -> frozenset[Value]:
        """The owners of parameters all of which are in one of the groups that an optimizer was given."""
        leaves = list(self.leaves(given, set()))
        chosen = [(leaf, self.conditions(leaf)) for leaf in leaves]
        found: set[Value] = set()
        for leaf, conditions in chosen:
            if conditions is None:
                whole = self.filled(leaf, frozenset(leaves))
            else:
                whole = not conditions or any(
                    other is not leaf and self.is_opposite(leaf, conditions, other, others)
                    for other, others in chosen
                    if others is not None
                )
            if whole:
                found |= self.owners(leaf)
        return frozenset(found)

    def leaves(self, values: Values, seen: set[Value]) -> Iterator[Container]:
        """The innermost containers: those of parameters."""
        for value in values:
            if isinstance(value, Container) and value not in seen:
                seen.add(value)
                inner = self.flow.elements(frozenset((value,)))
                if any(isinstance(v, Parameters) for v in inner):
                    yield value
                yield from self.leaves(inner, seen)

    def owners(self, leaf: Container) -> set[Value]:
        return {v.of for v in self.flow.elements(frozenset((leaf,))) if isinstance(v, Parameters)}

    # By conditions

    def conditions(self, leaf: Container) -> list[f.Expr] | None:
        """What a comprehension asks of a parameter, but for its need of a gradient; None if it is something else."""
        path, span = leaf.place
        scopes = (s for s in self.flow.files[path].scopes if inside(span, s.span))
        every = (node for scope in scopes for node, _ in nodes(scope.body))
        made = next((n for n in every if isinstance(n, f.Comprehension) and n.span == span), None)
        if made is None:
            return None
        asked = [part for *_, conditions in made.generators for c in conditions for part in _conjuncts(c)]
        return [part for part in asked if NEEDED not in self.flow.files[path].text(part.span)]

    def is_opposite(self, leaf: Container, asked: list[f.Expr], other: Container, theirs: list[f.Expr]) -> bool:
        """Whether another group has just those parameters that one leaves out."""
        if len(asked) != 1 or len(theirs) != 1 or not self.owners(leaf) & self.owners(other):
            return False
        one, two = (leaf.place[0], asked[0]), (other.place[0], theirs[0])
        return self.negates(one, two) or self.negates(two, one) or self.compares(one, two)

    def negates(self, one: tuple[str, f.Expr], other: tuple[str, f.Expr]) -> bool:
        path, expr = one
        if not isinstance(expr, f.Operation) or expr.operator != "Not":
            return False
        return self.text(path, expr.operands[0]) == self.text(*other)

    def compares(self, one: tuple[str, f.Expr], other: tuple[str, f.Expr]) -> bool:
        (path, a), (path_too, b) = one, other
        if not (isinstance(a, f.Operation) and isinstance(b, f.Operation) and a.kind == b.kind == "Compare"):
            return False
        same = [self.text(path, x) for x in a.operands] == [self.text(path_too, x) for x in b.operands]
        return same and frozenset((a.operator, b.operator)) in OPPOSITES

    def text(self, path: str, expr: f.Expr) -> str:
        return "".join(self.flow.files[path].text(expr.span).split()).strip("()")

    # In a loop

    def filled(self, leaf: Container, leaves: frozenset[Container]) -> bool:
        """Whether a loop over parameters puts each of them, but for those that need no gradient, into one of the
        groups."""
        path, span = leaf.place
        for scope in self.flow.files[path].scopes:
            if scope.kind != "class" and inside(span, scope.span):
                for loop in statements(scope.body):
                    if isinstance(loop, f.For) and self.names_parameters(loop.iterable, path):
                        frames = self.flow.frames_of.get((path, scope.index), ())
                        if any(self.fills(self.needed(loop.body, path), frame, leaf, leaves) for frame in frames):
                            return True
        return False

    def names_parameters(self, iterable: f.Expr, path: str) -> bool:
        """Whether a loop goes over all parameters of a module, or all that need a gradient."""
        if not isinstance(iterable, f.Call):
            return False
        if isinstance(iterable.func, f.Attribute):
            owner = iterable.func.value
            if (
                iterable.func.attr in ("items", "values")
                and isinstance(owner, f.Call)
                and last_name(owner.func) == "dict"
            ):
                return bool(owner.args) and self.names_parameters(owner.args[0], path)
            return iterable.func.attr in catalog.PARAMETER_METHODS
        name = last_name(iterable.func)
        if name == "filter" and iterable.args and NEEDED not in self.flow.files[path].text(iterable.args[0].span):
            return False
        return name in PASSING_ON and bool(iterable.args) and self.names_parameters(iterable.args[-1], path)

    def needed(self, body: tuple[f.Stmt, ...], path: str) -> tuple[f.Stmt, ...]:
        """A loop's body after what passes over the parameters that need no gradient."""
        while body and isinstance(first := body[0], f.Branch):
            text = self.flow.files[path].text(first.test.span)
            passes = NEEDED in text and all(isinstance(s, f.Jump) for s in first.arms[0]) and not first.arms[-1]
            if not passes:
                if NEEDED in text and len(body) == 1 and not first.exhaustive:
                    return first.arms[0]
                break
            body = body[1:]
        return body

    def fills(self, body: tuple[f.Stmt, ...], frame: Frame, leaf: Container, leaves: frozenset[Container]) -> bool:
        """Whether a block surely appends to groups that are given, that of `leaf` among them."""
        met: set[Value] = set()
        return self.appends(body, frame, leaves, met) and leaf in met

    def appends(self, body: Iterable[f.Stmt], frame: Frame, leaves: frozenset[Container], met: set[Value]) -> bool:
        done = False
        for statement in body:
            if isinstance(statement, f.Jump | f.Return):
                return done
            if isinstance(statement, f.Branch):
                arms = [self.appends(arm, frame, leaves, met) for arm in statement.arms]
                if any(leaves_block(arm) and not kept for arm, kept in zip(statement.arms, arms, strict=True)):
                    return done
                done = done or (statement.exhaustive and all(arms))
            elif blocks(statement):
                return False
            else:
                held = self.receiver(statement, frame) | self.added(statement, frame, leaves)
                met |= held
                done = done or (bool(held) and held <= leaves)
        return done

    def added(self, statement: f.Stmt, frame: Frame, leaves: frozenset[Container]) -> Values:
        """The groups that a statement makes and adds to a list: `groups += [{"params": [parameter]}]`."""
        call = statement.value if isinstance(statement, f.Evaluate) else None
        adds = isinstance(call, f.Call) and last_name(call.func) in ("append", "extend")
        if not adds and statement.kind != "AugAssign":
            return frozenset()
        places = ((leaf, *leaf.place) for leaf in leaves)
        return frozenset(leaf for leaf, path, span in places if path == frame.path and inside(span, statement.span))

    def receiver(self, statement: f.Stmt, frame: Frame) -> Values:
        """The containers that a statement appends to."""
        call = statement.value if isinstance(statement, f.Evaluate) else None
        if not (isinstance(call, f.Call) and isinstance(call.func, f.Attribute) and call.func.attr == "append"):
            return frozenset()
        return frozenset(v for v in self.flow.evaluate(call.func.value, frame) if isinstance(v, Container))


def _conjuncts(expr: f.Expr) -> Iterator[f.Expr]:
    if isinstance(expr, f.Operation) and expr.operator == "And":
        for operand in expr.operands:
            yield from _conjuncts(operand)
    else:
        yield expr
