"""Models whose weights are cast (O2, O3, O5): which are, which stay, what goes in and out, what cannot be cast."""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from ampify_runtime.optimizers import FusedAdam
from torch import nn
from torch.nn.parallel import DataParallel
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence

from .training import X, make_mlp

DTYPES = {"O2": torch.float16, "O3": torch.float16, "O5": torch.bfloat16}


def start(model: nn.Module, level: str, **keywords: Any) -> torch.optim.Optimizer:
    parameters = list(model.parameters()) or [nn.Parameter(torch.zeros(1))]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0, **keywords)
    return optimizer


@pytest.mark.parametrize("level", sorted(DTYPES))
def test_parameters_and_buffers_are_cast_in_place(level: str) -> None:
    model = make_mlp()
    model.register_buffer("table", torch.linspace(0, 1, 4))
    model.register_buffer("index", torch.arange(4))
    before = list(model.parameters())
    start(model, level)
    assert all(p is old for p, old in zip(model.parameters(), before, strict=True))
    assert {p.dtype for p in model.parameters()} == {DTYPES[level]}
    assert (model.table.dtype, model.index.dtype) == (DTYPES[level], torch.int64)
    assert model(X).dtype is torch.float32


class MyRMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype is self.weight.dtype is torch.float32
        return self.weight * x * x.square().mean(-1, keepdim=True).rsqrt()


NORMS: dict[str, Any] = {
    "batch": lambda: nn.BatchNorm1d(6),
    "batch without weights": lambda: nn.BatchNorm1d(6, affine=False),
    "instance": lambda: nn.InstanceNorm1d(6, affine=True, track_running_stats=True),
    "layer": lambda: nn.LayerNorm(6),
    "group": lambda: nn.GroupNorm(2, 6),
    "rms": lambda: nn.RMSNorm(6),
    "sync": lambda: nn.SyncBatchNorm(6),
    "of a library": MyRMSNorm,
}


@pytest.mark.parametrize("name", sorted(NORMS))
@pytest.mark.parametrize("level", ["O2", "O5"])
def test_norms_of_every_kind_stay_in_fp32(name: str, level: str) -> None:
    """Their statistics too: an input of 300 has a square that float16 does not hold."""
    torch.manual_seed(0)
    norm = NORMS[name]()
    model = nn.Sequential(nn.Linear(6, 6), norm)
    dtypes = []
    norm.register_forward_hook(lambda module, args, output: dtypes.append(output.dtype))
    start(model, level)
    assert {t.dtype for t in (*norm.parameters(), *norm.buffers()) if t.is_floating_point()} <= {torch.float32}
    if name != "sync":
        x = torch.full((4, 6, 6) if name == "instance" else (4, 6), 300.0) + torch.randn(6)
        out = model(x)
        assert out.isfinite().all()
        out.sum().backward()
        assert dtypes == [DTYPES[level]]
        assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in norm.parameters())


def test_a_norm_given_fp32_answers_in_fp32() -> None:
    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.dtype is torch.float16
            out = self.norm(x.float())
            assert out.dtype is torch.float32
            return out

    model = Careful()
    start(model, "O2")
    model(X)


@pytest.mark.parametrize(
    ("level", "keywords", "kept"),
    [
        ("O2", {"keep_batchnorm_fp32": "False"}, False),
        ("O3", {}, False),
        ("O3", {"keep_batchnorm_fp32": "True"}, True),
        ("O5", {"keep_batchnorm_fp32": False}, False),
    ],
)
def test_norms_are_kept_or_not_as_asked(level: str, keywords: dict[str, Any], kept: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.LayerNorm(8))
    start(model, level, **keywords)
    expected = torch.float32 if kept else DTYPES[level]
    assert [module.weight.dtype for module in model] == [DTYPES[level], expected, expected]
    assert model(X).dtype is torch.float32


