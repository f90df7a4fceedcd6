"""Owns an optimizer's fp32 masters: in its groups in place of reduced parameters, with those' gradients unscaled."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import torch
from torch.optim import Optimizer

from .gradients import multiply, parameters_of
from .links import REDUCED, Pair, absorb_edits, cut_link, make_link


@dataclass(slots=True, eq=False)
class Masters:
    """The model parameters behind an optimizer, each with the link to its master."""

    pairs: list[Pair] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)
    # What was in the groups' lists when they were last looked through.
    known: dict[int, tuple[torch.Tensor, ...]] = field(default_factory=dict)
    # What the model's gradients are multiplied by at the moment; None: by nothing.
    scaled_by: torch.Tensor | None = None
    # Whether the masters' gradients were made, and are the model's unless those changed since.
    gathered: bool = False
    # The norms of the model's gradients then, where they may be changed past autograd's sight; None elsewhere.
    norms: torch.Tensor | None = None
    # Whether the model's gradients are known as they were after their backward, to tell edits from them.
    watched: bool = False

    def adopt(self, optimizer: Optimizer) -> None:
        """Put masters in the place of all reduced parameters in the groups, also of those that came later."""
        for group in optimizer.param_groups:
            params = group["params"]
            # Twice a step, and hardly ever anything new.
            known = self.known.get(id(params), ())
            if len(known) == len(params) and all(map(is_, params, known)):
                continue
            for index, parameter in enumerate(params):
                if parameter.dtype in REDUCED and id(parameter) not in self.ids:
                    params[index] = self._master_of(parameter)
            self.known[id(params)] = tuple(params)
            _rekey(optimizer, {id(parameter): link.master for parameter, link in self.pairs})

    def _master_of(self, parameter: torch.Tensor) -> torch.Tensor:
        link = make_link(parameter)
        if id(link.master) not in self.ids:
            self.pairs.append((parameter, link))
            self.ids.add(id(link.master))
        return link.master

    def release(self, optimizer: Optimizer, shared: set[int]) -> None:
        """Put the model's parameters back into the groups, in fp32 and with the masters' values and state.

        Those whose masters are in `shared`, by id, stay reduced: another optimizer goes on stepping the master.
        """
        absorb_edits(self.pairs)
        former = {id(link.master): parameter for parameter, link in self.pairs}
        for group in optimizer.param_groups:
            for index, master in enumerate(group["params"]):
                parameter = former.get(id(master))
                if parameter is not None:
                    group["params"][index] = parameter
        _rekey(optimizer, former)
        for parameter, link in self.pairs:
            if id(link.master) not in shared:
                cut_link(parameter)

    def models(self) -> list[torch.Tensor]:
        """The model parameters."""
        return [parameter for parameter, _ in self.pairs]

    def own_gradients(self, optimizer: Optimizer) -> list[torch.Tensor]:
        """Gradients of what is in the groups and is the model's too: norms, mostly."""
        grads = (parameter.grad for parameter in parameters_of(optimizer) if id(parameter) not in self.ids)
        return [grad._values() if grad.is_sparse else grad for grad in grads if grad is not None]

    def model_gradients(self) -> list[torch.Tensor]:
        """Gradients of the reduced parameters."""
        grads = (parameter.grad for parameter, _ in self.pairs)
        return [grad._values() if grad.is_sparse else grad for grad in grads if grad is not None]

    def is_stale(self) -> bool:
        """Whether the masters' gradients are not those of the model."""
        if not self.gathered or any(not _is_current(pair) for pair in self.pairs):
            return True
        return self.norms is not None and not torch.equal(self.norms, _norms(self.model_gradients()))

    def was_edited(self) -> bool:
        """Whether a gradient of the model was changed in place, not zeroed, since the masters' were made of it."""
        if not self.gathered and not self.watched:
            return False
        same = [(p.grad, link) for p, link in self.pairs if link.grad is not None and link.grad() is p.grad]
        changed = [grad for grad, link in same if grad is not None and grad._version != link.grad_version]
        return any(bool(grad.any()) for grad in changed if not grad.is_sparse)

    def gather(self) -> None:
        """Copy the model's gradients to the masters', in fp32, and unscale them there."""
        targets, sources = [], []
        for parameter, link in self.pairs:
            grad, master = parameter.grad, link.master
            if grad is None:
                master.grad = None
            elif grad.is_sparse:
                master.grad = grad.to(master.dtype)
            else:
                master.grad = _room_for(grad, master)
                targets.append(master.grad)
                sources.append(grad)
        if targets:
            with torch.no_grad():
                torch._foreach_copy_(targets, sources)
        self.gathered = True

    def note_gathered(self, with_norms: bool) -> None:
        """Remember the gradients as they are now, once the masters' are unscaled.

        `with_norms` also where autograd does not count: sums over processes leave no trace in a tensor's version.
        """
        self.norms = _norms(self.model_gradients()) if with_norms else None
        for parameter, link in self.pairs:
            grad, master_grad = parameter.grad, link.master.grad
            link.grad = None if grad is None else weakref.ref(grad)
            link.grad_version = 0 if grad is None else grad._version
            link.master_grad_version = 0 if master_grad is None else master_grad._version
        self.watched = True

    def gradients(self) -> list[torch.Tensor]:
        """The masters' own gradients."""
        grads = (link.master.grad for _, link in self.pairs)
        return [grad._values() if grad.is_sparse else grad for grad in grads if grad is not None]

    def scale_to(self, scale: torch.Tensor, unseen: list[torch.Tensor]) -> None:
        """Have the model's gradients, those in `unseen`, multiplied by `scale`, so that a backward adds its like.

        What was done to the masters' gradients since they were made, a clip for example, is taken along.
        """
        ids = set(map(id, unseen))
        if self.gathered:
            edited = [pair for pair in self.pairs if _is_current(pair) and _is_edited(pair) and id(pair[0].grad) in ids]
            _write_back(edited, scale)
            ids -= {id(parameter.grad) for parameter, _ in edited}
        by = self.scaled_by
        factor = scale if by is None else scale / by.to(scale.device, non_blocking=True)
        multiply([grad for grad in unseen if id(grad) in ids], factor)
        self.scaled_by = scale
        self.gathered = self.watched = False

    def forget_gradients(self, keeps_scale: bool) -> None:
        """The model's gradients were zeroed: the masters' are to be made anew.

        Nothing is scaled any more, unless `keeps_scale`: a scaled backward is to follow.
        """
        if not keeps_scale:
            self.scaled_by = None
        self.gathered = self.watched = False


