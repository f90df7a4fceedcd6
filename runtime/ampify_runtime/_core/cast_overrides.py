"""Owns the casts in force beyond torch's own: kernels put before torch's, for the process, and taken back again."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .cast_kernels import make_kernel, to_float
from .cast_lists import (
    APEX,
    APEX_LISTS,
    DONE_BY_PARTS,
    IN_FULL_IN_APEX,
    MATCH_SELF_IN_APEX,
    NOT_LISTED_BY_APEX,
    TORCH_LISTS,
    CastList,
)
from .function_casts import float_function, half_function, promote_function
from .operator_names import functional_overloads, operators_of, takes_several_tensors, writing_overloads

_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_WRAPPERS = {"allow": half_function, "deny": float_function, "promote": promote_function}
_NAMES = {"allow": "half", "deny": "float", "promote": "promote"}
_WRITES = ("match_self", "in_full")

Plan = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Registration:
    """A function that the user wants cast, and how: `allow`, `deny` or `promote`."""

    module: Any
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Replaced:
    """An attribute that was put in place of another one."""

    owner: Any
    name: str
    # As it was in the owner itself; None if it was inherited.
    former: Any


@dataclass(slots=True)
class _State:
    registered: dict[tuple[int, str], _Registration] = field(default_factory=dict)
    lists: str | None = None
    allow_banned: bool = False
    plans: dict[str, Plan] = field(default_factory=dict)
    libraries: list[torch.library.Library] = field(default_factory=list)
    replaced: list[_Replaced] = field(default_factory=list)


_state = _State()


def lists_in_force() -> str | None:
    """The name of the cast lists that the process casts by; None if it does not cast."""
    return _state.lists


def put_in_force(lists: str, allow_banned: bool = False) -> None:
    """Cast by `lists` and by what the user registered, in all threads with autocast on, in place of what was before."""
    _state.lists, _state.allow_banned = lists, allow_banned
    plans = {device_type: plan(device_type, lists, allow_banned, _registered_operators()) for device_type in _KEYS}
    _put_attributes_back()
    _replace_attributes(lists)
    if plans == _state.plans:
        return
    _destroy_kernels()
    _state.plans = plans
    for device_type, planned in plans.items():
        if planned:
            _state.libraries.append(_install(device_type, planned))
    _forget_compiled()


def withdraw() -> None:
    """Leave autocast as torch made it."""
    had_kernels = bool(_state.libraries)
    _state.lists = None
    _state.plans = {}
    _put_attributes_back()
    _destroy_kernels()
    if had_kernels:
        _forget_compiled()


def register(module: Any, name: str, kind: str) -> None:
    """Cast `module.name` as `kind` says, from the next `amp.initialize` on; at once if one has been called.

    Raises ValueError if there is no such function, or if it writes to its arguments.
    """
    where = f"amp.register_{_NAMES[kind]}_function"
    if not hasattr(module, name):
        raise ValueError(f"{where}: {_named(module)} has no {name!r}; pass a module or a class, and a function in it")
    if _is_torch(module) and name.endswith("_") and writing_overloads(name):
        raise ValueError(f"{where}: {name} writes to its first argument, whose type is given; register {name[:-1]!r}")
    _state.registered[id(module), name] = _Registration(module, name, kind)
    if _state.lists is not None:
        put_in_force(_state.lists, _state.allow_banned)


def forget_registered() -> None:
    """Drop what the user registered."""
    _state.registered.clear()


def plan(device_type: str, lists: str, allow_banned: bool, registered: Plan) -> Plan:
    """Which operators are to be cast in another way than torch does by itself, and how."""
    own = TORCH_LISTS[device_type]
    wanted: dict[str, str] = {}
    if lists == APEX:
        wanted |= _apex_plan(device_type, own)
    if allow_banned:
        wanted |= dict.fromkeys(APEX_LISTS[device_type].banned, "deny")
    wanted |= registered
    return {operator: kind for operator, kind in sorted(wanted.items()) if own.kind_of(operator) != kind}


def _apex_plan(device_type: str, own: CastList) -> Iterator[tuple[str, str]]:
    for kind, operators in APEX_LISTS[device_type].kinds():
        yield from ((operator, kind) for operator in operators - DONE_BY_PARTS[device_type])
    yield from ((operator, "given") for operator in NOT_LISTED_BY_APEX[device_type])
    yield from ((operator, "match_self") for operator in MATCH_SELF_IN_APEX)
    yield from ((operator, "in_full") for operator in IN_FULL_IN_APEX)


def _registered_operators() -> Plan:
    return {
        operator: registration.kind
        for registration in _state.registered.values()
        for operator in operators_of(registration.module, registration.name)
    }


def _install(device_type: str, planned: Plan) -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL", _KEYS[device_type])  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # torch warns of each kernel that comes before one of its own, which is what this is for.
        warnings.simplefilter("ignore")
        for operator, kind in planned.items():
            for overload in _overloads(operator, kind):
                name = overload._schema.name.removeprefix("aten::")
                suffix = overload._schema.overload_name
                kernel = make_kernel(kind, overload, device_type)
                library.impl(f"{name}.{suffix}" if suffix else name, kernel)  # type: ignore[no-untyped-call]
    return library


def _overloads(operator: str, kind: str) -> list[Any]:
    if kind in _WRITES:
        return writing_overloads(operator)
    overloads = functional_overloads(operator)
    return overloads if kind != "promote" else [overload for overload in overloads if takes_several_tensors(overload)]


def _destroy_kernels() -> None:
    while _state.libraries:
        _state.libraries.pop()._destroy()  # type: ignore[no-untyped-call]


def _forget_compiled() -> None:
    """Code that torch.compile made has the casts of its time in it, and no guard on them."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


def _replace_attributes(lists: str) -> None:
    for registration in _state.registered.values():
        if not operators_of(registration.module, registration.name):
            _replace(registration.module, registration.name, _WRAPPERS[registration.kind])
    if lists == APEX and (id(torch.Tensor), "cpu") not in _state.registered:
        _replace(torch.Tensor, "cpu", _in_float_where_cast)


def _replace(owner: Any, name: str, wrapper: Any) -> None:
    former = vars(owner).get(name)
    wrapped = wrapper(getattr(owner, name))
    _state.replaced.append(_Replaced(owner, name, former))
    setattr(owner, name, staticmethod(wrapped) if isinstance(former, staticmethod) else wrapped)


def _put_attributes_back() -> None:
    while _state.replaced:
        replaced = _state.replaced.pop()
        if replaced.former is None:
            delattr(replaced.owner, replaced.name)
        else:
            setattr(replaced.owner, replaced.name, replaced.former)


def _in_float_where_cast(method: Any) -> Any:
    """`Tensor.cpu` as apex had it: a tensor leaves the device in float32. It is no operator of its own."""

    @functools.wraps(method)
    def cpu(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        casts = tensor.device.type in _KEYS and torch.is_autocast_enabled(tensor.device.type)
        return method(to_float(tensor) if casts else tensor, *args, **kwargs)

    return cpu


def _is_torch(module: Any) -> bool:
    return module in (torch, torch.Tensor, torch.nn.functional)


def _named(module: Any) -> str:
    return str(getattr(module, "__name__", type(module).__name__))
