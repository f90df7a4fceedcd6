"""Cast lists: torch's own are left alone, apex's hold op for op, and nothing of them outlives its policy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from ampify_runtime._core import cast_overrides
from ampify_runtime._core.cast_lists import APEX_LISTS, TORCH_LISTS
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .casting import in_thread, initialized, product_dtype
from .training import X, assert_same

HALF, FULL = torch.bfloat16, torch.float32
Function = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture
def apex() -> None:
    """This thread casts to bfloat16 by apex's lists."""
    initialized(opt_level="O4", cast_lists="apex")


def square(dtype: torch.dtype = FULL) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand(4, 4).add_(0.25).to(dtype)


def image(dtype: torch.dtype = FULL) -> torch.Tensor:
    return torch.ones(1, 2, 6, 6, dtype=dtype)


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the tables are those of torch 2.13")
@pytest.mark.parametrize(("device_type", "key"), [("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")])
def test_the_tables_name_what_torch_has_registered(device_type: str, key: str) -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    names = {name.removeprefix("aten::").split(".")[0] for name in registered}
    listed = frozenset().union(*(operators for _, operators in TORCH_LISTS[device_type].kinds()))
    # In torch's library of CUDA kernels, which a build for the CPU does not have.
    assert listed - {"_cudnn_rnn"} == names - {"_cudnn_rnn"}


@pytest.mark.parametrize("lists", [*TORCH_LISTS.values(), *APEX_LISTS.values()])
def test_no_operator_is_on_two_lists(lists: Any) -> None:
    listed = [operator for _, operators in lists.kinds() for operator in operators]
    assert len(listed) == len(set(listed))


def test_torch_s_lists_need_no_kernels() -> None:
    for device_type in ("cpu", "cuda"):
        assert cast_overrides.plan(device_type, "torch", False, {}) == {}
    before = registrations()
    initialized(opt_level="O4")
    assert registrations() == before


def registrations() -> set[str]:
    return set(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"))


# What apex/amp/lists says of each, on a tensor of shape [4, 4] of either type.
ALLOWED: dict[str, Function] = {
    "mm": lambda x: x.mm(x),
    "matmul": lambda x: x @ x,
    "mv": lambda x: torch.mv(x, x[0]),
    "addmv": lambda x: torch.addmv(x[0], x, x[1]),
    "addr": lambda x: torch.addr(x, x[0], x[1]),
    "linear": lambda x: F.linear(x, torch.ones(4, 4)),
    "prelu": lambda x: F.prelu(x, torch.ones(1)),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "lstm": lambda x: nn.LSTM(4, 3)(x)[0],
    "gru cell": nn.GRUCell(4, 3),
}
DENIED: dict[str, Function] = {
    "exp": torch.exp,
    "log10": torch.log10,
    "erfinv": lambda x: torch.erfinv(x / 4),
    "pow": lambda x: x**2,
    "pow of a number": lambda x: 2**x,
    "sum": lambda x: x.sum(dim=0),
    "var": torch.var,
    "std": lambda x: x.std(dim=0),
    "norm": torch.norm,
    "norm of rows": lambda x: x.norm(dim=1),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: F.softmax(x, dim=0),
    "log_softmax": lambda x: F.log_softmax(x, dim=0),
    "gelu": F.gelu,
    "layer_norm": nn.LayerNorm(4),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 3])),
    "mse_loss": lambda x: F.mse_loss(x, torch.zeros(4, 4)),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x),
    "normalize": F.normalize,
    "interpolate": lambda x: F.interpolate(x[None], scale_factor=2, mode="linear"),
    "cpu": lambda x: x.cpu(),
}
GIVEN: dict[str, Function] = {
    "relu": F.relu,
    "tanh": torch.tanh,
    "mean": lambda x: x.mean(),
    "batch norm": nn.BatchNorm1d(4),
    "times a number": lambda x: x * 2.5 + 1,
    "dropout": lambda x: F.dropout(x, 0.5),
}


