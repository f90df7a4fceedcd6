"""Finds what a program asks of optimizers that keep master parameters themselves: every attribute of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampify.index.entities import Entities
from ampify.index.flow import Flow
from ampify.index.half_casts import KIND
from ampify.index.hindrances import Refused
from ampify.index.syntax import expressions, in_order, statements
from ampify.index.values import Frame, Instance, NoneValue, Values
from ampify.model import facts as f
from ampify.model.anchor import Anchor

# What no other optimizer has: where it is not known whose it is, the flow has lost one.
_THEIRS = frozenset({"clip_master_grads", "inspect_master_grad_data", "update_master_grads"})


@dataclass(frozen=True, slots=True)
class MastersUse:
    """An attribute of such an optimizer, or of one of torch in its place where the script does without: `values`."""

    facts: f.FileFacts
    frame: Frame
    statement: f.Stmt
    node: f.Attribute
    parents: tuple[f.Expr, ...]
    values: Values

    @property
    def anchor(self) -> Anchor:
        """The place of the attribute."""
        return self.facts.anchor(self.node)

    @property
    def call(self) -> f.Call | None:
        """The call of it, if it is called."""
        outer = self.parents[-1] if self.parents else None
        return outer if isinstance(outer, f.Call) and outer.func is self.node else None

    @property
    def alone(self) -> bool:
        """Whether its call is a statement by itself."""
        return isinstance(self.statement, f.Evaluate) and self.statement.value is self.call

    @property
    def is_target(self) -> bool:
        """Whether it is set here, or deleted."""
        if isinstance(self.statement, f.Assign):
            return any(part is self.node for target in self.statement.targets for part, _ in in_order(target))
        return isinstance(self.statement, f.Simple) and self.statement.kind == "Delete"

    def given(self, parameters: tuple[str, ...] = ()) -> dict[str, f.Expr] | None:
        """The arguments of its call by their parameters; None if it is not called, or given others, or with comments
        among them."""
        call = self.call
        if call is None or "#" in self.facts.text(call.span) or len(call.args) > len(parameters):
            return None
        given: list[tuple[str | None, f.Expr]] = [*zip(parameters, call.args, strict=False), *call.keywords]
        plain = [(n, v) for n, v in given if n in parameters and not isinstance(v, f.Starred)]
        found: dict[str, f.Expr] = {str(n): v for n, v in plain}
        return found if len(found) == len(given) else None


class MastersUses:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow, entities: Entities) -> None:
        self.flow = flow
        self.entities = entities

    def all(self) -> Iterator[MastersUse]:
        """All such attributes, by file, in the order of the text; raises Refused where one may be something else's."""
        for path in sorted(self.flow.files):
            facts = self.flow.files[path]
            for scope in facts.scopes:
                frames = self.flow.frames_of.get((path, scope.index), [])
                for statement in statements(scope.body):
                    for expression in expressions(statement):
                        for node, parents in in_order(expression):
                            if isinstance(node, f.Attribute):
                                yield from self.read(facts, frames, statement, node, parents)

    def read(
        self,
        facts: f.FileFacts,
        frames: list[Frame],
        statement: f.Stmt,
        node: f.Attribute,
        parents: tuple[f.Expr, ...],
    ) -> Iterator[MastersUse]:
        values = frozenset().union(*(self.flow.evaluate(node.value, frame) for frame in frames))
        masters = any(map(self.entities.has_masters, values))
        if not masters and node.attr not in _THEIRS:
            return
        if not masters or not all(map(self.is_plain, values)):
            raise Refused(KIND, facts.anchor(node), f"it cannot be told whose {node.attr} this is")
        yield MastersUse(facts, frames[0], statement, node, parents, values)

    def is_plain(self, value: object) -> bool:
        """Whether a value is an optimizer of a known class that is not the project's, or none."""
        if isinstance(value, NoneValue):
            return True
        return isinstance(value, Instance) and value.cls is None and self.entities.is_optimizer(value)
