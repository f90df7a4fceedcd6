"""The state that scripts for apex reach into: loss scalers and options, read from where they are kept today."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .._core import enrolment, scalers
from .._core.gradients import parameters_of
from .._core.notices import report, warn
from .._core.permissions import permissions
from .._core.policy import Policy
from .._core.scaler import LossScaler
from .handle import AmpHandle

__all__ = ["AmpState", "_amp_state", "master_params", "maybe_print", "warn_or_err"]


class _ScalerView:
    """A loss scaler as apex's looked."""

    __slots__ = ("_scaler",)

    def __init__(self, scaler: LossScaler) -> None:
        self._scaler = scaler

    @property
    def dynamic(self) -> bool:
        return self._scaler.scaling.dynamic

    @property
    def _unskipped(self) -> int:
        return int(self._scaler.state_dict()["unskipped"])

    @property
    def _loss_scale(self) -> float:
        return self._scaler.value

    @_loss_scale.setter
    def _loss_scale(self, value: float) -> None:
        self._scaler.load_state_dict({"loss_scale": value, "unskipped": self._unskipped})

    def loss_scale(self) -> float:
        """The scale; waits for the device."""
        return self._scaler.value


class _Options:
    """The options in force, by apex's names."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def enabled(self) -> bool:
        return self._policy.acts

    @property
    def opt_level(self) -> str:
        return self._policy.opt_level

    @property
    def loss_scale(self) -> float | str:
        scaling = self._policy.scaling
        return "dynamic" if scaling.dynamic else scaling.initial

    @property
    def patch_torch_functions(self) -> bool:
        return self._policy.opt_level in ("O1", "O4")

    @property
    def master_weights(self) -> bool | None:
        return getattr(self._policy, "master_weights", None)


class AmpState:
    """What `amp._amp_state` shows. `hard_override` and `verbosity` are for the functions of this module alone."""

    def __init__(self) -> None:
        self.hard_override = False
        self.verbosity = 1

    @property
    def allow_incoming_model_not_fp32(self) -> bool:
        """Whether `amp.initialize` takes float16 parameters at a level that casts by itself; may be set."""
        return permissions.reduced_parameters

    @allow_incoming_model_not_fp32.setter
    def allow_incoming_model_not_fp32(self, value: bool) -> None:
        permissions.reduced_parameters = bool(value)

    @property
    def handle(self) -> AmpHandle:
        """A handle on the casts of the process."""
        return AmpHandle()

    @property
    def loss_scalers(self) -> list[_ScalerView]:
        """The loss scalers, by `loss_id`."""
        return [_ScalerView(scaler) for scaler in scalers.all_scalers()]

    @property
    def opt_properties(self) -> _Options:
        """The options of the latest initialized optimizer. Raises AttributeError before there is one, as apex did."""
        known = enrolment.enrolled()
        if not known:
            raise AttributeError("amp._amp_state.opt_properties: amp.initialize has not been given an optimizer yet")
        return _Options(known[-1][1].policy)


_amp_state = AmpState()


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters in the groups of `optimizer`, which `amp.master_params` makes sure to be ready."""
    return parameters_of(optimizer)


def maybe_print(msg: str, rank0: bool = False) -> None:
    """Log `msg`, unless `amp._amp_state.verbosity` is 0; one process speaks for all."""
    if _amp_state.verbosity > 0:
        report(msg)


def warn_or_err(msg: str) -> None:
    """Raise RuntimeError with `msg`; warn instead if `amp._amp_state.hard_override` is set."""
    if not _amp_state.hard_override:
        raise RuntimeError(msg)
    warn(msg)
