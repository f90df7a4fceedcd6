"""Owns `FP16_Optimizer`: an optimizer of a float16 model that steps fp32 masters, with its own backward."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from .fp16util import clip_grad_norm, master_params_to_model_params
from .step_scaler import StepScaler

_LOG = logging.getLogger("ampify")
# A closure whose gradients are not finite even so has something else wrong with it.
_MOST_OVERFLOWS_IN_A_STEP = 64


class FP16_Optimizer:  # noqa: N801 - apex's name
    """`init_optimizer` with fp32 masters in place of the float16 parameters in its groups; fp32 ones stay.

    Call `backward(loss)` of it in place of `loss.backward()`. The scale is `static_loss_scale`, or moves if
    `dynamic_loss_scale`; `dynamic_loss_args` may set `init_scale`, `scale_factor`, `scale_window`, `min_loss_scale` and
    `max_loss_scale`. A step whose gradients overflowed is skipped, and logged if `verbose`.

    Raises TypeError for parameters that train and are neither float16 nor float32.
    """

    def __init__(
        self,
        init_optimizer: Optimizer,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.verbose = verbose
        self.optimizer = init_optimizer
        self.fp16_groups: list[list[torch.Tensor]] = []
        self.fp32_from_fp16_groups: list[list[torch.Tensor]] = []
        self.fp32_from_fp32_groups: list[list[torch.Tensor]] = []
        for group in init_optimizer.param_groups:
            self._take_over(group)
        # So torch gives the state of parameters that have become masters their type.
        init_optimizer.load_state_dict(init_optimizer.state_dict())
        self.dynamic_loss_scale = dynamic_loss_scale
        self.loss_scaler = StepScaler(
            "dynamic" if dynamic_loss_scale else static_loss_scale,
            **((dynamic_loss_args or {}) if dynamic_loss_scale else {}),
        )
        self.overflow = False
        self.first_closure_call_this_step = True
        # Whether gradients of fp32 parameters, which are their own masters, have been divided by the scale.
        self._unscaled = False

    def _take_over(self, group: dict[str, Any]) -> None:
        halves, masters, fulls = [], [], []
        state = self.optimizer.state
        for place, parameter in enumerate(group["params"]):
            if not parameter.requires_grad:
                continue
            if parameter.dtype is torch.float32:
                fulls.append(parameter)
                continue
            if parameter.dtype is not torch.float16:
                raise TypeError(f"FP16_Optimizer: a parameter is {parameter.dtype}; use float16 and float32 alone")
            master = parameter.detach().clone().float().requires_grad_()
            group["params"][place] = master
            if parameter in state:
                state[master] = state.pop(parameter)
            halves.append(parameter)
            masters.append(master)
        self.fp16_groups.append(halves)
        self.fp32_from_fp16_groups.append(masters)
        self.fp32_from_fp32_groups.append(fulls)

    def __getstate__(self) -> Any:
        raise RuntimeError("FP16_Optimizer cannot be pickled or copied; save its state_dict()")

    def backward(self, loss: torch.Tensor, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """Run the backward of `loss`, scaled, and have the masters' gradients ready.

        With `update_master_grads=False`, call `update_master_grads()` after the last of several backwards.
        """
        scale = self.loss_scaler.loss_scale()
        if self._unscaled:
            # What is there was divided by the scale; what comes is not.
            for grad in _grads(self._fulls()):
                grad.mul_(scale)
            self._unscaled = False
        torch.autograd.backward(loss.float() * scale, retain_graph=retain_graph)
        if update_master_grads:
            self.update_master_grads()

    def update_master_grads(self) -> None:
        """Set the masters' gradients from the model's, divided by the scale; look for overflow, and move the scale."""
        scale = self.loss_scaler.loss_scale()
        for half, master in zip(self._halves(), self._masters(), strict=True):
            master.grad = None if half.grad is None else half.grad.detach().float().div_(scale)
        for grad in _grads(self._fulls()):
            grad.div_(scale)
        self._unscaled = True
        grads = _grads([*self._masters(), *self._fulls()])
        self.overflow = self.dynamic_loss_scale and any(not bool(torch.isfinite(grad).all()) for grad in grads)
        self.loss_scaler.update(self.overflow)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step the masters and copy them to the model, unless gradients overflowed.

        A `closure` has to call `backward` of this object; it is called again, at the lower scale, while they overflow.
        """
        if self.overflow:
            self._tell_of_overflow()
            return None
        if closure is None:
            result = self.optimizer.step()
        else:
            result = self.optimizer.step(self._around(closure))
            self.first_closure_call_this_step = True
        self._masters_to_model()
        return result

    def _around(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            if not self.first_closure_call_this_step:
                # The optimizer has moved the masters since, and knows nothing of the model.
                self._masters_to_model()
            self.first_closure_call_this_step = False
            for _ in range(_MOST_OVERFLOWS_IN_A_STEP):
                loss = closure()
                if not self.overflow:
                    return loss
                self._tell_of_overflow()
            raise FloatingPointError(
                f"FP16_Optimizer.step: the closure's gradients overflowed {_MOST_OVERFLOWS_IN_A_STEP} times, down to a "
                f"loss scale of {self.loss_scale}; look for inf or NaN in the data, the loss or the weights"
            )

        return evaluate

    def _tell_of_overflow(self) -> None:
        if self.verbose:
            _LOG.warning("ampify: gradient overflow: step skipped; loss scale: %g", self.loss_scale)

    def zero_grad(self, set_grads_to_None: bool = False) -> None:  # noqa: N803 - apex's name
        """Clear the gradients of masters and model: set them to 0, or to None."""
        for parameter in [*self._halves(), *self._all()]:
            if set_grads_to_None:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.detach_().zero_()

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Any:
        """Clip the masters' gradients to a total norm of `max_norm`; returns what it was, or -1 if they overflowed."""
        return -1 if self.overflow else clip_grad_norm(self._all(), max_norm, norm_type)

    def inspect_master_grad_data(self) -> list[list[torch.Tensor | None]] | None:
        """The masters' gradients, a list for each group; None if they overflowed."""
        if self.overflow:
            return None
        groups = self.optimizer.param_groups
        return [[None if item.grad is None else item.grad.data for item in group["params"]] for group in groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on from, the masters included."""
        return {
            "loss_scaler": self.loss_scaler.state_dict(),
            "dynamic_loss_scale": self.dynamic_loss_scale,
            "overflow": self.overflow,
            "first_closure_call_this_step": self.first_closure_call_this_step,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "fp32_from_fp16": [[master.detach() for master in group] for group in self.fp32_from_fp16_groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict` of an object made alike; load the model's first."""
        self.dynamic_loss_scale = state_dict["dynamic_loss_scale"]
        self.loss_scaler.dynamic = self.dynamic_loss_scale
        self.loss_scaler.load(state_dict["loss_scaler"])
        self.overflow = state_dict["overflow"]
        self.first_closure_call_this_step = state_dict["first_closure_call_this_step"]
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
        with torch.no_grad():
            for masters, saved in zip(self.fp32_from_fp16_groups, state_dict["fp32_from_fp16"], strict=True):
                for master, value in zip(masters, saved, strict=True):
                    master.copy_(value)

    @property
    def loss_scale(self) -> float:
        """What the loss is multiplied by; may be set."""
        return self.loss_scaler.loss_scale()

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self.loss_scaler._loss_scale = value

    @property
    def state(self) -> Any:
        """The state of the optimizer inside; may be set."""
        return self.optimizer.state

    @state.setter
    def state(self, value: Any) -> None:
        self.optimizer.state = value

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the optimizer inside, masters in them; may be set."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = value

    def _masters_to_model(self) -> None:
        master_params_to_model_params(self._halves(), self._masters())

    def _halves(self) -> list[torch.Tensor]:
        return [parameter for group in self.fp16_groups for parameter in group]

    def _masters(self) -> list[torch.Tensor]:
        return [parameter for group in self.fp32_from_fp16_groups for parameter in group]

    def _fulls(self) -> list[torch.Tensor]:
        return [parameter for group in self.fp32_from_fp32_groups for parameter in group]

    def _all(self) -> list[torch.Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def _grads(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
