"""How a training loop is put into torch's own mixed precision: what goes where, as expressions in scope there."""

from __future__ import annotations

from dataclasses import dataclass

from ampify.model.anchor import Anchor


@dataclass(frozen=True, slots=True)
class Device:
    """Where a loop runs, as the code at one place tells it: `kind` is an expression of the device's type (such as
    `device.type`, or a string literal), `on` one that is true where it is a GPU; empty if it always is. `wide` is the
    type of any device, where `kind` is that of a GPU only."""

    kind: str
    on: str = ""
    wide: str = ""


@dataclass(frozen=True, slots=True)
class Creation:
    """A GradScaler is made after the statement `anchor` and bound to `scaler`."""

    anchor: Anchor
    scaler: str
    device: Device


@dataclass(frozen=True, slots=True)
class Passing:
    """The scaler goes along a call: the function defined at `anchor` gets the parameter `code`, or the call there gets
    that argument."""

    anchor: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class Region:
    """Statements of one block, from `first` to `last`, that run the model and build a loss."""

    first: Anchor
    last: Anchor
    device: Device


@dataclass(frozen=True, slots=True)
class Inline:
    """A backward whose statement runs the model itself: its loss, `loss_text`, gets a statement of its own before it,
    that binds `name`."""

    statement: Anchor
    loss: Anchor
    loss_text: str
    name: str
    device: Device


@dataclass(frozen=True, slots=True)
class Widening:
    """What the call of a loss that autocast refuses is given, at `argument`, becomes float32 first; autocast is off for
    the statement `around`, if that runs under it, or for what is called alone, at `function`, if the statement computes
    more."""

    call: Anchor
    argument: Anchor
    text: str
    around: Anchor | None = None
    function: Anchor | None = None
    function_text: str = ""


@dataclass(frozen=True, slots=True)
class ScaledBackward:
    """A backward, at `call`, of `loss`, which `scaler` is to scale; `text` is the loss as it is spelled there then."""

    call: Anchor
    loss: Anchor
    text: str
    scaler: str


@dataclass(frozen=True, slots=True)
class Unscaling:
    """The gradients of `optimizers` are unscaled before the statement `anchor`, for what reads them at `reader`."""

    anchor: Anchor
    reader: Anchor
    optimizers: tuple[str, ...]
    scaler: str


@dataclass(frozen=True, slots=True)
class ScaledStep:
    """`optimizer.step()`, at `call`, goes through `scaler`."""

    call: Anchor
    optimizer: str
    scaler: str


@dataclass(frozen=True, slots=True)
class Update:
    """The scale is adapted after the statement `anchor`; `step` is the last step before it."""

    anchor: Anchor
    step: Anchor
    scaler: str


@dataclass(frozen=True, slots=True)
class Scaling:
    """All that makes a loop one in torch's mixed precision. `states` are the scaler's names at the places where
    optimizer state is saved and loaded."""

    creations: tuple[Creation, ...] = ()
    parameters: tuple[Passing, ...] = ()
    arguments: tuple[Passing, ...] = ()
    regions: tuple[Region, ...] = ()
    inlines: tuple[Inline, ...] = ()
    widenings: tuple[Widening, ...] = ()
    backwards: tuple[ScaledBackward, ...] = ()
    unscalings: tuple[Unscaling, ...] = ()
    steps: tuple[ScaledStep, ...] = ()
    updates: tuple[Update, ...] = ()
    states: tuple[tuple[Anchor, str], ...] = ()

    def state(self, site: Anchor) -> str | None:
        """The scaler's name where optimizer state is saved or loaded; None if it has none there."""
        return dict(self.states).get(site)
