"""`ampify_runtime.parallel`: apex's data-parallel names, in two real processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from ampify_runtime import amp, parallel
from ampify_runtime.parallel.LARC import LARC
from torch import nn

from .ranks import WORLD, in_two_processes
from .training import X, assert_same, make_mlp, weights_of

# Rows of the ranks' batches: of different sizes, so that an average of averages is not the average.
ROWS = (slice(0, 2), slice(2, 8))


def batch(*shape: int) -> torch.Tensor:
    return torch.randn(8, *shape, generator=torch.Generator().manual_seed(5))


class PartlyUsed(nn.Module):
    """A model with a layer that its forward leaves out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.used, self.unused = nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def grads_of(model: nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in model.parameters()]


def local_grads(rank: int) -> list[torch.Tensor]:
    """What the rank's batch gives without the other."""
    model = make_mlp()
    model(batch(8)[ROWS[rank]]).square().sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "delayed": {"delay_allreduce": True},
    "small buckets": {"message_size": 1, "num_allreduce_streams": 3, "retain_allreduce_buffers": True},
    "in fp32": {"allreduce_always_fp32": True},
    "predivided": {"gradient_predivide_factor": 8.0},
    "summed": {"gradient_average": False},
    "summed, predivided": {"gradient_average": False, "gradient_predivide_factor": 4.0},
}
FACTORS = {"summed": 1.0, "summed, predivided": 0.25}


def distribute(rank: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, options in OPTIONS.items():
        ddp = parallel.DistributedDataParallel(make_mlp(), **options)
        ddp(batch(8)[ROWS[rank]]).square().sum().backward()
        results[name] = grads_of(ddp)

    partly = parallel.DistributedDataParallel(PartlyUsed())
    for _ in range(3):
        partly.zero_grad()
        partly(batch(8)[ROWS[rank]]).square().sum().backward()
    results["unused"] = grads_of(partly)

    ddp = parallel.DistributedDataParallel(make_mlp())
    ddp.disable_allreduce()
    ddp(batch(8)[ROWS[rank]]).square().sum().backward()
    results["alone"] = [grad.clone() for grad in grads_of(ddp) if grad is not None]
    ddp.enable_allreduce()
    ddp(batch(8)[ROWS[rank]]).square().sum().backward()
    results["together"] = grads_of(ddp)
    return results


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return in_two_processes(work, tmp_path_factory.mktemp("ranks"))


def work(rank: int) -> dict[str, Any]:
    """All that is done in two processes: to start them takes longer than any of it."""
    return {function.__name__: function(rank) for function in (distribute, reduce, synchronize, train_converted)}


@pytest.fixture
def distributed(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [results["distribute"] for results in ranks]


class TestDistributedDataParallel:
    @pytest.mark.parametrize("name", OPTIONS)
    def test_gradients(self, name: str, distributed: list[dict[str, Any]]) -> None:
        factor = FACTORS.get(name, 1 / WORLD)
        expected = [(first + second) * factor for first, second in zip(local_grads(0), local_grads(1), strict=True)]
        for results in distributed:
            torch.testing.assert_close(results[name], expected)
        assert_same(distributed[0][name], distributed[1][name])

    def test_parameters_without_gradient(self, distributed: list[dict[str, Any]]) -> None:
        for results in distributed:
            weight, _, *unused = results["unused"]
            assert unused == [None, None]
            assert weight.abs().sum() > 0
        assert_same(distributed[0]["unused"][:2], distributed[1]["unused"][:2])

    def test_without_communication(self, distributed: list[dict[str, Any]]) -> None:
        for rank, results in enumerate(distributed):
            assert_same(results["alone"], local_grads(rank))
        # What has accumulated is averaged with the rest.
        expected = [first + second for first, second in zip(local_grads(0), local_grads(1), strict=True)]
        torch.testing.assert_close(distributed[0]["together"], expected)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"shared_param": True}, "shared_param is no option any more"),
            ({"delay_allreduce": True, "allreduce_trigger_params": []}, "allreduce_trigger_params says when"),
            ({"delay_allreduce": True, "num_allreduce_streams": 2}, "num_allreduce_streams says when"),
        ],
    )
    def test_refusals(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parallel.DistributedDataParallel(make_mlp(), **options)


def reduce(rank: int) -> dict[str, Any]:
    model = make_mlp()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)
    reducer = parallel.Reducer(model)
    started = weights_of(model)
    model(batch(8)[ROWS[rank]]).square().sum().backward()
    reducer.reduce()
    tensors = [torch.full((2,), float(rank)), [torch.full((3,), 4.0 * rank, dtype=torch.float64)]]
    parallel.Reducer(tensors).reduce()
    return {"started": started, "grads": grads_of(model), "tensors": tensors}


def test_reducer(ranks: list[dict[str, Any]]) -> None:
    expected = [(first + second) / WORLD for first, second in zip(local_grads(0), local_grads(1), strict=True)]
    for results in (results["reduce"] for results in ranks):
        assert_same(results["started"], weights_of(make_mlp()))
        torch.testing.assert_close(results["grads"], expected)
        assert_same([results["tensors"][0]], [torch.full((2,), 0.5)])
        assert_same(results["tensors"][1], [torch.full((3,), 2.0, dtype=torch.float64)])


NORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cumulative": {"momentum": None},
    "without parameters": {"affine": False},
    "without running statistics": {"track_running_stats": False},
    "channels last": {"channel_last": True},
    "with a relu": {"fuse_relu": True},
}
SHAPES = {"plain": (4, 3, 3), "channels last": (3, 3, 4)}


def set_parameters(norm: Any) -> None:
    if norm.affine:
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(0.5, 2.0, 4))
            norm.bias.copy_(torch.linspace(-1.0, 1.0, 4))


def normalize(norm: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Output, gradient of the input, gradients of the parameters and running statistics after two batches."""
    set_parameters(norm)
    x = x.clone().requires_grad_()
    for _ in range(2):
        norm.zero_grad()
        x.grad = None
        y = norm(x)
        (y.float() * torch.linspace(-1, 1, y[0].numel()).view(y[0].shape)).square().sum().backward()
    assert x.grad is not None
    norm.eval()
    return [y.detach(), x.grad, norm(x).detach(), *(p.grad for p in norm.parameters()), *norm.buffers()]


def synchronize(rank: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, options in NORMS.items():
        x = batch(*SHAPES.get(name, (4,)))[ROWS[rank]]
        results[name] = normalize(parallel.SyncBatchNorm(4, **options), x)
    results["half"] = normalize(parallel.SyncBatchNorm(4), batch(4)[ROWS[rank]].bfloat16())[:1]

    alone = parallel.create_syncbn_process_group(1)
    both = parallel.create_syncbn_process_group(WORLD)
    x = batch(4)[ROWS[rank]]
    results["group of one"] = parallel.SyncBatchNorm(4, process_group=alone)(x).detach()
    results["group of all"] = parallel.SyncBatchNorm(4, process_group=both)(x).detach()
    assert parallel.create_syncbn_process_group(0) is None
    try:
        parallel.create_syncbn_process_group(3)
    except ValueError as refusal:
        results["refusal"] = str(refusal)
    added = parallel.SyncBatchNorm(4, fuse_relu=True)(x, torch.full((4,), -0.5))
    results["added"] = added.detach()
    return results


@pytest.fixture
def synchronized(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [results["synchronize"] for results in ranks]


class TestSyncBatchNorm:
    @pytest.mark.parametrize("name", NORMS)
    def test_it_is_a_batch_norm_of_the_whole_batch(self, name: str, synchronized: list[dict[str, Any]]) -> None:
        last = name == "channels last"
        x = batch(*SHAPES.get(name, (4,)))
        options = {key: value for key, value in NORMS[name].items() if key not in ("channel_last", "fuse_relu")}
        plain: nn.Module = (nn.BatchNorm2d if x.dim() == 4 else nn.BatchNorm1d)(4, **options)
        expected = normalize(_Laid(plain, last, name == "with a relu"), x)
        first, second = (results[name] for results in synchronized)
        for place in range(3):
            if place == 2 and name == "without running statistics":
                continue
            torch.testing.assert_close(torch.cat([first[place], second[place]]), expected[place])
        parameters = 2 * bool(options.get("affine", True))
        for place in range(3, 3 + parameters):
            torch.testing.assert_close(first[place] + second[place], expected[place])
        for results in (first, second):
            torch.testing.assert_close(results[3 + parameters :], expected[3 + parameters :])

    def test_reduced_precision(self, synchronized: list[dict[str, Any]]) -> None:
        outputs = torch.cat([results["half"][0] for results in synchronized])
        assert outputs.dtype is torch.bfloat16
        norm = nn.BatchNorm1d(4)
        set_parameters(norm)
        torch.testing.assert_close(outputs, norm(batch(4).bfloat16().float()).bfloat16())

    def test_groups(self, synchronized: list[dict[str, Any]]) -> None:
        for rank, results in enumerate(synchronized):
            torch.testing.assert_close(results["group of one"], nn.BatchNorm1d(4)(batch(4)[ROWS[rank]]).detach())
            torch.testing.assert_close(results["group of all"], nn.BatchNorm1d(4)(batch(4)).detach()[ROWS[rank]])
            assert "group_size=3 does not divide the 2 processes" in results["refusal"]

    def test_what_is_added_before_the_relu(self, synchronized: list[dict[str, Any]]) -> None:
        outputs = torch.cat([results["added"] for results in synchronized])
        torch.testing.assert_close(outputs, torch.relu(nn.BatchNorm1d(4)(batch(4)).detach() - 0.5))

    def test_in_one_process_it_is_a_batch_norm(self) -> None:
        expected = normalize(nn.BatchNorm1d(4), batch(4))
        assert_same(normalize(parallel.SyncBatchNorm(4), batch(4)), expected)


class _Laid(nn.Module):
    """A plain batch norm on channels first or last, and a ReLU after it, with the norm's own attributes."""

    def __init__(self, norm: Any, last: bool, relu: bool) -> None:
        super().__init__()
        self.norm, self.last, self.relu = norm, last, relu
        self.affine = norm.affine

    @property
    def weight(self) -> Any:
        return self.norm.weight

    @property
    def bias(self) -> Any:
        return self.norm.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x.movedim(-1, 1)).movedim(1, -1) if self.last else self.norm(x)
        return torch.relu(y) if self.relu else y