@pytest.mark.parametrize(
    ("level", "keywords", "weights", "outputs", "masters"),
    [
        ("O2", {"cast_model_type": "bfloat16"}, torch.bfloat16, torch.float32, True),
        ("O2", {"cast_model_outputs": torch.float16}, torch.float16, torch.float16, True),
        ("O2", {"master_weights": "False"}, torch.float16, torch.float32, False),
        ("O3", {"master_weights": True, "loss_scale": "128.0"}, torch.float16, torch.float32, True),
        ("O5", {"cast_model_outputs": "torch.bfloat16"}, torch.bfloat16, torch.bfloat16, True),
        ("O0", {"cast_model_outputs": "float16"}, torch.float32, torch.float16, False),
        ("O4", {"cast_model_outputs": "float32"}, torch.float32, torch.float32, False),
        ("O0", {"cast_model_type": "float32", "master_weights": True}, torch.float32, torch.float32, False),
    ],
)
def test_choices_override_the_level(
    level: str, keywords: dict[str, Any], weights: torch.dtype, outputs: torch.dtype, masters: bool
) -> None:
    model = make_mlp()
    optimizer = start(model, level, **keywords)
    assert model[0].weight.dtype is weights
    assert model(X).dtype is outputs
    assert (optimizer.param_groups[0]["params"][0] is not model[0].weight) == masters


def test_the_environment_chooses_another_type(bfloat16: torch.dtype) -> None:
    model = make_mlp()
    start(model, "O2")
    assert model[0].weight.dtype is bfloat16
    assert amp.loss_scale() == 1.0


