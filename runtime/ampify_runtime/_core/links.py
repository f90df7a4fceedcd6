"""Owns the link between a reduced model parameter and its fp32 master: one a parameter, whoever asks for it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

REDUCED = (torch.float16, torch.bfloat16)


@dataclass(slots=True, eq=False)
class Link:
    """A master, and which version of it and of its model parameter were last seen equal."""

    master: nn.Parameter
    model_version: int
    master_version: int
    # The gradient of the model parameter that the master's was made from, and the versions of both then.
    grad: weakref.ref[torch.Tensor] | None = None
    grad_version: int = 0
    master_grad_version: int = 0
    # Whether the model parameter has had its value from the master.
    published: bool = False


Pair = tuple[torch.Tensor, Link]

_links: Any = WeakTensorKeyDictionary()
# The fp32 weights that models were cast from, until masters are made of them.
_originals: Any = WeakTensorKeyDictionary()


def keep_original(parameter: torch.Tensor, original: torch.Tensor) -> None:
    """Let the master of `parameter`, if it gets one, be `original`, and nothing be lost by the cast."""
    _originals[parameter] = original


def drop_originals() -> None:
    """Free the fp32 weights that no master was made of."""
    _originals.clear()


def link_of(parameter: torch.Tensor) -> Link | None:
    """The link to `parameter`'s master, if it has one."""
    link: Link | None = _links.get(parameter)
    return link


def make_link(parameter: torch.Tensor) -> Link:
    """The link of a reduced parameter to its master, which is made if need be."""
    link = link_of(parameter)
    if link is None:
        original = _originals.pop(parameter, None)
        data = parameter.detach().float() if original is None else original
        master = nn.Parameter(data, requires_grad=parameter.requires_grad)
        # Marks that scripts set for their optimizers. The names with underscores are Python's, and ours.
        vars(master).update({name: value for name, value in vars(parameter).items() if not name.startswith("__")})
        link = Link(master, parameter._version, master._version)
        _links[parameter] = link
    return link


def cut_link(parameter: torch.Tensor) -> None:
    """Let `parameter` be its own again, in fp32 and with the master's value."""
    link = _links.pop(parameter, None)
    if link is not None:
        parameter.data = link.master.data
        parameter.grad = None


def publish(pairs: Iterable[Pair]) -> None:
    """Copy masters into their model parameters."""
    pairs = list(pairs)
    if not pairs:
        return
    with torch.no_grad():
        torch._foreach_copy_([p for p, _ in pairs], [link.master for _, link in pairs])
    for parameter, link in pairs:
        mark_equal(parameter, link)


def publish_edited(pairs: Iterable[Pair]) -> None:
    """Copy those masters that were changed since, by others than a step."""
    publish([pair for pair in pairs if pair[1].master._version != pair[1].master_version])


def absorb_edits(pairs: Iterable[Pair]) -> None:
    """Take over into the masters what was written into model parameters since: clamped, loaded, broadcast.

    Elements that still equal the rounded master keep its full precision. What is written past autograd's sight, through
    `.data`, goes unseen.
    """
    for parameter, link in pairs:
        if parameter._version != link.model_version:
            absorb(parameter, link)


def absorb(parameter: torch.Tensor, link: Link) -> None:
    """As `absorb_edits`, for one parameter, whatever its version."""
    with torch.no_grad():
        master = link.master
        model = parameter.to(master.device)
        # What is written before the first step is a broadcast from one process, as likely as not. The others have no
        # more than was sent, and its own masters are not to be another's.
        is_sent = parameter._version != link.model_version and not link.published and trains_with_others()
        master.copy_(model.float() if is_sent else torch.where(model == master.to(model.dtype), master, model.float()))
    mark_equal(parameter, link)


def mark_equal(parameter: torch.Tensor, link: Link) -> None:
    """A model parameter and its master are the same as they are now."""
    link.model_version = parameter._version
    link.master_version = link.master._version


def trains_with_others() -> bool:
    """Whether this process is one of several."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
