"""Owns the kernels that cast an operator's arguments, for the places where torch.autocast has another or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Tensors that stand for a number of Python's reach a kernel in Python as that number, and these alone take it back.
_TAKES_NUMBERS = frozenset({"add", "sub", "mul", "div", "rsub"})

Kernel = Callable[..., Any]
Change = Callable[[torch.Tensor], torch.Tensor]

_KEYS = {
    "cpu": torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU),
    "cuda": torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA),
}
REDUCED = (torch.float16, torch.bfloat16)
_CAST = (*REDUCED, torch.float32)


def make_kernel(kind: str, operator: Any, device_type: str) -> Kernel:
    """What to run in place of `operator`, an overload of torch.ops.aten, where autocast is on for `device_type`.

    `kind` is one of `allow`, `deny`, `promote`, `banned`, `given` (no casts), and for forms that write to their first
    argument `match_self` (the others get its type) and `in_full` (it has to be float32).
    """
    return _MAKERS[kind](operator, device_type)


def map_tensors(change: Change, value: Any) -> Any:
    """`value` with its tensors changed, also those inside of lists, tuples, named tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(map_tensors(change, item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(change, item) for item in value))
    if type(value) is dict:
        return {key: map_tensors(change, item) for key, item in value.items()}
    return value


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors that `map_tensors` would change, in order."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    map_tensors(note, values)
    return found


def to_float(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` in float32 if it is in reduced precision."""
    return tensor.float() if tensor.dtype in REDUCED else tensor


def widest(tensors: list[torch.Tensor]) -> torch.dtype | None:
    """The type that holds all of the float16, bfloat16 and float32 among `tensors`; None if they are of one type."""
    dtypes = {tensor.dtype for tensor in tensors if tensor.dtype in _CAST}
    # Of two different ones of these three, float32 alone holds both.
    return torch.float32 if len(dtypes) > 1 else None


def _caster(dtype: torch.dtype, device_type: str) -> Change:
    """As autocast does: float64, and what is on another device, stays."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is dtype or tensor.dtype not in _CAST or tensor.device.type != device_type:
            return tensor
        return tensor.to(dtype)

    return change


def _call(operator: Any, change: Change, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # Small operators are called often: no pass over keywords that are not there.
    changed = [change(value) if isinstance(value, torch.Tensor) else map_tensors(change, value) for value in args]
    return operator(*changed, **map_tensors(change, kwargs)) if kwargs else operator(*changed)


def _without_autocast(device_type: str) -> torch._C._ExcludeDispatchKeyGuard:
    return torch._C._ExcludeDispatchKeyGuard(_KEYS[device_type])


def _allow(operator: Any, device_type: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        change = _caster(torch.get_autocast_dtype(device_type), device_type)
        with _without_autocast(device_type):
            return _call(operator, change, args, kwargs)

    return kernel


def _deny(operator: Any, device_type: str) -> Kernel:
    change = _caster(torch.float32, device_type)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast(device_type):
            return _call(operator, change, args, kwargs)

    return kernel


def _promote(operator: Any, device_type: str) -> Kernel:
    change = _caster(torch.float32, device_type)
    lists = any("List[Tensor]" in str(argument.type) for argument in operator._schema.arguments)
    tensors = {place for place, argument in enumerate(operator._schema.arguments) if str(argument.type) == "Tensor"}
    takes_numbers = operator._schema.name.removeprefix("aten::") in _TAKES_NUMBERS

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast(device_type):
            if not takes_numbers:
                args = tuple(_as_tensor(value) if place in tensors else value for place, value in enumerate(args))
            if len({value.dtype for value in args if isinstance(value, torch.Tensor)}) == 1 and not lists:
                return operator(*args, **kwargs)
            if widest(tensors_in(args, kwargs)) is None:
                return operator(*args, **kwargs)
            return _call(operator, change, args, kwargs)

    return kernel


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, (bool, int, float, complex)):
        return value
    # In float64 a number widens nothing.
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _given(operator: Any, device_type: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast(device_type):
            return operator(*args, **kwargs)

    return kernel


def _match_self(operator: Any, device_type: str) -> Kernel:
    def kernel(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        change = _caster(first.dtype, device_type)
        with _without_autocast(device_type):
            if first.dtype not in _CAST:
                return operator(first, *args, **kwargs)
            return _call(operator, change, (first, *args), kwargs)

    return kernel


def _in_full(operator: Any, device_type: str) -> Kernel:
    deny = _deny(operator, device_type)

    def kernel(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if first.dtype in REDUCED:
            name = operator._schema.name.removeprefix("aten::")
            raise NotImplementedError(
                f"amp: {name} would write to a {first.dtype} tensor what apex's cast lists compute in float32; "
                f"use {name.rstrip('_')}, which makes a new tensor, or call it on a float32 one"
            )
        return deny(first, *args, **kwargs)

    return kernel


def _banned(operator: Any, device_type: str) -> Kernel:
    given = _given(operator, device_type)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if any(tensor.dtype in REDUCED for tensor in tensors_in(args, kwargs)):
            raise NotImplementedError(
                f"amp: {operator._schema.name.removeprefix('aten::')} on reduced precision overflows its gradients; "
                "use torch.nn.functional.binary_cross_entropy_with_logits (BCEWithLogitsLoss) on what goes into the "
                'sigmoid, or compute the loss in float32: amp.register_float_function(torch, "sigmoid") before '
                "amp.initialize"
            )
        return given(*args, **kwargs)

    return kernel


_MAKERS: dict[str, Callable[[Any, str], Kernel]] = {
    "allow": _allow,
    "deny": _deny,
    "promote": _promote,
    "given": _given,
    "match_self": _match_self,
    "in_full": _in_full,
    "banned": _banned,
}