@pytest.mark.usefixtures("apex")
class TestApexLists:
    @pytest.mark.parametrize("name", ALLOWED)
    @pytest.mark.parametrize("dtype", [HALF, FULL])
    def test_allow(self, name: str, dtype: torch.dtype) -> None:
        x = square(dtype).requires_grad_()
        y = ALLOWED[name](x)
        assert y.dtype is HALF
        y.float().sum().backward()
        assert x.grad is not None
        assert x.grad.dtype is dtype

    @pytest.mark.parametrize("name", DENIED)
    @pytest.mark.parametrize("dtype", [HALF, FULL])
    def test_deny(self, name: str, dtype: torch.dtype) -> None:
        x = square(dtype)
        y = DENIED[name](x)
        assert y.dtype is FULL
        with amp.disable_casts():
            assert_same([y], [DENIED[name](x.float())])

    @pytest.mark.parametrize("name", GIVEN)
    @pytest.mark.parametrize("dtype", [HALF, FULL])
    def test_not_listed(self, name: str, dtype: torch.dtype) -> None:
        assert GIVEN[name](square(dtype)).dtype is dtype

    def test_convolutions(self) -> None:
        assert nn.Conv2d(2, 2, 3)(image()).dtype is HALF
        assert nn.ConvTranspose2d(2, 2, 3)(image(HALF)).dtype is HALF

    @pytest.mark.parametrize("function", [torch.add, torch.sub, torch.mul, torch.div, torch.atan2])
    @pytest.mark.parametrize("other", [torch.tensor(0.3), torch.full((4,), 0.3)])
    def test_promote(self, function: Any, other: torch.Tensor) -> None:
        """Also by a tensor of no dimensions, which torch's own promotion passes over."""
        x = square(HALF)
        assert function(x, other).dtype is FULL
        assert function(other, x).dtype is FULL
        assert function(x, other.to(HALF)).dtype is HALF

    def test_promotion_of_comparisons(self) -> None:
        precise = torch.tensor(1 + 2**-12)
        one = torch.ones(1, dtype=HALF)
        assert bool(torch.lt(one, precise)) is True
        assert torch.equal(one, torch.ones(1)) is True

    def test_promotion_of_what_torch_does_not_promote(self) -> None:
        x, y = square(HALF), square()
        assert torch.dot(x[0], y[0]).dtype is FULL
        assert torch.addcmul(x, y, y).dtype is FULL
        assert torch.cat([x, y]).dtype is FULL
        assert torch.stack([x, x]).dtype is HALF

    def test_writing_forms(self) -> None:
        x = square(HALF)
        assert x.add_(square()).dtype is HALF
        assert x.addmm_(square(), square()).dtype is HALF
        with pytest.raises(NotImplementedError, match=r"exp_ would write to a torch\.bfloat16 tensor.*use exp,"):
            x.exp_()
        y = square()
        assert y.exp_() is y
        assert_same([y], [square().exp()])

    def test_banned(self) -> None:
        x, target = square().clamp(0.01, 0.99), torch.ones(4, 4)
        for loss in (F.binary_cross_entropy, nn.BCELoss()):
            with pytest.raises(
                NotImplementedError, match=r"use torch\.nn\.functional\.binary_cross_entropy_with_logits"
            ):
                loss(x.to(HALF), target)
            assert_same([loss(x, target)], [-x.log().mean()])

    def test_float64_stays(self) -> None:
        x = square().double()
        assert x.exp().dtype is torch.float64
        assert (x + square(HALF)).dtype is torch.float64


