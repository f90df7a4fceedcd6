"""Owns how hooks are on modules without being in their pickles nor, where they must not, in their copies."""

from __future__ import annotations

import copy
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from torch import nn

_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)
# What torch notes of some hooks, by their number.
_NOTES = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")


class Hook:
    """A hook of ours: no pickle of its module holds it, and a deep copy holds the same one if it `is_copied`.

    A pickled model must load where ampify is not installed, and in workers that do not cast.
    """

    __slots__ = ()
    is_copied = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return self


class ForwardHook(Hook):
    """A hook on a forward, which torch.jit.script cannot take."""

    __slots__ = ()

    @property
    def __name__(self) -> NoReturn:
        # torch.jit.script asks for it, in order to compile the hook.
        raise RuntimeError(
            "ampify: torch.jit.script cannot compile a model that amp.initialize has put its casts on; script the "
            "model before amp.initialize (opt levels O0, O1 and O4 accept it), use torch.jit.trace, or script a copy "
            "that was never initialized and has its weights loaded from this one's state_dict()"
        )


class _ModuleState(OrderedDict[str, Any]):
    """What a module is copied or pickled by. A shallow copy shares all hooks, a deep one has its own, a pickle none."""

    def __init__(self, module: nn.Module, state: Mapping[str, Any]) -> None:
        super().__init__((name, value) for name, value in state.items() if not isinstance(value, _State))
        self.module = module

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        fresh = {name: copy.deepcopy(value, memo) for name, value in self._without(_stays_behind).items()}
        twin = memo.get(id(self.module))
        if twin is not None and any(_ours(hook) for name in _HOOKS for hook in fresh.get(name, {}).values()):
            fresh["__getstate__"] = _State(twin)
        return fresh

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), None, None, iter(self._without(_ours).items())

    def _without(self, is_dropped: Callable[[Any], Any]) -> dict[str, Any]:
        """The state without some hooks, and without torch's notes on them.

        Left in a pickle, a note would be taken for one on whichever hook gets that number where it is loaded.
        """
        state = dict(self)
        dropped = {number for name in _HOOKS for number, hook in state.get(name, {}).items() if is_dropped(hook)}
        for name in (*_HOOKS, *_NOTES):
            if name in state:
                state[name] = OrderedDict((k, value) for k, value in state[name].items() if k not in dropped)
        return state


class _State:
    """Stands on a module as its `__getstate__`."""

    __slots__ = ("module",)

    def __init__(self, module: nn.Module) -> None:
        self.module = weakref.ref(module)

    def __call__(self) -> Any:
        module = self.module()
        assert module is not None
        own = getattr(type(module), "__getstate__", None)
        # object's own, from Python 3.11 on, finds what `vars` does.
        state = vars(module) if own in (None, getattr(object, "__getstate__", None)) else own(module)
        return _ModuleState(module, state) if isinstance(state, dict) else state


def hide_hooks(module: nn.Module) -> None:
    """Keep our hooks out of `module`'s pickles, and out of its deep copies those that are not to be there."""
    vars(module)["__getstate__"] = _State(module)


def show_hooks(module: nn.Module) -> None:
    """Undo `hide_hooks`, when our hooks are gone."""
    vars(module).pop("__getstate__", None)


def _ours(hook: Any) -> Hook | None:
    # torch wraps some kinds of hooks.
    inner = getattr(hook, "hook", hook)
    return inner if isinstance(inner, Hook) else None


def _stays_behind(hook: Any) -> bool:
    ours = _ours(hook)
    return ours is not None and not ours.is_copied
