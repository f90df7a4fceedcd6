"""Which calls of a function are told apart: the frames that they run in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ampify.index.values import Frame, FunctionValue, Instance, Place
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow


@dataclass(frozen=True, slots=True)
class Precision:
    """How many calls on the way to a function tell its frames apart, and how many of these it may have at most."""

    calls: int
    frames: int


PRECISE: Final = Precision(calls=2, frames=32)
# For programs that are too large to be followed as precisely: what is found is no less true, and may be more than is.
COARSE: Final = Precision(calls=1, frames=8)


class Contexts:
    """The frames of a flow, by function and by what called it."""

    def __init__(self, flow: Flow, precision: Precision) -> None:
        self.flow = flow
        self.precision = precision
        # Frames that stand for calls which are not told apart.
        self.shared: set[Frame] = set()

    def frame(self, function: FunctionValue, at: tuple[Frame, f.Call] | None) -> Frame:
        """Functions are told apart by where they are called, methods also by where their object was made."""
        calls = self.flow.calls
        call: tuple[Place, ...] = ((at[0].path, at[1].span),) if at is not None else ()
        if calls.is_forward(function):
            sites: tuple[Place, ...] = ()
        elif isinstance(function.receiver, Instance) and calls.is_module(function.receiver):
            sites = (function.receiver.place,)
        elif isinstance(function.receiver, Instance):
            sites = (function.receiver.place, *call, *function.receiver.sites)[: self.precision.calls + 1]
        else:
            sites = (*call, *(at[0].sites if at is not None else ()))[: self.precision.calls]
        return self.told_apart(self.flow.make(Frame, function.path, function.scope, sites, function.outer))

    def told_apart(self, frame: Frame) -> Frame:
        """A frame, or the one that stands for all further calls of a function that is called from very many places."""
        frames = self.flow.frames_of.get((frame.path, frame.scope), ())
        if frame in self.flow.frames or len(frames) < self.precision.frames:
            return frame
        shared = self.flow.make(Frame, frame.path, frame.scope, (), frame.outer)
        self.shared.add(shared)
        return shared