def make_conv_net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Sequential(nn.ReLU(), nn.InstanceNorm2d(4)))


def train_converted(rank: int) -> dict[str, Any]:
    model = parallel.convert_syncbn_model(make_conv_net())
    ddp = parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    half = batch(2, 5, 5)[rank * 4 : rank * 4 + 4]
    for _ in range(3):
        optimizer.zero_grad()
        ddp(half).square().mean(dim=0).sum().backward()
        optimizer.step()
    return {"weights": weights_of(model)}


def test_a_converted_model_trains_as_one_process_with_the_whole_batch(ranks: list[dict[str, Any]]) -> None:
    model = make_conv_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch(2, 5, 5)).square().mean(dim=0).sum().backward()
        optimizer.step()
    for results in (results["train_converted"] for results in ranks):
        torch.testing.assert_close(results["weights"], weights_of(model))


class TestConversion:
    def test_parameters_stay_the_optimizer_s(self) -> None:
        model = make_conv_net()
        model[1].momentum = 0.3
        model.eval()
        before = list(model.parameters())
        converted: Any = parallel.convert_syncbn_model(model, channel_last=True)
        assert [id(parameter) for parameter in converted.parameters()] == [id(parameter) for parameter in before]
        assert isinstance(converted[1], parallel.SyncBatchNorm)
        assert (converted[1].momentum, converted[1].channel_last, converted[1].training) == (0.3, True, False)
        assert isinstance(converted[2][1], nn.InstanceNorm2d)

    def test_a_norm_alone(self) -> None:
        assert isinstance(parallel.convert_syncbn_model(nn.BatchNorm1d(3, affine=False)), parallel.SyncBatchNorm)


def larc_by_formula(model: nn.Module, grads: list[torch.Tensor], clip: bool) -> list[torch.Tensor]:
    """A step of SGD with rate 0.5 after LARC with coefficient 0.02 and weight decay 0.1, in float64."""
    stepped = []
    for parameter, given in zip(model.parameters(), grads, strict=True):
        weight, grad = parameter.detach().double(), given.double()
        size, slope = weight.norm(), grad.norm()
        if size > 0 and slope > 0:
            local = 0.02 * size / (slope + size * 0.1 + 1e-8)
            grad = (grad + 0.1 * weight) * (min(local / 0.5, 1.0) if clip else local)
        stepped.append((weight - 0.5 * grad).float())
    return stepped


class TestLARC:
    @pytest.mark.parametrize("clip", [True, False])
    def test_a_step(self, clip: bool) -> None:
        model = make_mlp()
        nn.init.zeros_(model[0].bias)
        optimizer = LARC(torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.1), clip=clip)
        (model(X).square().mean() * 0.1).backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        expected = larc_by_formula(model, grads, clip)
        optimizer.step()
        torch.testing.assert_close([parameter.detach() for parameter in model.parameters()], expected)
        assert optimizer.param_groups[0]["weight_decay"] == 0.1

    def test_groups_and_state_are_the_inner_optimizer_s(self) -> None:
        model = make_mlp()
        inner = torch.optim.Adam(model[0].parameters())
        optimizer = LARC(inner)
        optimizer.add_param_group({"params": model[2].parameters()})
        assert optimizer.param_groups is inner.param_groups
        assert len(inner.param_groups) == 2
        optimizer.step(lambda: model(X).square().mean().backward())
        assert optimizer.state is inner.state
        assert str(optimizer.state_dict()) == str(inner.state_dict())
        optimizer.zero_grad()
        assert model[0].weight.grad is None
        copied = pickle.loads(pickle.dumps(copy.deepcopy(optimizer)))
        assert copied.state_dict().keys() == inner.state_dict().keys()
        copied.step()

    def test_a_scheduler_takes_it(self) -> None:
        optimizer = LARC(torch.optim.SGD(make_mlp().parameters(), lr=1.0))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        optimizer.step()
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] == 0.5

    def test_under_amp(self, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = LARC(torch.optim.SGD(model.parameters(), lr=0.5))
        model, optimizer = amp.initialize(model, optimizer)
        for factor in (1.0, float("inf")):
            before = weights_of(model)
            optimizer.zero_grad()
            with amp.scale_loss(model(X).float().square().mean() * factor, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
            moved = not torch.equal(weights_of(model)[0], before[0])
            assert moved is (factor == 1.0)
        assert amp.loss_scale() == 32768.0


def test_multiproc(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint(*sys.argv[1:])\nsys.exit(3 * (sys.argv[-1] == '1'))\n")
    command = [sys.executable, "-m", "ampify_runtime.parallel.multiproc", str(script), "--world-size", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "--world-size 2 --rank 0\n"
    assert (tmp_path / "GPU_1.log").read_text() == "--world-size 2 --rank 1\n"
    assert done.returncode == 3
