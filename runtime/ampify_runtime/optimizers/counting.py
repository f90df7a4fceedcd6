"""Owns how many steps each parameter has made: counted by Python, or by the device where only it knows of a skip.

A count is `state[parameter]["step"]`: an int, or int32 of shape [1] on the device, which all parameters of one history
share. Saved states hold ints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

Count = int | Tensor


def history_of(state: Mapping[str, Any]) -> tuple[str, int]:
    """The same for parameters that have the same count, which is not read from the device."""
    made = state.get("step", 0)
    return ("device", id(made)) if isinstance(made, Tensor) else ("host", made)


def count_step(states: Sequence[dict[str, Any]], device: torch.device, may_be_skipped: bool) -> Count:
    """One more step for parameters of one history; what `step_prep` takes: the number, or where to count on.

    A count on the device has yet to be moved: `step_prep` does so, unless the step is skipped.
    """
    made = states[0].get("step", 0)
    if isinstance(made, Tensor):
        # Others may have shared it until now.
        step: Count = made.clone()
    elif may_be_skipped:
        step = torch.full((1,), made, dtype=torch.int32, device=device)
    else:
        step = made + 1
    for state in states:
        state["step"] = step
    return step


def largest(counts: Iterable[Count]) -> Count:
    """The largest count, not read from the device."""
    distinct = list({id(count): count for count in counts}.values())
    on_host = [count for count in distinct if isinstance(count, int)]
    on_device = [count for count in distinct if isinstance(count, Tensor)]
    if not on_device:
        return max(on_host)
    first = on_device[0]
    most = reduce(torch.maximum, (count.to(first.device, non_blocking=True) for count in on_device))
    return most.clamp(min=max(on_host)) if on_host else most


def with_counts_read(state_dict: dict[str, Any]) -> dict[str, Any]:
    """`state_dict` with ints for the counts of parameters that the device counted; waits for the device."""
    states = state_dict["state"]
    counts = {id(state["step"]): state["step"] for state in states.values() if _is_on_device(state)}
    if not counts:
        return state_dict
    read = {identity: int(count.item()) for identity, count in counts.items()}
    fresh = {
        key: {**state, "step": read[id(state["step"])]} if _is_on_device(state) else state
        for key, state in states.items()
    }
    groups = [
        {**group, "step": int(group["step"])} if isinstance(group.get("step"), Tensor) else group
        for group in state_dict["param_groups"]
    ]
    return {**state_dict, "state": fresh, "param_groups": groups}


def _is_on_device(state: Any) -> bool:
    return isinstance(state, dict) and isinstance(state.get("step"), Tensor)
