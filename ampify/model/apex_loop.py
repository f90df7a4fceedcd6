"""How a training loop on NVIDIA apex's amp becomes one in torch's own: what each of its places turns into."""

from __future__ import annotations

from dataclasses import dataclass

from ampify.model.anchor import Anchor
from ampify.model.scaling import Device, Inline, Scaling


@dataclass(frozen=True, slots=True)
class Start:
    """A call of `amp.initialize`, at `call`, whose `statement` goes. The `scaler`, for `device`, is made before the
    statement `before`, which is `statement` or what is around it: the tests there are `condition` ("" if there are
    none), and nothing is left of `before` if it holds nothing else (`alone`). `rebinding` is what the statement did
    beside, as code."""

    call: Anchor
    statement: Anchor
    before: Anchor
    scaler: str
    device: Device
    condition: str = ""
    alone: bool = False
    rebinding: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A `with amp.scale_loss(...)` block around `backward`: `code` takes its place; `inline` is there if its loss runs
    the model."""

    backward: Anchor
    statement: Anchor
    call: Anchor
    code: str
    inline: Inline | None = None


@dataclass(frozen=True, slots=True)
class Masters:
    """A call of `amp.master_params`, and the parameters that the optimizer steps as they are spelled there."""

    call: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class State:
    """`amp.state_dict()`, or the `statement` that loads it out of `source`; `scaler` is the scaler's name there, and
    `name` and `saved` are free ones."""

    call: Anchor
    scaler: str
    statement: Anchor | None = None
    source: str = ""
    name: str = ""
    saved: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """The expression at `anchor` becomes `code`, or, with "", the statement there goes; `message` tells why. `calls`
    are those of apex's functions that this is about."""

    anchor: Anchor
    code: str
    message: str
    calls: tuple[Anchor, ...] = ()


@dataclass(frozen=True, slots=True)
class MastersClip:
    """A `clip_master_grads`, at `call`: the `parameters` whose gradients are clipped, and its `arguments`, as code."""

    call: Anchor
    parameters: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ApexLoop:
    """All that takes a loop off apex's amp, or off an optimizer of apex's that keeps masters: `changes` and `clips` are
    there for the latter. What a loop in full precision needs too is in `scaling`; it has no creations, as the scalers
    are made by `starts`."""

    scaling: Scaling
    starts: tuple[Start, ...]
    blocks: tuple[Block, ...]
    masters: tuple[Masters, ...]
    states: tuple[State, ...]
    changes: tuple[Change, ...] = ()
    clips: tuple[MastersClip, ...] = ()
