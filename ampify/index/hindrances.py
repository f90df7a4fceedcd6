"""What forbids to scale the gradients of a loop: a scaler would stop, unscale twice, or leave gradients unscaled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.penalty_forwards import PenaltyForwards
from ampify.index.slices import reads
from ampify.index.trace import Trace
from ampify.index.unscaling import Unscaling
from ampify.index.values import ordered
from ampify.model import facts as f
from ampify.model.anchor import Anchor


class Refused(Exception):
    """A loop cannot be put into torch's mixed precision exactly; `hint` is for where that of the rule does not fit."""

    def __init__(self, kind: str, anchor: Anchor, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.kind = kind
        self.anchor = anchor
        self.detail = detail
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Hindrances:
    """Looks at the events of one loop. `penalties` are the forwards that will be kept out of autocast."""

    flow: Flow
    trace: Trace
    backwards: tuple[Event, ...]
    related: tuple[Event, ...]
    penalties: PenaltyForwards | None = None

    def refuse(self) -> None:
        """Raises Refused at the first that is found."""
        self.refuse_penalties()
        self.refuse_shared_parameters()
        self.refuse_steps()

    def refuse_penalties(self) -> None:
        for event in self.related:
            if event.kind == "autograd_grad" and not self.is_apart(event):
                detail = "gradients that are part of a loss are computed here, and a scaler does not scale these"
                raise Refused("gradients-out-of-step", event.anchor, detail)

    def refuse_shared_parameters(self) -> None:
        """Two optimizers that step the same parameters on the same gradients."""
        for event in self.backwards:
            for one, other in combinations(ordered(event.feeds), 2):
                # Where one statement steps both, it is one of them or the other.
                apart = event.feeds[one].anchor != event.feeds[other].anchor
                if apart and self.trace.classify.entities.share(one, other):
                    place = event.feeds[other].anchor
                    detail = "two optimizers step the same parameters, and each would unscale their gradients"
                    raise Refused("gradients-out-of-step", place, detail)

    def refuse_steps(self) -> None:
        """Steps that may come without gradients."""
        unscaling = Unscaling(self.flow, self.trace, self.backwards)
        for step in self.related:
            if step.kind == "step" and step.detail == "" and not unscaling.fed(step):
                detail = "a backward need not come before this step, and a scaler stops at one without gradients"
                raise Refused("gradients-out-of-step", step.anchor, detail)

    def is_apart(self, event: Event) -> bool:
        """Whether gradients by inputs are computed of what a statement outside autocast gives, or in a function that
        runs the model for them itself: called from outside autocast, all of it is in float32."""
        if event.detail != "penalty" or not isinstance(event.node, f.Call):
            return False
        if self.penalties is not None and event in self.penalties.places:
            return True
        named = [value for name, value in event.node.keywords if name == "outputs"]
        outputs = {name.partition(".")[0] for expr in (*event.node.args[:1], *named) for name in reads(expr)}
        scope = self.flow.scope(event.frame)
        given = {parameter.name for parameter in scope.parameters}
        backwards = {(b.frame.path, b.frame.scope) for b in self.backwards}
        own = scope.kind == "function" and (event.frame.path, event.frame.scope) not in backwards
        return own and bool(outputs) and outputs <= scope.bound - given