def _norms(grads: list[torch.Tensor]) -> torch.Tensor:
    """Norms of shape [gradients], float32."""
    if not grads:
        return torch.zeros(0)
    return torch.stack(
        [norm.float().to(grads[0].device) for norm in torch._foreach_norm([grad.detach() for grad in grads])]
    )


def _is_current(pair: Pair) -> bool:
    parameter, link = pair
    grad = parameter.grad
    if grad is None:
        return link.grad is None
    return link.grad is not None and link.grad() is grad and grad._version == link.grad_version


def _is_edited(pair: Pair) -> bool:
    grad = pair[1].master.grad
    return grad is not None and grad._version != pair[1].master_grad_version


def _write_back(pairs: list[Pair], scale: torch.Tensor) -> None:
    with torch.no_grad():
        for parameter, link in pairs:
            if parameter.grad is not None and link.master.grad is not None:
                parameter.grad.copy_(link.master.grad * scale.to(parameter.device, non_blocking=True))


def _room_for(grad: torch.Tensor, master: torch.Tensor) -> torch.Tensor:
    """The master's gradient of before, to write to, if it fits."""
    room = master.grad
    if room is not None and not room.is_sparse and room.shape == grad.shape:
        return room
    return torch.empty_like(master, memory_format=torch.preserve_format)


def _rekey(optimizer: Optimizer, new: Mapping[int, torch.Tensor]) -> None:
    """Hand the state of some parameters, by id, to others, in fp32; in its order, which is that of a checkpoint."""
    state = optimizer.state
    if not any(id(key) in new for key in state):
        return
    items = list(state.items())
    state.clear()
    for key, value in items:
        other = new.get(id(key))
        state[key if other is None else other] = value if other is None else _in_float(value)


def _in_float(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    return {
        name: value.float() if isinstance(value, torch.Tensor) and value.dtype in REDUCED else value
        for name, value in state.items()
    }
