"""Owns the optimizers' update rules in torch's foreach operations: new values from old ones.

Those whose names end in an underscore write parameters and state in place, the others write nothing.

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


def adam_(
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
) -> None:
    """Writes parameters and moments. Kingma and Ba 2015, algorithm 1; `decoupled`: Loshchilov and Hutter 2019."""
    if not decoupled:
        gradients = _decayed(gradients, parameters, decay)
    torch._foreach_mul_(first, beta1)
    torch._foreach_add_(first, gradients, alpha=1.0 - beta1)
    torch._foreach_mul_(second, beta2)
    torch._foreach_addcmul_(second, gradients, gradients, 1.0 - beta2)
    denominators = list(torch._foreach_sqrt(second))
    torch._foreach_div_(denominators, correction2**0.5)
    torch._foreach_add_(denominators, eps)
    if decoupled and decay:
        torch._foreach_mul_(parameters, 1.0 - lr * decay)
    rate = -lr / correction1
    if isinstance(rate, torch.Tensor):
        torch._foreach_add_(parameters, _times(_over(first, denominators), rate))
    else:
        torch._foreach_addcdiv_(parameters, first, denominators, rate)


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


def sgd_(
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
) -> None:
    """Writes parameters and momenta, as torch.optim.SGD does; `first_run`: the momentum starts as the gradient."""
    if not decay_after_momentum:
        gradients = _decayed(gradients, parameters, decay)
    if momentum:
        _move_on_(momenta, gradients, momentum, 1.0 - dampening, first_run)
        gradients = _plus(gradients, _times(momenta, momentum)) if nesterov else momenta
    if decay_after_momentum:
        gradients = _decayed(gradients, parameters, decay)
    if isinstance(lr, torch.Tensor):
        torch._foreach_sub_(parameters, _times(gradients, lr))
    else:
        torch._foreach_add_(parameters, gradients, alpha=-lr)


def _move_on_(
    momenta: Tensors, gradients: Tensors, momentum: float, taken: float, first_run: bool | torch.Tensor
) -> None:
    if isinstance(first_run, torch.Tensor):
        blended = _blend(momenta, momentum, gradients, taken)
        chosen = [torch.where(first_run, new, old) for new, old in zip(gradients, blended, strict=True)]
        torch._foreach_copy_(momenta, chosen)
    elif first_run:
        torch._foreach_copy_(momenta, gradients)
    else:
        torch._foreach_mul_(momenta, momentum)
        torch._foreach_add_(momenta, gradients, alpha=taken)


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
