"""Owns the loss scalers of the process, one a loss, and their place in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .notices import warn
from .policy import Policy
from .scaler import LossScaler

_PREFIX = "loss_scaler"


@dataclass(slots=True)
class _Scalers:
    all: list[LossScaler] = field(default_factory=list)
    # Whether losses are scaled at all, under the latest policy.
    active: bool = False
    initialized: bool = False
    # Loaded before there were scalers to load it into.
    loaded_early: Mapping[str, Any] | None = None


_state = _Scalers()


def provide_scalers(policy: Policy, count: int) -> None:
    """Have `count` scalers for `policy`: those there are if they fit and nothing has been scaled yet, else new ones.

    So a loop over folds starts each with a fresh scale, and a script that initializes its parts one by one keeps what
    it loaded in between.
    """
    fit = all(scaler.scaling == policy.scaling and not scaler.used for scaler in _state.all)
    if not fit:
        _state.all.clear()
    missing = count - len(_state.all)
    _state.all.extend(LossScaler(policy.scaling) for _ in range(missing))
    _state.active = policy.scales
    _state.initialized = True
    if _state.loaded_early is not None:
        early, _state.loaded_early = _state.loaded_early, None
        load_scalers(early)


def is_initialized() -> bool:
    """Whether `amp.initialize` has been called."""
    return _state.initialized


def scaler_of(loss_id: Any) -> LossScaler:
    """The scaler of a loss. Raises ValueError if `initialize` was not told of so many."""
    count = len(_state.all)
    if isinstance(loss_id, int) and 0 <= loss_id < count:
        return _state.all[loss_id]
    hint = f"pass num_losses={loss_id + 1} there" if isinstance(loss_id, int) and loss_id >= count else "count from 0"
    raise ValueError(f"amp: loss_id={loss_id!r}, but amp.initialize was told num_losses={count}; {hint}")


def current_scale(loss_id: Any) -> float:
    """What the loss is multiplied by; waits for the device. Raises ValueError as `scaler_of` does."""
    scaler = scaler_of(loss_id) if _state.initialized else None
    return scaler.value if scaler is not None and _state.active else 1.0


def all_scalers() -> tuple[LossScaler, ...]:
    """All scalers, by loss."""
    return tuple(_state.all)


def scalers_state() -> dict[str, dict[str, Any]]:
    """The scalers for a checkpoint, under apex's names."""
    return {f"{_PREFIX}{index}": scaler.state_dict() for index, scaler in enumerate(_state.all)}


def load_scalers(state: Mapping[str, Any]) -> None:
    """Go on from `state`; before `amp.initialize`, keep it until then.

    Raises TypeError or ValueError if `state` is none that `amp.state_dict` or apex wrote.
    """
    entries = _read(state)
    if not _state.initialized:
        _state.loaded_early = state
        return
    if len(entries) != len(_state.all):
        warn(
            f"amp.load_state_dict: the checkpoint has {len(entries)} loss scalers, amp.initialize made "
            f"{len(_state.all)}; those without a counterpart keep their state"
        )
    restarted = [not scaler.load_state_dict(entry) for scaler, entry in zip(_state.all, entries, strict=False)]
    if any(restarted):
        warn(
            "amp.load_state_dict: the checkpoint was written without loss scaling (loss_scale 1.0); "
            f"dynamic scaling starts at {_state.all[0].scaling.initial} instead"
        )


def forget_scalers() -> None:
    """Return to where no `amp.initialize` has been called."""
    _state.all.clear()
    _state.initialized = False
    _state.loaded_early = None


def _read(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(state, Mapping):
        raise TypeError(f"amp.load_state_dict: got {type(state).__name__}; pass what amp.state_dict() returned")
    unknown = [key for key in state if not _is_scaler_key(key)]
    if unknown:
        raise ValueError(
            f"amp.load_state_dict: unexpected key {unknown[0]!r}; pass what amp.state_dict() returned, "
            'for example checkpoint["amp"], not the whole checkpoint'
        )
    entries = [state[key] for key in sorted(state, key=lambda key: int(key[len(_PREFIX) :]))]
    for entry in entries:
        if not isinstance(entry, Mapping) or not {"loss_scale", "unskipped"} <= set(entry):
            raise ValueError(f"amp.load_state_dict: {entry!r} is no scaler's state: it needs loss_scale and unskipped")
    return [dict(entry) for entry in entries]


def _is_scaler_key(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(_PREFIX) and key[len(_PREFIX) :].isdecimal()