class Output(OrderedDict[str, Any]):
    """A dict with more to it, as model outputs of libraries are."""

    def __init__(self, *args: Any, note: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.note = note


Pair = namedtuple("Pair", ["left", "right"])


class Strict(Pair):
    def __new__(cls, left: Any) -> Strict:
        return super().__new__(cls, left, "right")


@dataclasses.dataclass(frozen=True)
class Frozen:
    tensor: torch.Tensor
    name: str


class Movable:
    """An object of a script that moves itself to devices."""

    def __init__(self, values: torch.Tensor, index: torch.Tensor) -> None:
        self.values, self.index = values, index

    def to(self, device: str) -> Movable:
        return Movable(self.values.to(device), self.index.to(device))


def containers(t: torch.Tensor) -> list[Any]:
    return [
        [t, [t]],
        (t, "text", 3, None),
        {"a": t, "b": {"c": t}},
        OrderedDict(a=t),
        defaultdict(list, a=[t]),
        Output(a=t, note="kept"),
        Pair(t, "x"),
        Strict(t),
        Frozen(t, "name"),
        Movable(t, torch.arange(3)),
        torch.max(t, dim=1),
        pack_sequence([t]),
    ]


def floats_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        return [t for item in value.values() for t in floats_in(item)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in floats_in(item)]
    if isinstance(value, (Frozen, Movable)):
        return floats_in(vars(value))
    return []


class Echo(nn.Module):
    """Hands on what it gets, and keeps it."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.seen = (args, kwargs)
        return args[0]


@pytest.mark.parametrize("index", range(12))
def test_inputs_and_outputs_are_cast_in_whatever_holds_them(index: int) -> None:
    model = Echo()
    start(model, "O5")
    given = containers(X)[index]
    out = model(given, again=given)
    (seen,), keywords = model.seen
    for value, dtype in ((seen, torch.bfloat16), (keywords["again"], torch.bfloat16), (out, torch.float32)):
        assert type(value) is type(given)
        tensors = floats_in(value)
        assert tensors
        assert {t.dtype for t in tensors} == {dtype}
    assert {t.dtype for t in floats_in(given)} == {torch.float32}
    if isinstance(given, Output):
        assert out.note == "kept"
    if isinstance(given, defaultdict):
        assert out.default_factory is list
    if isinstance(given, Strict):
        assert out.right == "right"
    if isinstance(given, Frozen):
        assert out.name == "name"
    if isinstance(given, Movable):
        assert out.index.dtype is torch.int64
    if isinstance(given, PackedSequence):
        assert torch.equal(pad_packed_sequence(out)[0].squeeze(1), X.bfloat16().float())


def test_what_holds_no_floats_is_handed_on_as_it_is() -> None:
    model = Echo()
    start(model, "O2")
    for given in (
        [torch.arange(3), "a"],
        {"a": torch.tensor([True])},
        Pair(1, 2),
        "text",
        torch.ones(2, dtype=torch.complex64),
    ):
        assert model(given) is given


def test_a_model_inside_of_a_model_is_cast_once() -> None:
    outer = nn.Sequential(make_mlp(), nn.Linear(3, 3))
    optimizer = torch.optim.SGD(outer.parameters(), lr=0.1)
    amp.initialize([outer, outer[0]], optimizer, opt_level="O2", verbosity=0)
    assert outer(X).dtype is torch.float32
    assert outer[0](X).dtype is torch.float32


def test_a_forward_that_raises_is_tidied_up_after() -> None:
    model = make_mlp()
    start(model, "O2")
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        model(torch.ones(2, 7))
    assert model(X).dtype is torch.float32


def test_values_that_float16_does_not_hold_are_warned_of() -> None:
    model = make_mlp()
    model.register_buffer("mask", torch.full((2,), -1e9))
    with pytest.warns(amp.AmpWarning, match=r"mask has values beyond float16's 65504.*O5"):
        start(model, "O2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(nn.Sequential(make_mlp()), "O5")


class TestRefusals:
    @pytest.mark.parametrize("level", sorted(DTYPES))
    def test_a_wrapped_model(self, level: str) -> None:
        model = DataParallel(make_mlp())
        with pytest.raises(
            ValueError, match=r"the model is in DataParallel already.*call amp\.initialize first and wrap"
        ):
            start(model, level)
        assert model.module[0].weight.dtype is torch.float32

    def test_a_wrapped_part(self) -> None:
        with pytest.raises(ValueError, match="0 is in DataParallel already"):
            start(nn.Sequential(DataParallel(make_mlp())), "O2")

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_scripted_model(self) -> None:
        with pytest.raises(ValueError, match=r"the model is scripted.*use O1 or O4"):
            start(torch.jit.script(make_mlp()), "O2")

    @pytest.mark.filterwarnings("ignore:Lazy modules")
    def test_a_lazy_model(self) -> None:
        model = nn.LazyLinear(3)
        with pytest.raises(ValueError, match="weight has no shape yet"):
            amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level="O2")


@pytest.mark.parametrize("level", ["O0", "O1", "O4"])
def test_another_level_later_puts_fp32_back(level: str, bfloat16: torch.dtype) -> None:
    model = make_mlp()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = start(model, "O2")
    with pytest.warns(amp.AmpWarning, match=f"at opt level O2; from now on it is at {level}"):
        amp.initialize(model, optimizer, opt_level=level)
    assert all(p is q for p, q in zip(model.parameters(), optimizer.param_groups[0]["params"], strict=True))
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    assert model(X).dtype is (torch.float32 if level == "O0" else bfloat16)
    assert "zero_grad" not in vars(optimizer)
    assert not vars(model[0].weight)
    assert not model[0]._state_dict_hooks


def test_the_same_again_changes_nothing() -> None:
    model = make_mlp()
    optimizer = start(model, "O2")
    masters = list(optimizer.param_groups[0]["params"])
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    assert all(p is q for p, q in zip(optimizer.param_groups[0]["params"], masters, strict=True))
    assert len(model._forward_pre_hooks) == len(model._state_dict_hooks) == 1


@pytest.mark.parametrize("foreach", [True, False])
def test_state_of_an_optimizer_that_stepped_before_is_cast_with_weights_that_have_no_masters(foreach: bool) -> None:
    model = make_mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True, foreach=foreach)
    model(X).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = {p: {name: value.clone() for name, value in state.items()} for p, state in optimizer.state.items()}
    amp.initialize(model, optimizer, opt_level="O3", verbosity=0)
    for parameter, state in optimizer.state.items():
        assert state["step"].dtype is torch.float32
        for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            assert torch.equal(state[name], before[parameter][name].half())
    weights = [p.detach().clone() for p in model.parameters()]
    with amp.scale_loss(model(X).sum(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    assert all(not torch.equal(p, old) for p, old in zip(model.parameters(), weights, strict=True))
    assert {float(state["step"]) for state in optimizer.state.values()} == {2.0}


def test_fused_optimizers_keep_their_state_wide() -> None:
    model = make_mlp()
    optimizer = FusedAdam(model.parameters(), lr=0.01)
    model(X).sum().backward()
    optimizer.step()
    amp.initialize(model, optimizer, opt_level="O3", verbosity=0)
    assert {state["exp_avg"].dtype for state in optimizer.state.values()} == {torch.float32}
