"""Gradient penalties: gradients with respect to inputs, of which only the size goes into the loss."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, is_false, path_to, statements
from ampify.index.values import Container, Frame, Instance, Opaque, Parameters, Value
from ampify.model import facts as f

_SIZES = frozenset({"norm", "pow", "square", "vector_norm"})


def is_penalty(call: f.Call, frame: Frame, flow: Flow) -> bool:
    """Whether a call of `torch.autograd.grad` differentiates by inputs, for a loss that takes the gradients' size.

    Such gradients are of size one or so, since a penalty drives them there, and what flows back through them is part of
    the loss. Gradients by parameters, by which inner updates are made, or of which more than the size counts, may be
    as small as any.
    """
    keywords = dict(call.keywords)
    again = keywords.get("create_graph")
    inputs = call.args[1] if len(call.args) > 1 else keywords.get("inputs")
    if again is None or is_false(again) or inputs is None or _by_parameters(inputs, frame, flow):
        return False
    name = _name_of(call, flow.scope(frame).body)
    sizes = [part for part, sized in _uses(flow.scope(frame).body, name) if sized]
    others = [part for part, sized in _uses(flow.scope(frame).body, name) if not sized]
    return bool(name and sizes) and not others


def _by_parameters(inputs: f.Expr, frame: Frame, flow: Flow) -> bool:
    values = flow.evaluate(inputs, frame)
    values |= flow.elements(frozenset(v for v in values if isinstance(v, Container)))
    return any(_is_part(value) for value in values)


def _is_part(value: Value) -> bool:
    """Whether a value is a parameter, or belongs to an object of the project that could hold some."""
    while isinstance(value, Opaque):
        value = value.of
    return isinstance(value, Parameters) or (isinstance(value, Instance) and value.cls is not None)


def _name_of(call: f.Call, body: tuple[f.Stmt, ...]) -> str:
    """The one name that a call's result, or its first element, goes by; "" if it has none."""
    way = path_to(body, call.span)
    statement = way[-1][0][way[-1][1]] if way else None
    if not isinstance(statement, f.Assign) or len(statement.targets) != 1:
        return ""
    target, value = statement.targets[0], statement.value
    if isinstance(target, f.Elements) and len(target.items) == 1:
        target = target.items[0]
    elif isinstance(value, f.Subscript):
        value = value.value
    return target.id if isinstance(target, f.Name) and value is call else ""


def _uses(body: tuple[f.Stmt, ...], name: str) -> Iterator[tuple[f.Expr, bool]]:
    """Reads of a variable, and whether each takes the size of it; one that only reshapes it is not told of."""
    for statement in statements(body):
        targets = statement.targets if isinstance(statement, f.Assign) else ()
        for whole in (statement.value,) if isinstance(statement, f.Assign) else expressions(statement):
            for node, parents in in_order(whole):
                if _is_name(node, name):
                    chain = _chain(node, parents)
                    reshaped = chain[-1] is whole and any(_is_name(t, name) for t in targets)
                    if not reshaped and not _only_asked(chain):
                        yield node, _takes_size(chain, parents)


def _chain(node: f.Expr, parents: tuple[f.Expr, ...]) -> list[f.Expr]:
    """A name with the attributes and methods that are taken of it, from the inside out."""
    chain = [node]
    for parent in reversed(parents):
        function = isinstance(parent, f.Call) and parent.func is chain[-1]
        if not function and not (isinstance(parent, f.Attribute | f.Subscript) and parent.value is chain[-1]):
            break
        chain.append(parent)
    return chain


def _takes_size(chain: list[f.Expr], parents: tuple[f.Expr, ...]) -> bool:
    methods = {part.attr for part in chain if isinstance(part, f.Attribute)}
    outer = next((p for p in reversed(parents) if not any(p is part for part in chain)), None)
    if methods & _SIZES:
        return True
    if isinstance(outer, f.Call) and isinstance(outer.func, f.Attribute):
        return outer.func.attr in _SIZES and chain[-1] in outer.args[:1]
    return isinstance(outer, f.Operation) and outer.operator == "Pow" and outer.operands[0] is chain[-1]


def _only_asked(chain: list[f.Expr]) -> bool:
    """Whether only the shape of a tensor is read."""
    return any(isinstance(part, f.Attribute) and part.attr in ("shape", "size", "dim", "device") for part in chain)


def _is_name(expr: f.Expr, name: str) -> bool:
    return isinstance(expr, f.Name) and expr.id == name
