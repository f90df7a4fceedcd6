"""The fused optimizers and mixed norms, with emulated kernels against plain torch: the same steps from the same start."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from ampify_runtime.normalization import FusedLayerNorm, MixedFusedRMSNorm
from ampify_runtime.optimizers import (
    FusedAdagrad,
    FusedAdam,
    FusedLAMB,
    FusedMixedPrecisionLamb,
    FusedNovoGrad,
    FusedSGD,
)
from torch.optim import Optimizer

from tests.kernels.emulation import FORWARD, Emulated

MAKERS: dict[str, Callable[[Any], Optimizer]] = {
    "adam": lambda p: FusedAdam(p, lr=0.01, weight_decay=0.1),
    "adam, masters": lambda p: FusedAdam(p, lr=0.01, weight_decay=0.1, capturable=True, master_weights=True),
    "sgd": lambda p: FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "lamb": lambda p: FusedLAMB(p, lr=0.01),
    "lamb, masters": lambda p: FusedMixedPrecisionLamb(p, lr=0.01, reduced_precision_dtype=torch.float16),
    "novograd": lambda p: FusedNovoGrad(p, lr=0.1, weight_decay=0.1),
    "novograd, largest": lambda p: FusedNovoGrad(p, lr=0.1, norm_type=0, reg_inside_moment=True),
    "adagrad": lambda p: FusedAdagrad(p, lr=0.1),
}


def trained(name: str, dtype: torch.dtype, on_kernels: bool, emulated: Emulated) -> list[torch.Tensor]:
    """Parameters and state after steps of which torch's GradScaler, where the optimizer lets it, skips one."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(5,), (3, 41), (0,), (260,)]
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]
    optimizer = MAKERS[name](params)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaled = getattr(optimizer, "_step_supports_amp_scaling", False)
    with emulated.in_place() if on_kernels else nullcontext():
        for step in range(4):
            for parameter in params:
                parameter.grad = torch.randn(parameter.shape, generator=generator).to(dtype)
            if not scaled:
                optimizer.step()
                continue
            if step == 1:
                params[-1].grad[7] = float("inf")  # type: ignore[index]
            scaler.scale(torch.ones(()))
            scaler.step(optimizer)
            scaler.update()
    states = [optimizer.state[parameter] for parameter in params]
    return [*params, *(value for state in states for value in state.values() if isinstance(value, torch.Tensor))]


@pytest.mark.filterwarnings("ignore:GradScaler is going to stop passing itself:FutureWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", list(MAKERS))
def test_optimizers(name: str, dtype: torch.dtype, session_emulated: Emulated) -> None:
    session_emulated.run_threads(FORWARD)
    expected, found = (trained(name, dtype, on_kernels, session_emulated) for on_kernels in (False, True))
    for left, right in zip(found, expected, strict=True):
        # A half parameter may be rounded to its other neighbour.
        tolerance = 3e-6 if left.dtype is torch.float32 else torch.finfo(left.dtype).eps
        torch.testing.assert_close(left, right, rtol=tolerance, atol=max(tolerance, 1e-6))


@pytest.mark.parametrize("kind", [FusedLayerNorm, MixedFusedRMSNorm])
def test_norms_of_mixed_types(kind: Any, session_emulated: Emulated) -> None:
    """Off CUDA the layers leave mixed types to torch; what they do on CUDA is what `memory_efficient` does here too."""
    x = torch.randn(6, 33).half()
    upstream = torch.randn(6, 33)
    results = []
    for on_kernels in (False, True):
        torch.manual_seed(0)
        layer = kind(33, memory_efficient=True)
        torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
        given = x.clone().requires_grad_()
        with session_emulated.in_place() if on_kernels else nullcontext():
            out = layer(given)
            out.backward(upstream.to(out.dtype))
        results.append([out, given.grad, layer.weight.grad])
    for left, right in zip(*results, strict=True):
        assert left.dtype is right.dtype
        torch.testing.assert_close(left, right, rtol=2e-3, atol=2e-3)
