"""Owns what the fused optimizers share: steps counted by parameter, state that stays wide, and what is pickled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .._core.lending import Loan
from ..kernels.operations import GradStats, StepState, step_prep, usable
from .counting import Count, count_step, history_of, largest, with_counts_read
from .gathering import gradients_of, state_type, trained
from .scaling import Scaling

Group = dict[str, Any]
Closure = Callable[[], Any]


class FusedOptimizer(Optimizer):
    """An optimizer on the kernels' operations. Its state is float32 (float64 for float64 parameters) on each device.

    Each parameter counts its own steps, in `state[parameter]["step"]`, as torch's optimizers do; the group's "step",
    which apex reads and writes, is that of its most often stepped parameter. Where amp leaves it to the kernels to skip
    a step, both are tensors on the device (see `counting`); saved states hold ints.
    """

    # Attributes beside the groups that say how a step is done: they go into copies and pickles.
    _choices: tuple[str, ...] = ()
    set_grad_none: bool = True
    # False, set on an optimizer: amp's masters get no gradients of their own before somebody asks `amp.master_params`
    # for them, and a step reads the model's instead.
    materialize_master_grads: bool = True
    # What amp lends to a step whose optimizer wants no gradients of masters.
    loan: Loan | None = None

    def skips_by_itself(self) -> bool:
        """Whether a step that `found_inf` tells of overflow leaves everything as it is, and nobody need wait for it.

        Only kernels do: plain torch on the CPU waits for nothing, and may as well be told beforehand.
        """
        return all(usable(device) for device in {p.device for group in self.param_groups for p in group["params"]})

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with steps as numbers; waits for the device where that counts them."""
        return with_counts_read(super().state_dict())

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Clear gradients: to None or to zero, as `set_to_none` says, and without it as the constructor was told."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from `state_dict`: ours, apex's, or that of the optimizer of torch with the same algorithm.

        Raises ValueError if it was saved with options that this optimizer does not have.
        """
        for group in state_dict["param_groups"]:
            self._refuse(group)
        kept = self.param_groups
        super().load_state_dict(dict(state_dict))
        self._restore_precision(state_dict)
        for former, group in zip(kept, self.param_groups, strict=True):
            for name in self.defaults:
                group.setdefault(name, former.get(name))
            self._read_steps(group)

    def _refuse(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for a saved group whose options ask for another algorithm."""
        for option in ("amsgrad", "maximize", "lr_decay"):
            if group.get(option):
                raise ValueError(
                    f"{type(self).__name__}.load_state_dict: the state was saved with {option}={group[option]}, which "
                    "this optimizer does not have; go on with the optimizer that saved it"
                )

    def _restore_precision(self, state_dict: Mapping[str, Any]) -> None:
        """Undo torch's cast of state to the parameter's type, which rounds the float32 state of a half parameter."""
        identities = [identity for group in state_dict["param_groups"] for identity in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for identity, parameter in zip(identities, parameters, strict=True):
            for name, saved in state_dict["state"].get(identity, {}).items():
                if name != "step" and isinstance(saved, Tensor) and saved.is_floating_point():
                    wide = saved.to(device=parameter.device, dtype=state_type(parameter), copy=True)
                    self.state[parameter][name] = wide

    def _read_steps(self, group: Group) -> None:
        """Count on from torch's steps, kept by parameter, or from apex's, kept by group."""
        for parameter in group["params"]:
            if parameter in self.state:
                step = self.state[parameter].get("step", group.get("step", 0))
                self.state[parameter]["step"] = int(step)
        if "step" in group:
            group["step"] = int(group["step"])

    def _trained(self, group: Group) -> list[Tensor]:
        """The parameters of `group` that have a gradient, their own or a lent one. Raises as `trained` does."""
        if self.loan is None:
            return trained(self, group)
        own = {id(parameter) for parameter in trained(self, group)}
        return [p for p in group["params"] if id(p) in own or self.loan.model_of(p) is not None]

    def _is_lent(self, parameter: Tensor) -> bool:
        """Whether the step of `parameter`, a master, goes by the model's gradient."""
        return self.loan is not None and self.loan.model_of(parameter) is not None

    def _gradients(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """What the steps of `parameters` go by: all have a lent gradient, or all one of their own."""
        models = self._models(parameters)
        return gradients_of(parameters if models is None else models)

    def _models(self, parameters: Sequence[Tensor]) -> list[Tensor] | None:
        """The lent model parameters, to be written with `parameters`, of which all are lent or none."""
        if self.loan is None or not self._is_lent(parameters[0]):
            return None
        found = [self.loan.model_of(parameter) for parameter in parameters]
        return [model for model in found if model is not None]

    def _scaling_for(self, parameters: Sequence[Tensor], scaling: Scaling) -> Scaling:
        """`scaling`, for lent gradients with their scale."""
        if self.loan is None or not self._is_lent(parameters[0]):
            return scaling
        return Scaling(self.loan.scale, scaling.found_inf)

    def _note_written(self, parameters: Sequence[Tensor]) -> None:
        if self.loan is not None:
            self.loan.note_written(parameters)

    def _history(self, parameter: Tensor) -> tuple[str, int]:
        """The same for parameters that have made the same steps."""
        return history_of(self.state[parameter])

    def _count(self, parameters: Sequence[Tensor], scaling: Scaling) -> Count:
        """One more step for each of `parameters`, all of one history; how `step_prep` is told of it."""
        states = [self.state[parameter] for parameter in parameters]
        return count_step(states, parameters[0].device, may_be_skipped=scaling.found_inf is not None)

    def _note_count(self, group: Group) -> None:
        """Count for the group, after its parameters."""
        known = (self.state[parameter] for parameter in group["params"] if parameter in self.state)
        counts = [state["step"] for state in known if "step" in state]
        if counts:
            former = group.get("step", 0)
            group["step"] = largest(counts if isinstance(former, Tensor) else [former, *counts])

    def _prepared(
        self,
        group: Group,
        parameters: Sequence[Tensor],
        scaling: Scaling,
        *,
        step: int | Tensor = 1,
        betas: tuple[float, float] = (0.0, 0.0),
        bias_correction: bool = False,
        stats: GradStats | None = None,
        max_norm: float = 0.0,
    ) -> StepState:
        """What the update of `parameters`, all on one device, is to go by."""
        device = parameters[0].device
        there = scaling.on(device)
        state = self._step_state(device, any(parameter.dtype is torch.float64 for parameter in parameters))
        step_prep(
            state,
            stats,
            lr=rate_on(group["lr"], device),
            step=step,
            betas=betas,
            bias_correction=bias_correction,
            found_inf=there.found_inf,
            scale=there.scale,
            max_norm=max_norm,
            norm_epsilon=0.0,
        )
        return state

    def _step_state(self, device: torch.device, in_double: bool) -> StepState:
        """One a device, reused: a step's updates are over, in the order of the device, when the next is prepared."""
        states: dict[Any, StepState] = vars(self).setdefault("_step_states", {})
        key = (device, in_double)
        if key not in states:
            state = StepState.on(device)
            states[key] = StepState(state.values.double()) if in_double else state
        return states[key]

    def __getstate__(self) -> dict[str, Any]:
        names = (*self._choices, "materialize_master_grads")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in names}}


def rate_on(lr: float | Tensor, device: torch.device) -> float | Tensor:
    """A learning rate as `step_prep` takes it; one that is a tensor elsewhere comes to `device`."""
    if not isinstance(lr, Tensor):
        return lr
    return float(lr) if lr.device.type == "cpu" and device.type != "cpu" else lr.to(device, torch.float32)


def loss_of(closure: Closure | None) -> Any:
    """What `closure` gives, computed with autograd on; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def refuse_amsgrad(name: str, amsgrad: bool) -> None:
    """Raise RuntimeError, as apex does, if the variant is asked for that no fused optimizer has."""
    if amsgrad:
        raise RuntimeError(f"{name}: amsgrad=True is not available; use torch.optim.AdamW(amsgrad=True)")
