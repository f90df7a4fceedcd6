"""Scripts that can run without amp: what runs only where it is off, and whether a condition decides on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import path_to
from ampify.index.values import Frame, Opaque, is_masters
from ampify.model import facts as f

Block: TypeAlias = tuple[f.Stmt, ...]


class Switches:
    """Reads conditions off the places of events."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def off(self, event: Event, marks: Iterable[Event]) -> bool:
        """Whether an event is in an arm of an `if` that has what needs amp in another arm, and not in its own."""
        known = tuple(marks)
        arms = (self.arm(event, other) for other in known)
        return any(arm is not None and not any(self.runs(mark, *arm) for mark in known) for arm in arms)

    def apart(self, one: Event, other: Event) -> bool:
        """Whether two events are in different arms of one `if`."""
        return self.arm(one, other) is not None

    def arm(self, one: Event, other: Event) -> tuple[Frame, Block] | None:
        """The arm of an `if` that holds an event, if another event is in a different arm of that `if`."""
        for (frame, span), (other_frame, other_span) in zip(one.stack, other.stack, strict=False):
            if frame is not other_frame:
                return None
            if span != other_span:
                return self.split(frame, span, other_span)
        return None

    def split(self, frame: Frame, span: f.Span, other: f.Span) -> tuple[Frame, Block] | None:
        """The arm that a statement is in, if the paths to it and to another part at the arms of an `if`."""
        body = self.flow.scope(frame).body
        around: f.Stmt | None = None
        for (block, index), (block_of_other, index_of_other) in zip(
            path_to(body, span), path_to(body, other), strict=False
        ):
            if block is not block_of_other:
                return (frame, block) if isinstance(around, f.Branch) else None
            if index != index_of_other:
                return None
            around = block[index]
        return None

    def runs(self, event: Event, frame: Frame, arm: Block) -> bool:
        """Whether an event happens in an arm, or in what is called from there."""
        body = self.flow.scope(frame).body
        spans = [span for own, span in event.stack if own is frame]
        return any(block is arm for span in spans for block, _ in path_to(body, span))

    def conditional(self, event: Event) -> bool:
        """Whether a condition decides if an event happens; the question whether the file is run as a script aside."""
        return any("__name__" not in test for frame, span in event.stack for test in self.tests(frame, span))

    def tests(self, frame: Frame, span: f.Span) -> list[str]:
        """Texts of the tests of the `if` statements around a statement in a frame's function."""
        facts = self.flow.files[frame.path]
        around = [block[i] for block, i in path_to(self.flow.scope(frame).body, span)]
        return [facts.text(s.test.span) for s in around if isinstance(s, f.Branch)]


def needs_amp(event: Event) -> bool:
    """Whether an event can happen only where amp is on: a scaled backward, its call, a clip of master parameters or a
    read of their gradients."""
    match event.kind:
        case "backward":
            return event.scaled is not None or event.detail == "masters"
        case "clip":
            return event.detail in ("master", "masters")
        case "grad_read":
            return any(isinstance(v, Opaque) and is_masters(v.of) for v in event.values)
    return event.kind == "initialize"
