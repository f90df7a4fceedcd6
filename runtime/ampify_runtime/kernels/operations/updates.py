"""The optimizers' updates: each reads gradients and writes parameters, state and the model's copy in one pass.

Notation: g = gradient * `state.grad_factor`, p = parameter (the fp32 master where there is one), lr = `state.lr`,
bc1, bc2 = the bias corrections of `state`. With `state.skip` nothing is written. `model_params`, if given, get p
rounded to their dtype. Gradients are read and never written. Arithmetic is float32; `1 - beta` is computed in float64
and rounded once. "Budget" is bytes per parameter and step with a float16 gradient and model and float32 master and
state, *including* the 2 bytes in which `grad_stats` finds overflow and the norm to clip by;
`benchmarks/optimizer_bytes.py` derives it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .. import backend
from ..state import StepState

Tensors = Sequence[Tensor]


def adam(
    grads: Tensors,
    params: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state: StepState,
    *,
    model_params: Tensors | None = None,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
    decoupled: bool = True,
) -> None:
    """Adam (Kingma and Ba 2015), or AdamW (Loshchilov and Hutter 2019) if `decoupled`.

    not decoupled: g += weight_decay * p.
    m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g;  u = (m / bc1) / (sqrt(v / bc2) + eps).
    decoupled: u += weight_decay * p.
    p -= lr * u.

    Budget: 30 bytes.
    """
    backend.of(params).adam(
        grads,
        params,
        exp_avgs,
        exp_avg_sqs,
        state,
        model_params=model_params,
        betas=betas,
        eps=eps,
        weight_decay=weight_decay,
        decoupled=decoupled,
    )


def sgd(
    grads: Tensors,
    params: Tensors,
    momentum_buffers: Tensors | None,
    state: StepState,
    *,
    model_params: Tensors | None = None,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    wd_after_momentum: bool = False,
    first_run: bool | None = None,
) -> None:
    """Gradient descent, as `torch.optim.SGD`, with apex's decay after momentum.

    not `wd_after_momentum`: g += weight_decay * p.
    momentum != 0: b = g on the first run, else momentum * b + (1 - dampening) * g; g = g + momentum * b if `nesterov`,
    else b. `wd_after_momentum`: g += weight_decay * p.
    p -= lr * g.

    `momentum_buffers` is None exactly if `momentum` is 0 (else ValueError). `first_run`: whether the buffers hold
    nothing yet; None leaves it to the device: the first run is where `state.step` is 1, so a skipped first step stays
    first.

    Budget: 22 bytes with momentum, 14 without.
    """
    if (momentum_buffers is None) != (momentum == 0.0):
        raise ValueError(
            f"sgd: momentum={momentum} and momentum_buffers={'None' if momentum_buffers is None else 'given'}; "
            "give buffers exactly if momentum is not 0"
        )
    backend.of(params).sgd(
        grads,
        params,
        momentum_buffers,
        state,
        model_params=model_params,
        momentum=momentum,
        dampening=dampening,
        nesterov=nesterov,
        weight_decay=weight_decay,
        wd_after_momentum=wd_after_momentum,
        first_run=first_run,
    )


def lamb(
    grads: Tensors,
    params: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state: StepState,
    *,
    model_params: Tensors | None = None,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
    decoupled: bool = True,
    grad_averaging: bool = True,
    use_nvlamb: bool = False,
) -> None:
    """LAMB (You et al. 2020), with the choices of apex's FusedLAMB.

    not decoupled: g += weight_decay * p.
    m = beta1 * m + beta3 * g, beta3 = 1 - beta1 if `grad_averaging`, else 1;  v = beta2 * v + (1 - beta2) * g * g;
    u = (m / bc1) / (sqrt(v / bc2) + eps);  decoupled: u += weight_decay * p.
    r = |p| / |u| over the whole tensor if both norms are not 0 and (`use_nvlamb` or weight_decay != 0), else 1.
    p -= lr * r * u.

    Two passes: the first writes m and v and sums both norms, the second computes u anew from m, v and p; no scratch the
    size of the parameters, and gradients are not written. The clip by the global norm is `state.clip` (apex:
    `norm_epsilon=0`).

    Budget: 42 bytes.
    """
    backend.of(params).lamb(
        grads,
        params,
        exp_avgs,
        exp_avg_sqs,
        state,
        model_params=model_params,
        betas=betas,
        eps=eps,
        weight_decay=weight_decay,
        decoupled=decoupled,
        grad_averaging=grad_averaging,
        use_nvlamb=use_nvlamb,
    )


def novograd(
    grads: Tensors,
    params: Tensors,
    exp_avgs: Tensors,
    grad_norms: Tensor,
    state: StepState,
    norms: Tensor,
    *,
    model_params: Tensors | None = None,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
    grad_averaging: bool = True,
    decay_in_moment: bool = False,
    max_norm_kind: bool = False,
    first_run: bool | None = False,
) -> None:
    """NovoGrad (Ginsburg et al. 2019), with the choices of apex's FusedNovoGrad.

    `norms`: float32, shape [number of tensors]: the norm of each gradient, still scaled: `stats.sums.sqrt()`, or
    `max_norms(grads)`.
    n = norms[i] * `state.grad_factor`; `grad_norms` (float32, same shape, state that this writes) is blended with it:
    G = sqrt(beta2 * G * G + (1 - beta2) * n * n), or with `max_norm_kind` beta2 * G + (1 - beta2) * n; on the first
    run n.
    denom = G / sqrt(bc2) + eps;  beta3 = 1 - beta1 if `grad_averaging`, else 1.
    `decay_in_moment`: m = beta1 * m + beta3 * (g / denom + weight_decay * p);  p -= lr * m / bc1.
    else:              m = beta1 * m + beta3 * g;  p -= lr * ((m / bc1) / denom + weight_decay * p).

    `first_run`: whether to take n as it is (apex's init_zero=False); None leaves it to the device, as in `sgd`.

    Budget: 22 bytes.
    """
    backend.of(params).novograd(
        grads,
        params,
        exp_avgs,
        grad_norms,
        state,
        norms,
        model_params=model_params,
        betas=betas,
        eps=eps,
        weight_decay=weight_decay,
        grad_averaging=grad_averaging,
        decay_in_moment=decay_in_moment,
        max_norm_kind=max_norm_kind,
        first_run=first_run,
    )


def adagrad(
    grads: Tensors,
    params: Tensors,
    sums: Tensors,
    state: StepState,
    *,
    model_params: Tensors | None = None,
    eps: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> None:
    """Adagrad (Duchi et al. 2011), as apex's FusedAdagrad (`adagrad_w_mode` is `decoupled`).

    not decoupled: g += weight_decay * p.
    s += g * g;  u = g / (sqrt(s) + eps).  decoupled: u += weight_decay * p.  p -= lr * u.

    Budget: 22 bytes.
    """
    backend.of(params).adagrad(
        grads,
        params,
        sums,
        state,
        model_params=model_params,
        eps=eps,
        weight_decay=weight_decay,
        decoupled=decoupled,
    )
