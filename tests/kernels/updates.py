"""The optimizers' updates as the tests see them: what lists each takes, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from ampify_runtime.kernels import operations, reference
from ampify_runtime.kernels.state import GradStats, StepState
from torch import Tensor

from tests.kernels.memory import Guarded, random_tensors

BETAS = (0.9, 0.99)
EPSILON = 1e-6


@dataclass(frozen=True)
class Update:
    """One update: its name, how many lists of state it keeps, and the sets of options to try it with."""

    name: str
    states: int
    modes: tuple[dict[str, Any], ...]
    # What every call is given, also where no mode says so: the reference has no defaults.
    fixed: dict[str, Any] = field(default_factory=dict)

    def options(self, mode: dict[str, Any], weight_decay: float) -> dict[str, Any]:
        return {**self.fixed, **mode, "weight_decay": weight_decay}


UPDATES = (
    Update("adam", 2, ({"decoupled": True}, {"decoupled": False}), {"betas": BETAS, "eps": EPSILON}),
    Update(
        "sgd",
        1,
        (
            {"nesterov": False, "wd_after_momentum": False, "dampening": 0.25},
            {"nesterov": True, "wd_after_momentum": False},
            {"nesterov": False, "wd_after_momentum": True},
        ),
        {"momentum": 0.9, "dampening": 0.0, "first_run": None},
    ),
    Update(
        "sgd",
        0,
        ({},),
        {"nesterov": False, "wd_after_momentum": False, "momentum": 0.0, "dampening": 0.0, "first_run": None},
    ),
    Update("adagrad", 1, ({"decoupled": True}, {"decoupled": False}), {"eps": EPSILON}),
    Update(
        "novograd",
        1,
        (
            {"decay_in_moment": False, "max_norm_kind": False},
            {"decay_in_moment": True, "max_norm_kind": True, "grad_averaging": False, "first_run": False},
        ),
        {"betas": BETAS, "eps": EPSILON, "grad_averaging": True, "first_run": None},
    ),
    Update(
        "lamb",
        2,
        ({"decoupled": True}, {"decoupled": False, "grad_averaging": False, "use_nvlamb": True}),
        {"betas": BETAS, "eps": EPSILON, "grad_averaging": True, "use_nvlamb": False},
    ),
)


@dataclass(frozen=True)
class Types:
    """Element types of gradients, parameters, state and the model's copy (None: there is none)."""

    grad: torch.dtype
    param: torch.dtype
    state: torch.dtype
    model: torch.dtype | None


HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
TYPES = (
    Types(HALF, FLOAT, FLOAT, HALF),
    Types(BFLOAT, FLOAT, FLOAT, BFLOAT),
    Types(FLOAT, FLOAT, FLOAT, HALF),
    Types(FLOAT, FLOAT, FLOAT, None),
    Types(HALF, HALF, FLOAT, None),
    Types(BFLOAT, BFLOAT, BFLOAT, None),
)


@dataclass
class Trained:
    """Parameters in training: every list of an update in guarded memory, and NovoGrad's norms."""

    update: Update
    types: Types
    guarded: Guarded
    grads: list[Tensor]
    params: list[Tensor]
    states: list[list[Tensor]]
    model: list[Tensor] | None
    grad_norms: Tensor

    @classmethod
    def made(cls, update: Update, types: Types, sizes: Sequence[int], shifts: Sequence[int]) -> Trained:
        """`shifts`: by how many elements gradients, parameters, state and the model's copy miss an aligned address."""
        guarded = Guarded()
        params = guarded.tensors(random_tensors(sizes, 1), types.param, shifts[1])
        states = [
            guarded.tensors([value.square() * 0.1 for value in random_tensors(sizes, 2 + i)], types.state, shifts[2])
            for i in range(update.states)
        ]
        grads = guarded.tensors(random_tensors(sizes, 9), types.grad, shifts[0])
        model = None if types.model is None else guarded.tensors(params, types.model, shifts[3])
        return cls(update, types, guarded, grads, params, states, model, torch.full((len(sizes),), 0.5))

    def set_grads(self, seed: int, scale: float, overflow: float | None) -> None:
        """New gradients, multiplied by the loss scale; `overflow` becomes the last element of the last."""
        sizes = [grad.numel() for grad in self.grads]
        for grad, value in zip(self.grads, random_tensors(sizes, seed, 0.1 * scale), strict=True):
            grad.copy_(value)
        if overflow is not None:
            self.grads[-1][-1] = overflow

    def copied(self) -> Trained:
        """The same values elsewhere in memory."""
        lists = [[tensor.clone() for tensor in tensors] for tensors in (self.grads, self.params, *self.states)]
        model = None if self.model is None else [tensor.clone() for tensor in self.model]
        return Trained(
            self.update, self.types, Guarded(), lists[0], lists[1], lists[2:], model, self.grad_norms.clone()
        )

    def widened(self) -> Trained:
        """The same values in float64, for the reference to compute what ought to come out."""
        wide = [[tensor.double() for tensor in tensors] for tensors in (self.grads, self.params, *self.states)]
        return Trained(self.update, self.types, Guarded(), wide[0], wide[1], wide[2:], None, self.grad_norms.double())

    def step(self, state: StepState, stats: GradStats, options: dict[str, Any], by: Any) -> None:
        """One update of all lists, by the functions of `by`."""
        function: Callable[..., None] = getattr(by, self.update.name)
        lists: list[Any] = [self.grads, self.params, *(self.states or [None])]
        rest: list[Any] = [state]
        if self.update.name == "novograd":
            norms = by.max_norms(self.grads) if options["max_norm_kind"] else stats.sums.sqrt()
            lists.append(self.grad_norms)
            rest.append(norms)
        function(*lists, *rest, model_params=self.model, **options)


def kernels() -> Any:
    """The operations; with emulated kernels in place, those carry them out."""
    return operations


def in_float64() -> Any:
    """The reference, which computes in float64 where tensors are of it."""
    return reference
