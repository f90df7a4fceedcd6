"""Forwards of trained models without gradients: within one block under autocast, the weights that they cast would be
used again, without gradients, by the forwards that train."""

from __future__ import annotations

from ampify.index.flow import Flow
from ampify.index.moments import leaves
from ampify.index.slices import Slices
from ampify.index.syntax import in_order, statements
from ampify.index.trace import Trace
from ampify.index.values import External, Frame, Instance, Opaque
from ampify.model import facts as f

# What puts gradients off, by the last part of its name.
OFF = frozenset({"no_grad", "inference_mode"})


class Gradless:
    """Answers from a trace."""

    def __init__(self, flow: Flow, trace: Trace, slices: Slices) -> None:
        self.flow = flow
        self.trace = trace
        self.slices = slices
        self._hiding: dict[Frame, bool] = {}

    def is_block(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a statement is a block without gradients that runs a trained model."""
        if not isinstance(statement, f.With) or not any(self.is_off(c, frame) for c, _ in statement.items):
            return False
        # One that leaves ends the block under autocast around it, and with it what that has kept.
        return not leaves(statement.body) and self.runs_trained(statement.body, frame)

    def hides(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether there is such a block in a statement, or in what it calls."""
        for inner in statements((statement,)):
            if self.is_block(inner, frame):
                return True
            for call in self.calls(inner):
                if any(self.hidden_in(target) for target in self.slices.targets(call, frame)):
                    return True
        return False

    def hidden_in(self, frame: Frame) -> bool:
        """Whether a function is such a block as a whole, or has one; one that calls itself does no more for that."""
        if frame not in self._hiding:
            self._hiding[frame] = False
            scope = self.flow.scope(frame)
            off = any(self.is_off(d, frame) for d in scope.decorators) and self.runs_trained(scope.body, frame)
            self._hiding[frame] = off or any(self.hides(statement, frame) for statement in scope.body)
        return self._hiding[frame]

    def is_off(self, context: f.Expr, frame: Frame) -> bool:
        """Whether an expression is what puts gradients off."""
        found = self.flow.evaluate(context, frame)
        return any(isinstance(v, Instance | External) and v.dotted.rpartition(".")[2] in OFF for v in found)

    def runs_trained(self, block: tuple[f.Stmt, ...], frame: Frame) -> bool:
        """Whether statements, or a function that they call, call a model that some optimizer trains, or a part of
        one."""
        calls = [call for statement in statements(block) for call in self.calls(statement)]
        if any(self.is_trained(call, frame) for call in calls):
            return True
        targets = {t for call in calls for t in self.slices.targets(call, frame)} - {frame}
        return any(
            self.is_trained(call, target)
            for target in targets
            if self.flow.scope(target).kind == "function"
            for statement in statements(self.flow.scope(target).body)
            for call in self.calls(statement)
        )

    def is_trained(self, call: f.Call, frame: Frame) -> bool:
        """Whether what a call calls is a trained model, or a part of one."""
        found = frozenset(c for c in self.flow.calls.callee(call, frame) if isinstance(c, Instance | Opaque))
        return bool(self.trace.classify.entities.modules(found) & self.trace.classify.trained)

    def calls(self, statement: f.Stmt) -> list[f.Call]:
        """The calls that a statement itself makes."""
        return [
            node for expr in self.slices.evaluated(statement) for node, _ in in_order(expr) if isinstance(node, f.Call)
        ]
