"""Steps that no backward in view feeds, though they are in the files: handed on uncalled, or run out of sight."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.entities import Entities
from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, is_called, last_name, statements
from ampify.index.values import Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor

OUT_OF_SIGHT = "when the step in line {} runs is not understood"
HANDED_ON = "a step is handed on in line {}, to be called elsewhere"
HINT = "call the optimizer's step() after this backward in the same loop, where it can be followed"
HINT_THERE = "call it after the backward in line {} in the same loop, where it can be followed"


def handed_on(flow: Flow, entities: Entities) -> Iterator[tuple[Anchor, Value]]:
    """Where an optimizer's `step` is read and not called, or asked for by its name, and the optimizer."""
    for path in sorted(flow.leading):
        facts = flow.files[path]
        for scope in facts.scopes if "step" in facts.read or "getattr" in facts.names else ():
            for node in _read(scope):
                for frame in flow.frames_of.get((path, scope.index), ()):
                    owners = flow.evaluate(node.value, frame)
                    yield from ((facts.anchor(node), owner) for owner in owners if entities.is_optimizer(owner))


def _read(scope: f.Scope) -> Iterator[f.Attribute]:
    for statement in statements(scope.body):
        written = statement.targets if isinstance(statement, f.Assign) else ()
        for expression in expressions(statement):
            for node, parents in in_order(expression):
                if isinstance(node, f.Attribute) and node.attr == "step":
                    if not is_called(node, parents) and node not in written:
                        yield node
                elif isinstance(node, f.Call) and _asks_for_step(node):
                    yield f.Attribute(node.span, node.args[0], "step")


def _asks_for_step(call: f.Call) -> bool:
    name = call.args[1] if len(call.args) > 1 and last_name(call.func) == "getattr" else None
    return isinstance(name, f.Constant) and name.value == "step"


def located(words: str, place: Anchor, seen_from: Anchor) -> str:
    """`words` with the line of a place, and with its file where that is another one."""
    return words.format(place.line_seen_from(seen_from.path))
