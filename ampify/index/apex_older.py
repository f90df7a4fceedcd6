"""Finds loops in the older interfaces of apex's amp, which scale by themselves, and what forbids to leave these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ampify.apex_catalog import ROOT
from ampify.index.entities import Entities
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.values import Frame, is_amp_handle
from ampify.model import facts as f
from ampify.model.project import BackwardCall, Obstacle

KIND = "older-amp-loop"
_HANDLE = (
    "amp.init casts in the whole process; nearest are torch.autocast around forward and loss, and a "
    "torch.amp.GradScaler that scales, steps and updates where its handle does"
)
_MASTERS = (
    "FP16_Optimizer scales, and keeps float32 masters of a float16 model; nearest are the model in float32 with "
    "torch.autocast around forward and loss, and a torch.amp.GradScaler: scale(loss).backward() for backward(loss), "
    "unscale_ and torch.nn.utils.clip_grad_norm_ for clip_master_grads, step and update for step"
)

_STORED = (
    "write that out by hand (of an old checkpoint, optimizer_state_dict is the state of the optimizer inside, and "
    "fp32_from_fp16 the parameters in float32, by group), or use --target runtime, where it goes by "
    "the same names"
)


def by_handle(function: f.Expr, frame: Frame, flow: Flow, entities: Entities) -> bool:
    """Whether it is the `scale_loss` of what `amp.init` returned, or of an optimizer that this has wrapped."""
    if not isinstance(function, f.Attribute) or function.attr != "scale_loss":
        return False
    receivers = flow.evaluate(function.value, frame)
    return any(is_amp_handle(r) or entities.is_optimizer(r) for r in receivers)


def older_parts(backwards: Iterable[Event], related: Iterable[Event], entities: Entities) -> list[Event]:
    """The events that tell of an older interface: calls of `amp.init`, and backwards of an `FP16_Optimizer` with the
    calls that made it; none if a loop uses neither."""
    found = [event for event in related if event.kind == "older_amp"]
    masters = [event for event in backwards if event.detail == "masters"]
    built = (e for e in related if e.kind == "build" and any(map(entities.has_masters, e.values)))
    return [*found, *masters, *(built if masters else ())]


def of_older(
    parts: Sequence[Event],
    calls: Iterable[BackwardCall],
    loop: str,
    *,
    leaving: bool,
    stored: bool,
    reason: str = "",
) -> Iterator[Obstacle]:
    """What forbids to leave a loop as it is: it does not scale all its losses, or is to come off apex, and cannot for
    a `reason`; where its state is `stored`, what becomes of that is told."""
    first = parts[0]
    bare = next((call.call for call in calls if not (call.scaled or call.off)), None)
    if bare is not None:
        detail = "this backward is not scaled, and others are, or all is cast, by an older interface"
        yield Obstacle(KIND, bare, detail, loop=loop)
    elif leaving:
        handle = first.kind == "older_amp"
        hint = _STORED if stored and not handle else ""
        detail = _HANDLE if handle else _MASTERS
        if reason:
            detail += f". It is not written so here: {reason}"
        yield Obstacle(KIND, first.anchor, detail, loop=loop, hint=hint)


def on_apex(parts: Iterable[Event], flow: Flow) -> bool:
    """Whether it is apex's interface, and not the runtime's."""
    return any(_imports_apex(flow, event.frame.path) for event in parts)


def _imports_apex(flow: Flow, path: str) -> bool:
    names = (name for statement in flow.files[path].imports for name in statement.names)
    return any(name.module.partition(".")[0] == ROOT and not name.level for name in names)
