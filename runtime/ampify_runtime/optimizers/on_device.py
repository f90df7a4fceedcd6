"""Owns learning rates and step counts that live on the device, where a captured step reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def move_to_device(group: dict[str, Any]) -> None:
    """Make the learning rate (float32, shape []) and the step (int32, shape [1]), if any, the group's own tensors."""
    device = group["params"][0].device if group["params"] else torch.device("cpu")
    group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float32, device=device)
    if "step" in group:
        group["step"] = torch.tensor([int(group["step"])], dtype=torch.int32, device=device)


def step_on_device(optimizer: Optimizer, group: dict[str, Any], parameters: Sequence[Tensor]) -> Tensor:
    """The group's step count; made where it is missing. Raises RuntimeError if `parameters` are on several devices."""
    devices = {parameter.device for parameter in parameters}
    if len(devices) > 1:
        raise RuntimeError(
            f"{type(optimizer).__name__}.step: steps are counted on the device, and a parameter group is on "
            f"{len(devices)} of them; make a group for each device"
        )
    step = group.get("step")
    if not isinstance(step, Tensor):
        step = torch.tensor([step or 0], dtype=torch.int32, device=devices.pop())
        group["step"] = step
    return step


def take_common_step(optimizer: Optimizer, group: dict[str, Any]) -> None:
    """Count for the group, after loading a state in which each parameter counts. Raises ValueError if they differ."""
    states = [optimizer.state[parameter] for parameter in group["params"] if parameter in optimizer.state]
    steps = {int(state.pop("step")) for state in states if "step" in state}
    if len(steps) > 1:
        raise ValueError(
            f"{type(optimizer).__name__}.load_state_dict: the parameters of a group have made {sorted(steps)} steps, "
            "and this optimizer counts them together, on the device; load it where capturable=False"
        )
    if steps:
        group["step"] = steps.pop()


def with_steps_by_parameter(state_dict: dict[str, Any]) -> dict[str, Any]:
    """`state_dict` with each group's step also by parameter, where torch's optimizers read it."""
    states = dict(state_dict["state"])
    for group in state_dict["param_groups"]:
        if "step" in group:
            for identity in group["params"]:
                if identity in states:
                    states[identity] = {**states[identity], "step": torch.tensor(float(group["step"]))}
    return {**state_dict, "state": states}
