"""Forwards of trained models without gradients: within one block under autocast, the weights that they cast would be
used again, without gradients, by the forwards that train."""

from __future__ import annotations

from ampify.index.flow import Flow
from ampify.index.slices import Slices
from ampify.index.syntax import in_order, statements
from ampify.index.trace import Trace
from ampify.index.values import External, Frame, Instance
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
        return self.runs_trained(statement.body, frame)

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
        """Whether statements, with all that they call, call a model that some optimizer trains, or a part of one."""
        entities = self.trace.classify.entities
        for statement in statements(block):
            for call in self.calls(statement):
                callees = self.flow.calls.callee(call, frame)
                made = frozenset(c for c in callees if isinstance(c, Instance) and entities.is_module(c))
                if entities.modules(made) & self.trace.classify.trained:
                    return True
                inner = (t for t in self.slices.targets(call, frame) if self.flow.scope(t).kind == "function")
                if any(t is not frame and self.runs_trained_in(t) for t in inner):
                    return True
        return False

    def runs_trained_in(self, frame: Frame) -> bool:
        """Whether a function calls a trained model itself."""
        entities = self.trace.classify.entities
        calls = (call for statement in statements(self.flow.scope(frame).body) for call in self.calls(statement))
        made = frozenset(
            c
            for call in calls
            for c in self.flow.calls.callee(call, frame)
            if isinstance(c, Instance) and entities.is_module(c)
        )
        return bool(entities.modules(made) & self.trace.classify.trained)

    def calls(self, statement: f.Stmt) -> list[f.Call]:
        """The calls that a statement itself makes."""
        return [
            node for expr in self.slices.evaluated(statement) for node, _ in in_order(expr) if isinstance(node, f.Call)
        ]
