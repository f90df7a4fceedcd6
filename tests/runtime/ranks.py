"""Runs a function in two real processes that talk over the loopback device."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2
Work = Callable[[int], dict[str, Any]]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def in_two_processes(work: Work, folder: Path) -> list[dict[str, Any]]:
    """What `work(rank)` returns in each of two processes with a process group; `work` has to be a module's function."""
    mp.spawn(_run, args=(work, free_port(), str(folder)), nprocs=WORLD, join=True)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]


def _run(rank: int, work: Work, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    try:
        result = work(rank)
        # Neither leaves while the other still talks to it.
        dist.barrier()
    finally:
        dist.destroy_process_group()
    torch.save(result, Path(folder) / f"{rank}.pt")
