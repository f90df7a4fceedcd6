"""Owns the optimizers' update rules in torch's foreach operations: new values from old ones, nothing written.

All tensors are of the wide type and belong together by position. Coefficients are numbers, or tensors of shape [] on
the tensors' device, so that nothing waits for a device.
"""

from __future__ import annotations

from typing import Any

import torch

Tensors = list[torch.Tensor]
Coefficient = float | torch.Tensor


def _times(tensors: Tensors, factor: Coefficient) -> Tensors:
    return list(torch._foreach_mul(tensors, factor))


# torch's stubs have an overload for each kind of `right`, and none for several.
def _plus(left: Tensors, right: Any) -> Tensors:
    return list(torch._foreach_add(left, right))


def _over(left: Tensors, right: Any) -> Tensors:
    return list(torch._foreach_div(left, right))


def _blend(old: Tensors, kept: float, new: Tensors, taken: float) -> Tensors:
    return _plus(_times(old, kept), _times(new, taken))


def _decayed(gradients: Tensors, parameters: Tensors, decay: float) -> Tensors:
    return _plus(gradients, _times(parameters, decay)) if decay else gradients


def _stepped(parameters: Tensors, updates: Tensors, rate: Coefficient) -> Tensors:
    return list(torch._foreach_sub(parameters, _times(updates, rate)))


def adaptive_direction(
    gradients: Tensors,
    first: Tensors,
    second: Tensors,
    *,
    beta1: float,
    beta2: float,
    beta3: float,
    eps: float,
    correction1: Coefficient,
    correction2: Coefficient,
) -> tuple[Tensors, Tensors, Tensors]:
    """The new moments and Adam's direction: (m / correction1) / (sqrt(v / correction2) + eps), beta3 weighs g in m."""
    first = _blend(first, beta1, gradients, beta3)
    second = _blend(second, beta2, list(torch._foreach_mul(gradients, gradients)), 1.0 - beta2)
    denominators = _plus(list(torch._foreach_sqrt(_over(second, correction2))), eps)
    return first, second, _over(_over(first, correction1), denominators)


def adam(
    gradients: Tensors,
    parameters: Tensors,
    first: Tensors,
    second: Tensors,
    *,
    lr: Coefficient,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    decoupled: bool,
    correction1: Coefficient,
    correction2: Coefficient,
) -> tuple[Tensors, Tensors, Tensors]:
    """New parameters and moments. Kingma and Ba 2015, algorithm 1; `decoupled`: Loshchilov and Hutter 2019."""
    if not decoupled:
        gradients = _decayed(gradients, parameters, decay)
    first, second, direction = adaptive_direction(
        gradients,
        first,
        second,
        beta1=beta1,
        beta2=beta2,
        beta3=1.0 - beta1,
        eps=eps,
        correction1=correction1,
        correction2=correction2,
    )
    if decoupled:
        direction = _decayed(direction, parameters, decay)
    return _stepped(parameters, direction, lr), first, second


def trust_ratios(parameters: Tensors, directions: Tensors) -> Tensors:
    """|p| / |direction| of each, 1 where either is 0: You et al. 2020, algorithm 2."""
    lengths = zip(torch._foreach_norm(parameters), torch._foreach_norm(directions), strict=True)
    return [torch.where((p > 0) & (u > 0), p / torch.where(u > 0, u, 1.0), 1.0) for p, u in lengths]


def lamb_direction(
    gradients: Tensors,
    parameters: Tensors,
    first: Tensors,
    second: Tensors,
    *,
    decay: float,
    decoupled: bool,
    beta1: float,
    beta2: float,
    beta3: float,
    eps: float,
    correction1: Coefficient,
    correction2: Coefficient,
) -> tuple[Tensors, Tensors, Tensors]:
    """New moments and LAMB's direction before the trust ratio."""
    if not decoupled:
        gradients = _decayed(gradients, parameters, decay)
    first, second, direction = adaptive_direction(
        gradients,
        first,
        second,
        beta1=beta1,
        beta2=beta2,
        beta3=beta3,
        eps=eps,
        correction1=correction1,
        correction2=correction2,
    )
    return first, second, _decayed(direction, parameters, decay) if decoupled else direction


