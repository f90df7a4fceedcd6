"""What rules that read files without following their values share: blocks, and calls told by their names.

Where the flow analysis gives up, for its budget or for a value that it cannot follow, names still tell of a mistake;
what is found by them is reported and never changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.index.syntax import blocks, calls, last_name
from ampify.model import facts as f


def method_calls(body: tuple[f.Stmt, ...], method: str) -> Iterator[f.Call]:
    """Calls of a method, in order."""
    return (call for call in calls(body) if isinstance(call.func, f.Attribute) and call.func.attr == method)


def receiver(call: f.Call) -> str:
    """The last name of what a method is called on, in lower case."""
    return last_name(call.func.value).lower() if isinstance(call.func, f.Attribute) else ""


def scaler_steps(body: tuple[f.Stmt, ...]) -> Iterator[f.Call]:
    """Calls that look like `scaler.step(optimizer)`."""
    return (call for call in method_calls(body, "step") if call.args and "scaler" in receiver(call))


def optimizer_steps(body: tuple[f.Stmt, ...]) -> Iterator[f.Call]:
    """Calls that look like `optimizer.step()`, or like that of a scaler, which steps one."""
    for call in method_calls(body, "step"):
        name = receiver(call)
        named = (name.startswith("opt") or "optim" in name or name.endswith("_opt")) and "sched" not in name
        if named or (call.args and "scaler" in name):
            yield call


def is_optimizer_class(name: str) -> bool:
    """Whether a name is that of an optimizer's class, by the tables or by its ending."""
    known = name in catalog.TORCH_OPTIMIZERS or name in catalog.OTHER_OPTIMIZERS
    return known or name.endswith(("Optimizer", "Adam", "AdamW", "SGD"))


def all_blocks(body: tuple[f.Stmt, ...]) -> Iterator[tuple[f.Stmt, ...]]:
    """A body and all blocks inside it."""
    yield body
    for statement in body:
        for block in blocks(statement):
            yield from all_blocks(block)
