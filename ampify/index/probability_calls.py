"""Which calls are a binary cross entropy of probabilities, by whatever name a program has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ampify import catalog
from ampify.index.renamed import filled, takes
from ampify.index.syntax import nodes
from ampify.index.values import ClassValue, External, Instance, Value
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow


def has_others(flow: Flow) -> bool:
    """Whether a program may call this loss by another name than that of the function."""
    return any(is_probability_loss(flow, made) for made in flow.created) or takes(flow, catalog.BINARY_CROSS_ENTROPY)


def is_probability_loss(flow: Flow, callee: Value) -> bool:
    """Whether calling a value computes this loss."""
    callee = filled(callee)
    match callee:
        case External():
            package, _, name = callee.dotted.rpartition(".")
            return name in catalog.BINARY_CROSS_ENTROPY and package.partition(".")[0] == "torch"
        case Instance() if callee.cls is None:
            return callee.dotted in catalog.BCE_LOSSES
        case Instance(cls=ClassValue() as cls):
            derives = any(dotted in catalog.BCE_LOSSES for dotted in flow.classes.external_bases(cls))
            return derives and _leaves(flow, cls)
    return False


def _leaves(flow: Flow, cls: ClassValue) -> bool:
    """Whether a class that derives from this loss leaves what its base computes to that."""
    own = [c for c in flow.classes.order(cls) if isinstance(c, ClassValue)]
    forwards = [s for c in own for s in flow.classes.methods(c) if s.name == "forward"]
    used = (node for s in forwards[:1] for node, _ in nodes(s.body))
    return not forwards or any(isinstance(node, f.Name) and node.id == "super" for node in used)