def mixed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Operators of all kinds: allowed, denied, promoted, and not listed."""
    return torch.relu(torch.softmax((x @ w) * 0.5, dim=1) + torch.exp(x @ w)).sum()


@pytest.mark.usefixtures("apex")
class TestWhereverCodeRuns:
    """Each way to run `mixed` gives what running it plainly gives, gradients too."""

    def check(self, run: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        results = []
        for function in (mixed, run):
            x, w = square().requires_grad_(), square().requires_grad_()
            y = function(x, w)
            y.backward()
            results.append([y.detach(), x.grad, w.grad])
        assert results[0][0].dtype is FULL
        assert_same(results[1], results[0])
        with amp.disable_casts():
            assert not torch.equal(results[0][0], mixed(square(), square()))

    @pytest.mark.filterwarnings("ignore")
    def test_scripted(self) -> None:
        scripted = torch.jit.script(mixed)
        for _ in range(3):
            self.check(scripted)

    @pytest.mark.filterwarnings("ignore")
    def test_traced(self) -> None:
        self.check(torch.jit.trace(mixed, (square(), square())))

    def test_compiled(self) -> None:
        self.check(torch.compile(mixed, backend="aot_eager", fullgraph=True))

    def test_checkpointed(self) -> None:
        self.check(lambda x, w: checkpoint(mixed, x, w, use_reentrant=False))

    def test_in_a_thread_with_autocast_on(self) -> None:
        def work() -> torch.dtype:
            with torch.autocast("cpu", dtype=HALF):
                return torch.exp(square(HALF)).dtype

        assert in_thread(work) is FULL


def test_compiled_code_is_forgotten_with_its_lists() -> None:
    compiled = torch.compile(lambda x: x.exp(), backend="aot_eager")
    initialized(opt_level="O4", cast_lists="apex")
    assert compiled(square(HALF)).dtype is FULL
    with pytest.warns(amp.AmpWarning, match="cast lists of the process change from 'apex' to 'torch'"):
        initialized(opt_level="O4", cast_lists="torch")
    assert compiled(square(HALF)).dtype is HALF


class TestScope:
    def test_models_cast_by_the_lists_too(self) -> None:
        model, _ = initialized(nn.Sequential(nn.Linear(8, 4), nn.Softmax(1)), opt_level="O4", cast_lists="apex")
        assert model(X).dtype is FULL

    @pytest.mark.filterwarnings("ignore:ampify. amp. the cast lists")
    @pytest.mark.parametrize("later", [{"opt_level": "O4", "cast_lists": "torch"}, {"opt_level": "O0"}])
    def test_a_later_initialize_withdraws_them(self, later: dict[str, Any]) -> None:
        before, cpu = registrations(), torch.Tensor.cpu
        initialized(opt_level="O4", cast_lists="apex")
        assert registrations() > before
        initialized(**later)
        assert registrations() == before
        assert torch.Tensor.cpu is cpu
        with torch.autocast("cpu", dtype=HALF):
            assert torch.exp(square(HALF)).dtype is HALF

    def test_without_casts_they_are_not_there(self) -> None:
        before = registrations()
        initialized(opt_level="O0", cast_lists="apex")
        initialized(opt_level="O4", enabled=False, cast_lists="apex")
        assert registrations() == before

    def test_the_environment_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AMPIFY_CAST_LISTS", "apex")
        initialized(opt_level="O4")
        assert torch.exp(square(HALF)).dtype is FULL

    def test_the_keyword_goes_before_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AMPIFY_CAST_LISTS", "apex")
        initialized(opt_level="O4", cast_lists="torch")
        assert torch.exp(square(HALF)).dtype is HALF

    def test_unknown_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ValueError, match=r"amp\.initialize: cast_lists is 'apexx'; use \"torch\""):
            initialized(cast_lists="apexx")
        monkeypatch.setenv("AMPIFY_CAST_LISTS", "nvidia")
        with pytest.raises(ValueError, match="the environment variable AMPIFY_CAST_LISTS is 'nvidia'"):
            initialized()
        assert product_dtype() is FULL


def test_printed() -> None:
    command = [sys.executable, "-m", "ampify_runtime", "casts", "--lists", "apex", "--device", "cuda"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("cuda (apex)\n  allow: in float16 or bfloat16\n    addbmm addmm ")
    assert printed.endswith("  banned: refused on reduced precision\n    binary_cross_entropy\n")
    printed = subprocess.run(command[:4], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("cpu (torch)\n")
    assert "\ncuda (torch)\n" in printed
    wrong = subprocess.run([*command[:3], "cast"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
