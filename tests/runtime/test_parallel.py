"""Parallel wraps: DataParallel, and DistributedDataParallel in two real processes, wrapped before or after initialize."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .training import assert_same, make_batches, make_mlp, weights_of

STEPS = 6
OVERFLOW_AT = 2


@pytest.mark.parametrize("wrap_first", [True, False])
@pytest.mark.parametrize("level", ["O0", "O1", "O4"])
def test_data_parallel(wrap_first: bool, level: str, bfloat16: torch.dtype) -> None:
    def train(ours: bool) -> list[torch.Tensor]:
        inner = make_mlp()
        model: nn.Module = DataParallel(inner) if wrap_first else inner
        optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
        if ours:
            assert amp.initialize(model, optimizer, opt_level=level)[0] is model
        model = model if wrap_first else DataParallel(model)
        trace = []
        for inputs, target in make_batches(STEPS, 8):
            optimizer.zero_grad()
            if ours:
                loss = F.cross_entropy(model(inputs), target)
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
            else:
                with torch.autocast("cpu", dtype=bfloat16, enabled=level != "O0"):
                    loss = F.cross_entropy(model(inputs), target)
                loss.backward()
            optimizer.step()
            trace.append(loss.detach())
        return [*trace, *weights_of(inner)]

    theirs = train(ours=False)
    assert_same(train(ours=True), theirs)


def test_replicas_in_threads_cast_to_the_policy_s_type() -> None:
    """What DataParallel does on several GPUs: replicas share the hooks, and threads know of no type but the default."""
    wrapped = DataParallel(make_mlp())
    amp.initialize(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), opt_level="O4")
    torch.set_autocast_dtype("cpu", torch.float16)
    replica = wrapped.module._replicate_for_data_parallel()
    dtypes = []

    def run() -> None:
        torch.set_autocast_dtype("cpu", torch.float16)
        with torch.autocast("cpu", enabled=True):
            dtypes.append(replica(torch.ones(1, 8)).dtype)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert dtypes == [torch.bfloat16]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass(frozen=True)
class Case:
    dtype: str
    wrap_first: bool
    accumulate: bool


CASES = (Case("float16", False, True), Case("float16", True, False), Case("bfloat16", True, True))


def run_rank(rank: int, port: int, folder: str) -> None:
    """One process of two: goes through all cases, and leaves what each ends with in a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        results = [train_rank(rank, case) for case in CASES]
    finally:
        dist.destroy_process_group()
    torch.save(results, Path(folder) / f"{rank}.pt")


def train_rank(rank: int, case: Case) -> dict[str, Any]:
    """Train on this rank's half of the data."""
    os.environ.update(AMPIFY_DTYPE=case.dtype)
    model: nn.Module = make_mlp()
    model = DistributedDataParallel(model) if case.wrap_first else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    amp.initialize(model, optimizer, verbosity=0)
    ddp = model if isinstance(model, DistributedDataParallel) else DistributedDataParallel(model)
    for step, (inputs, target) in enumerate(make_batches(STEPS, 8)):
        optimizer.zero_grad()
        if case.accumulate:
            with ddp.no_sync():
                backward(ddp, optimizer, inputs[rank::2], target[rank::2], overflow=False)
        # Only one of the two overflows: both have to skip.
        overflow = case.dtype == "float16" and step == OVERFLOW_AT and rank == 1
        backward(ddp, optimizer, inputs[rank::2], target[rank::2], overflow)
        optimizer.step()
    grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return {"weights": weights_of(model), "grads": grads, "scale": amp.loss_scale()}


def backward(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, target: torch.Tensor, overflow: bool
) -> None:
    loss = F.cross_entropy(model(inputs), target)
    with amp.scale_loss(loss * float("inf") if overflow else loss, optimizer) as scaled_loss:
        scaled_loss.backward()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(run_rank, args=(free_port(), str(folder)), nprocs=2, join=True)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_ranks_agree(index: int, ranks: list[list[dict[str, Any]]]) -> None:
    first, second = (results[index] for results in ranks)
    assert_same(first["weights"], second["weights"])
    assert_same(first["grads"], second["grads"])
    assert first["scale"] == second["scale"]
    assert first["scale"] <= 32768.0 if CASES[index].dtype == "float16" else first["scale"] == 1.0
    assert all(torch.isfinite(weight).all() for weight in first["weights"])
    assert not torch.equal(first["weights"][0], weights_of(make_mlp())[0])


@pytest.fixture
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def shard_by_wrapping(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, device_id=torch.device("cpu"))


def shard_in_place(model: nn.Module) -> nn.Module:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this torch has no fully_shard")
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    fsdp.fully_shard(model, mesh=mesh)
    return model


@pytest.mark.filterwarnings("ignore")
def test_a_model_sharded_by_wrapping_is_refused_under_scaling(process_group: None, float16: torch.dtype) -> None:
    model = shard_by_wrapping(make_mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"is in FullyShardedDataParallel.*fully_shard.*opt_level=\"O4\""):
        amp.initialize(model, optimizer)
    amp.initialize(model, optimizer, opt_level="O4")
    assert model(torch.ones(1, 8)).dtype is torch.bfloat16


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["O2", "O3", "O5"])
def test_sharded_models_are_refused_where_weights_are_cast(level: str, process_group: None) -> None:
    model = shard_in_place(make_mlp())
    with pytest.raises(ValueError, match=r"0\.weight is sharded \(DTensor\).*use O1 or O4"):
        amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level=level)
