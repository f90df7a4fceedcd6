"""Makes the plan by which a training loop on apex's `FP16_Optimizer` comes into torch's own mixed precision."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ampify.index.apex_leaving import Leaving
from ampify.index.apex_starts import Kind, Starts
from ampify.index.devices import Devices
from ampify.index.events import Event
from ampify.index.half_casts import KIND, HalfCasts, gathered, outermost
from ampify.index.hindrances import Refused
from ampify.index.masters_uses import MastersUse, MastersUses
from ampify.index.moments import Spot
from ampify.index.reaching import OutOfReach, Reach
from ampify.index.scaling import Parts, Scalings
from ampify.index.switches import Switches
from ampify.index.values import Instance
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex_loop import ApexLoop, Change, MastersClip
from ampify.model.scaling import Inline

_ROOT = "ampify_runtime.fp16_utils."
MASTERS = Kind("FP16_Optimizer", ("init_optimizer",), KIND)
# What an optimizer of torch has as well, and means the same by; of these, what takes arguments of its own.
_SHARED = frozenset({"load_state_dict", "param_groups", "state", "state_dict", "step", "zero_grad"})
_BARE = frozenset({"step", "zero_grad"})
# What tells that a file is part of the training, and no library.
_TRAINING = frozenset({"backward", "build", "step"})
_BACKWARD = ("loss", "update_master_grads", "retain_graph")
_CLIP = ("max_norm", "norm_type")
_SCALES = "FP16_Optimizer scales this loss; a GradScaler does, and unscales in its step"
_UNSCALES = "a GradScaler unscales where gradients are used, or in its step: there is nothing to do for it here"
_SCALE = "the loss scale is the scaler's"
_INNER = "the optimizer inside is all that there is"


def leaving_masters(scalings: Scalings, parts: Parts) -> ApexLoop | str:
    """The plan for a loop that trains through such an optimizer; in words what forbids it, if there is none."""
    try:
        return _Leaving.of(scalings, parts).loop()
    except (Refused, OutOfReach) as reason:
        return told(reason.detail, reason.anchor)


def told(reason: str, anchor: Anchor) -> str:
    """A reason with its place."""
    return f"{reason} ({anchor.path}:{anchor.line})"


@dataclass(slots=True)
class _Leaving(Leaving):
    """One loop's plan in the making. Its backwards are read as those of the losses that the optimizer is given; `casts`
    is what becomes of half precision in its program."""

    casts: tuple[Change, ...] = ()

    @classmethod
    def of(cls, scalings: Scalings, parts: Parts) -> _Leaving:
        """The plan of a loop, all that is cast in its program found."""
        flow = scalings.flow
        known = {e.anchor.path for e in parts.related if e.kind in _TRAINING}
        casts = outermost(HalfCasts(flow, scalings.trace.classify.entities, known).changes())
        starts = Starts(flow, MASTERS, frozenset(change.anchor for change in casts if not change.code))
        off = {call.call for call in parts.calls if call.off}
        own = replace(parts, backwards=tuple(_of_loss(e) for e in parts.backwards if e.anchor not in off))
        return cls(scalings, own, {}, Switches(flow), parts.backwards, starts, casts=casts)

    def beginning(self) -> list[Event]:
        """The call that wraps the optimizer, as met in each run."""
        entities = self.scalings.trace.classify.entities
        built = (e for e in self.parts.related if e.kind == "build")
        found = [e for e in built if any(map(entities.has_masters, e.values))]
        if len({e.anchor for e in found}) != 1:
            raise Refused(KIND, self.parts.backwards[0].anchor, "each of several optimizers has a loss scale here")
        if not all(v.dotted.startswith(_ROOT) for e in found for v in e.values if isinstance(v, Instance)):
            raise Refused(KIND, found[0].anchor, "this one steps an optimizer of apex in a way of its own")
        self.refuse_model_gradients()
        return found

    def refuse_model_gradients(self) -> None:
        """Raises Refused where gradients of the model itself are used, which say something else from then on."""
        marks = [e for e in self.parts.related if e.detail == "masters"]
        for event in self.parts.related:
            reads = event.kind == "clip" or (event.kind == "grad_read" and not event.only_asks)
            if reads and event.detail != "masters" and not self.switches.off(event, marks):
                detail = "the model's own gradients are used here, which FP16_Optimizer has copied, and keeps scaled"
                raise Refused(KIND, event.anchor, detail)

    def optimizer_words(self, event: Event) -> list[str]:
        """How the optimizer is spelled that a call makes."""
        facts = self.flow.files[event.frame.path]
        target = event.statement.targets[0] if isinstance(event.statement, f.Assign) else event.node
        return [facts.text(target.span)] if isinstance(target, f.Name | f.Attribute) else []

    def inlined(self, event: Event, devices: Devices) -> Inline:
        """A backward whose loss runs the model."""
        call = next(c for c in self.parts.calls if c.call == event.anchor)
        return self.inline(call, event, devices)

    # What there is of such an optimizer

    def completed(self, found: ApexLoop, reach: Reach) -> ApexLoop:
        """A plan with what becomes of the optimizer's methods, and of half precision."""
        changes, clips = list(self.casts), []
        for use in MastersUses(self.flow, self.scalings.trace.classify.entities).all():
            if use.node.attr == "backward":
                changes.append(self.scaled(use, found, reach))
            elif use.node.attr == "clip_master_grads":
                clips.append(self.clip(use))
            elif (change := self.without(use, reach)) is not None:
                changes.append(change)
        self.refuse_hidden_casts([*(one.loss for one in found.scaling.inlines), *(c.anchor for c in changes)])
        gone = [start.before for start in found.starts if start.alone]
        kept = (c for c in gathered(self.flow, changes) if not any(at.contains(c.anchor) for at in gone))
        return replace(found, changes=tuple(kept), clips=tuple(clips))

    def refuse_hidden_casts(self, moved: list[Anchor]) -> None:
        """Raises Refused where a cast is part of what is written anew, and would stay there."""
        for cast in self.casts:
            if any(at != cast.anchor and at.contains(cast.anchor) for at in moved):
                raise Refused(KIND, cast.anchor, "a cast to half precision is part of a backward's loss here")

    def without(self, use: MastersUse, reach: Reach) -> Change | None:
        """What becomes of an attribute; None if torch's optimizers have it, too."""
        name, facts = use.node.attr, use.facts
        if name == "update_master_grads" and use.alone and use.given() == {}:
            return Change(facts.anchor(use.statement), "", _UNSCALES)
        if name == "loss_scale" and not use.is_target:
            return Change(use.anchor, f"{self.scaler(use, reach)}.get_scale()", _SCALE)
        if name == "optimizer" and not use.is_target:
            return Change(use.anchor, facts.text(use.node.value.span), _INNER)
        if name not in _SHARED or (name in _BARE and use.given() != {}):
            raise Refused(KIND, use.anchor, f"torch's optimizers have no such {name}")
        return None

    def scaler(self, use: MastersUse, reach: Reach) -> str:
        """The scaler's name at an attribute."""
        span = use.statement.span
        return reach.at(Spot(use.frame, span, ((use.frame, span),), frozenset(), -1))

    def scaled(self, use: MastersUse, found: ApexLoop, reach: Reach) -> Change:
        """A backward, by the scaler."""
        call = use.call
        anchor = None if call is None else use.facts.anchor(call)
        here = [event for event in self.parts.backwards if event.anchor == anchor]
        given = use.given(_BACKWARD)
        if not here or anchor is None or given is None or "loss" not in given:
            raise Refused(KIND, use.anchor, "this backward is given what is not known, or in no training loop")
        loss = use.facts.text(given["loss"].span)
        name = next((one.name for one in found.scaling.inlines if one.loss == use.facts.anchor(given["loss"])), loss)
        rest = f"retain_graph={use.facts.text(given['retain_graph'].span)}" if "retain_graph" in given else ""
        return Change(anchor, f"{self.same(here, reach)}.scale({name}).backward({rest})", _SCALES)

    def clip(self, use: MastersUse) -> MastersClip:
        """A clip of the masters, of the parameters from now on."""
        given = use.given(_CLIP)
        here = [e for e in self.parts.related if e.kind == "clip" and use.call is not None and e.node is use.call]
        if not here or not use.alone or given is None or "max_norm" not in given:
            detail = "what clip_master_grads returns is used here, or it is given what is not known, or in no loop"
            raise Refused(KIND, use.anchor, detail)
        facts = use.facts
        arguments = [facts.text(given["max_norm"].span)]
        arguments += [f"norm_type={facts.text(given[name].span)}" for name in _CLIP[1:] if name in given]
        entities = self.scalings.trace.classify.entities
        named = self.of_model(here[0], filter(entities.has_masters, use.values))
        optimizer = facts.text(use.node.value.span)
        every = f'[p for group in {optimizer}.param_groups for p in group["params"]]'
        return MastersClip(here[0].anchor, named or every, ", ".join(arguments))


def _of_loss(event: Event) -> Event:
    """A backward of an optimizer as one of the loss that it is given."""
    assert isinstance(event.node, f.Call)
    if event.detail != "masters":
        raise Refused(KIND, event.anchor, "this loss is scaled by something else")
    loss = next((v for n, v in event.node.keywords if n == "loss"), None) or event.node.args[0]
    node = f.Call(event.node.span, f.Attribute(loss.span, loss, "backward"), (), ())
    return replace(event, node=node, detail="method")
