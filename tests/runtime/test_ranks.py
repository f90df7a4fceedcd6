"""Two real processes at every opt level: same weights, same gradients, same scales, and steps skipped together."""

from __future__ import annotations

import os
import socket
import warnings
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
from torch.nn.parallel import DistributedDataParallel

from .training import assert_same, make_batches, weights_of

STEPS = 5
OVERFLOW_AT = 2


@dataclass(frozen=True)
class Case:
    level: str
    dtype: str = "float16"
    # How gradients come together: by DDP in each backward, in the last of two, never; by the script; by shards.
    how: str = "ddp"
    scales: bool = True
    losses: int = 1


CASES = (
    Case("O0", scales=False),
    Case("O1"),
    Case("O2"),
    Case("O3"),
    Case("O4", scales=False),
    Case("O5", scales=False),
    Case("O1", how="accumulate"),
    Case("O2", how="accumulate"),
    Case("O5", how="accumulate", scales=False),
    Case("O1", how="accumulate", losses=2),
    Case("O1", how="never"),
    Case("O2", how="never"),
    Case("O1", how="by hand"),
    Case("O2", how="by hand"),
    Case("O1", how="shards"),
    Case("O4", how="shards", scales=False),
)


class Net(nn.Module):
    """With a norm, so that O2 has parameters of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.norm(self.first(x))))


def run_rank(rank: int, port: int, folder: str) -> None:
    """One process of two: goes through all cases, and leaves what each ends with in a file."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        results = [train_rank(rank, case) for case in CASES]
    finally:
        dist.destroy_process_group()
    torch.save(results, Path(folder) / f"{rank}.pt")


def start(rank: int, case: Case) -> tuple[nn.Module, Any, torch.optim.Optimizer]:
    # DDP makes the weights alike; nothing does for gradients that are summed by hand, or not at all.
    torch.manual_seed(rank if case.how in ("ddp", "accumulate") else 7)
    model: nn.Module = Net()
    if case.how == "shards":
        dist.fsdp.fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    keywords: dict[str, Any] = {"loss_scale": "dynamic"} if case.level == "O3" else {}
    amp.initialize(model, optimizer, opt_level=case.level, num_losses=case.losses, verbosity=0, **keywords)
    wrapped = case.how in ("ddp", "accumulate", "never")
    return model, DistributedDataParallel(model) if wrapped else model, optimizer


def train_rank(rank: int, case: Case) -> dict[str, Any]:
    """Train on this rank's half of the data; the second rank alone overflows once."""
    os.environ.update(AMPIFY_DTYPE=case.dtype)
    amp_state_of_before()
    model, ddp, optimizer = start(rank, case)
    skipped = []
    for step, (inputs, target) in enumerate(make_batches(STEPS, 8)):
        overflow = case.scales and rank == 1 and step == OVERFLOW_AT
        mine = inputs[rank::2], target[rank::2]
        optimizer.zero_grad()
        if case.how in ("accumulate", "never"):
            with ddp.no_sync():
                backward(ddp, optimizer, mine, overflow, 0)
        if case.how != "never":
            backward(ddp, optimizer, mine, overflow and case.how != "accumulate", case.losses - 1)
        if case.how == "by hand":
            for p in model.parameters():
                dist.all_reduce(p.grad)
        before = whole(model)
        optimizer.step()
        skipped.append(all(torch.equal(a, b) for a, b in zip(before, whole(model), strict=True)))
    grads = [p.grad.clone() for p in amp.master_params(optimizer)] if case.how not in ("never", "shards") else []
    return {
        "weights": whole(model),
        "grads": grads,
        "skipped": skipped,
        "scales": [amp.loss_scale(i) for i in range(case.losses)],
    }


def amp_state_of_before() -> None:
    """Each case starts as a process of its own would."""
    from ampify_runtime._core import ambient, enrolment, scalers

    ambient.withdraw()
    enrolment.forget_enrolments()
    scalers.forget_scalers()


def whole(model: nn.Module) -> list[torch.Tensor]:
    values = model.state_dict().values()
    return [(value.full_tensor() if hasattr(value, "full_tensor") else value).detach().clone() for value in values]


def backward(model: Any, optimizer: torch.optim.Optimizer, batch: Any, overflow: bool, loss_id: int) -> None:
    loss = F.cross_entropy(model(batch[0]).float(), batch[1])
    with amp.scale_loss(loss * float("inf") if overflow else loss, optimizer, loss_id=loss_id) as scaled_loss:
        scaled_loss.backward()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    mp.spawn(run_rank, args=(port, str(folder)), nprocs=2, join=True)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{c.level} {c.how} {c.losses}" for c in CASES])
def test_ranks_agree(index: int, ranks: list[list[dict[str, Any]]]) -> None:
    case = CASES[index]
    first, second = (results[index] for results in ranks)
    assert first["scales"] == second["scales"]
    assert first["skipped"] == second["skipped"]
    assert first["skipped"][OVERFLOW_AT] == case.scales
    assert not all(first["skipped"])
    assert all(torch.isfinite(weight).all() for weight in first["weights"])
    if case.how != "never":
        assert_same(first["weights"], second["weights"])
    if first["grads"]:
        assert_same(first["grads"], second["grads"])
    if case.losses == 2:
        # Only the first loss overflowed, and only on one rank.
        assert first["scales"][0] < first["scales"][1] or first["scales"] == [32768.0, 32768.0]


def test_different_seeds_start_alike(ranks: list[list[dict[str, Any]]]) -> None:
    torch.manual_seed(1)
    assert not torch.equal(Net().first.weight, weights_of(Net())[0])
    assert_same(ranks[0][2]["weights"], ranks[1][2]["weights"])
