"""Parallel wraps that come before a call of `amp.initialize` that is there: whether they can simply move behind it."""

from __future__ import annotations

from collections.abc import Iterable

from ampify import catalog
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.switches import Switches
from ampify.index.syntax import expressions, first_argument, in_order, path_to, statements
from ampify.model import facts as f
from ampify.model.project import EarlyWrap

_DEFAULT = "O1"


class EarlyWraps:
    """Reads wraps off a trace."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.switches = Switches(flow)

    def before(self, initialize: Event, related: Iterable[Event]) -> tuple[EarlyWrap, ...]:
        """The wraps of a loop's models that its call of `amp.initialize` follows, by place."""
        found: dict[object, EarlyWrap] = {}
        for wrap in related:
            earlier = wrap.kind == "wrap" and wrap.root == initialize.root and wrap.number < initialize.number
            if earlier and not self.switches.apart(wrap, initialize):
                found.setdefault(wrap.anchor, self.wrap(wrap, initialize))
        return tuple(sorted(found.values(), key=lambda wrap: wrap.call))

    def wrap(self, wrap: Event, initialize: Event) -> EarlyWrap:
        facts = self.flow.files[wrap.frame.path]
        if not self.movable(wrap, initialize):
            return EarlyWrap(wrap.anchor)
        return EarlyWrap(wrap.anchor, facts.anchor(wrap.statement), facts.text(wrap.statement.span))

    def movable(self, wrap: Event, initialize: Event) -> bool:
        """Whether a wrap is a statement of its own in the block of the call, and nothing between needs the wrapper."""
        statement = wrap.statement
        if wrap.frame is not initialize.frame or not isinstance(statement, f.Assign) or len(statement.targets) != 1:
            return False
        body = self.flow.scope(wrap.frame).body
        block, first = path_to(body, statement.span)[-1]
        other, last = path_to(body, initialize.statement.span)[-1]
        target = statement.targets[0]
        alone = block is other and statement.value is wrap.node and isinstance(target, f.Name)
        if not alone or not isinstance(target, f.Name) or not isinstance(wrap.node, f.Call):
            return False
        wrapped = first_argument(wrap.node)
        same = isinstance(wrapped, f.Name) and wrapped.id == target.id
        return same and all(_only_parameters(s, target.id) for s in statements(block[first + 1 : last]))

    def level(self, initialize: Event) -> str | None:
        """The opt level that a call of `amp.initialize` is given; None if it is no literal."""
        assert isinstance(initialize.node, f.Call)
        given = [value for name, value in initialize.node.keywords if name == "opt_level"]
        given += list(initialize.node.args[3:4])
        if not given:
            return _DEFAULT
        literal = given[0].value if isinstance(given[0], f.Constant) else None
        return literal if isinstance(literal, str) else None


def _only_parameters(statement: f.Stmt, name: str) -> bool:
    """Whether a statement uses a model for its parameters at most."""
    for expression in expressions(statement):
        for node, parents in in_order(expression):
            if isinstance(node, f.Name) and node.id == name:
                outer = parents[-1] if parents else None
                if not (isinstance(outer, f.Attribute) and outer.attr in catalog.PARAMETER_METHODS):
                    return False
    return True