def along(parameters: Tensors, directions: Tensors, ratios: Tensors | None, lr: Coefficient) -> Tensors:
    """Parameters after a step of `lr` along `directions`, each times its ratio."""
    if ratios is not None:
        directions = list(torch._foreach_mul(directions, ratios))
    return _stepped(parameters, directions, lr)


def sgd(
    gradients: Tensors,
    parameters: Tensors,
    momenta: Tensors,
    *,
    lr: Coefficient,
    momentum: float,
    dampening: float,
    decay: float,
    nesterov: bool,
    first_run: bool | torch.Tensor,
    decay_after_momentum: bool,
) -> tuple[Tensors, Tensors]:
    """New parameters and momenta, as torch.optim.SGD defines them; `first_run`: the momentum starts as the gradient."""
    if not decay_after_momentum:
        gradients = _decayed(gradients, parameters, decay)
    if momentum:
        momenta = _moved_on(momenta, gradients, momentum, 1.0 - dampening, first_run)
        gradients = _plus(gradients, _times(momenta, momentum)) if nesterov else momenta
    if decay_after_momentum:
        gradients = _decayed(gradients, parameters, decay)
    return _stepped(parameters, gradients, lr), momenta


def _moved_on(
    momenta: Tensors, gradients: Tensors, momentum: float, taken: float, first_run: bool | torch.Tensor
) -> Tensors:
    if first_run is True:
        return gradients
    blended = _blend(momenta, momentum, gradients, taken)
    if first_run is False:
        return blended
    return [torch.where(first_run, new, old) for new, old in zip(gradients, blended, strict=True)]


def adagrad(
    gradients: Tensors,
    parameters: Tensors,
    sums: Tensors,
    *,
    lr: Coefficient,
    eps: float,
    decay: float,
    decoupled: bool,
) -> tuple[Tensors, Tensors]:
    """New parameters and sums of squares. Duchi, Hazan and Singer 2011."""
    if not decoupled:
        gradients = _decayed(gradients, parameters, decay)
    sums = _plus(sums, list(torch._foreach_mul(gradients, gradients)))
    direction = _over(gradients, _plus(list(torch._foreach_sqrt(sums)), eps))
    return _stepped(parameters, _decayed(direction, parameters, decay) if decoupled else direction, lr), sums


def blended_norms(
    norms: torch.Tensor, now: torch.Tensor, *, beta2: float, as_squares: bool, first_run: bool | torch.Tensor
) -> torch.Tensor:
    """NovoGrad's second moments, shape [n]: `now` blended into `norms`, `as_squares` or as they are; first, `now`."""
    if as_squares:
        blended = (beta2 * norms.square() + (1.0 - beta2) * now.square()).sqrt()
    else:
        blended = beta2 * norms + (1.0 - beta2) * now
    if isinstance(first_run, torch.Tensor):
        return torch.where(first_run, now, blended)
    return now if first_run else blended


def novograd(
    gradients: Tensors,
    parameters: Tensors,
    first: Tensors,
    norms: torch.Tensor,
    *,
    lr: Coefficient,
    beta1: float,
    beta3: float,
    eps: float,
    decay: float,
    decay_in_moment: bool,
    correction1: Coefficient,
    correction2: Coefficient,
) -> tuple[Tensors, Tensors]:
    """New parameters and first moments, given `norms` of this step. Ginsburg et al. 2019, algorithm 1.

    `correction2` divides the norms; it is the square root of Adam's.
    """
    denominators = list((norms / correction2 + eps).unbind())
    if decay_in_moment:
        gradients = _decayed(_over(gradients, denominators), parameters, decay)
        first = _blend(first, beta1, gradients, beta3)
        return _stepped(parameters, _over(first, correction1), lr), first
    first = _blend(first, beta1, gradients, beta3)
    direction = _decayed(_over(_over(first, correction1), denominators), parameters, decay)
    return _stepped(parameters, direction, lr), first
