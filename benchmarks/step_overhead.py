"""Measures what a training step costs under each opt level, against the same step written by hand with torch.amp.

A small model of many parameters, where whatever is done per step or per parameter shows. All ways are timed in one
run, taking turns, so that a busy machine slows them alike. Run it on an idle one:

    python benchmarks/step_overhead.py [--device cuda] [--layers 100] [--rounds 60]

A ratio is that of a way's time to that of the hand-written step it stands for: autocast in float16 with GradScaler
(O1), autocast in bfloat16 (O4), a float16 or bfloat16 model with fp32 masters stepped by torch's foreach functions
(O2, O5), a float16 model (O3), plain fp32 (O0). The range is that of the middle half of all pairs of steps. The first
line is the control: O1's hand-written step against another one of itself, which shows what of a ratio is noise.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from ampify_runtime import amp
from torch import nn

Step = Callable[[], None]
LEVELS = ("O0", "O1", "O2", "O3", "O4", "O5")
WARM_UP = 5


@dataclass(frozen=True)
class Setting:
    """What all ways train: `layers` linear layers of `width`, on batches of `batch`."""

    device: str
    layers: int
    width: int
    batch: int

    def model(self) -> nn.Module:
        """The same weights on every call."""
        torch.manual_seed(0)
        blocks: list[nn.Module] = []
        for _ in range(self.layers):
            blocks += [nn.Linear(self.width, self.width), nn.Tanh()]
        return nn.Sequential(*blocks).to(self.device)

    def inputs(self) -> torch.Tensor:
        """One batch, shape [batch, width]."""
        return torch.randn(self.batch, self.width, device=self.device, generator=self._generator())

    def _generator(self) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(1)


def ours(setting: Setting, level: str) -> Step:
    """A step as a migrated script has it."""
    model, inputs = setting.model(), setting.inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0, loss_scale=1.0 if level == "O3" else None)

    def step() -> None:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

    return step


def autocast_by_hand(setting: Setting, dtype: torch.dtype | None, scaled: bool) -> Step:
    """A step with `torch.autocast`, and GradScaler if `scaled`; `dtype` None: plain fp32."""
    model, inputs = setting.model(), setting.inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    scaler = torch.amp.GradScaler(setting.device, enabled=scaled)

    def region() -> Any:
        return torch.autocast(setting.device, dtype=dtype) if dtype else contextlib.nullcontext()

    def step() -> None:
        optimizer.zero_grad()
        with region():
            loss = model(inputs).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def masters_by_hand(setting: Setting, dtype: torch.dtype, scale: float | None) -> Step:
    """A step of a reduced model with fp32 masters; `scale` None: no masters. One check for overflow, if scaled."""
    model, inputs = setting.model(), setting.inputs().to(dtype)
    parameters = list(model.parameters())
    masters = [p.detach().clone() for p in parameters]
    model.to(dtype)
    optimizer = torch.optim.SGD(parameters if scale is None else masters, lr=1e-4, momentum=0.9)
    inverse = torch.tensor(1.0 / (scale or 1.0), device=setting.device)

    @torch.no_grad()
    def step_masters() -> None:
        grads = [torch.empty_like(master) for master in masters]
        for master, grad in zip(masters, grads, strict=True):
            master.grad = grad
        torch._foreach_copy_(grads, [p.grad for p in parameters if p.grad is not None])
        if scale != 1.0:
            found = torch.zeros((), device=setting.device)
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
            if found.item():
                return
        optimizer.step()
        torch._foreach_copy_([p.detach() for p in parameters], masters)

    def step() -> None:
        model.zero_grad()
        loss = model(inputs).float().square().mean()
        (loss * (scale or 1.0)).backward()
        if scale is None:
            optimizer.step()
        else:
            step_masters()

    return step


def by_hand(setting: Setting, level: str) -> Step:
    """The hand-written step that `level` stands for."""
    half, brain = torch.float16, torch.bfloat16
    ways: dict[str, Callable[[], Step]] = {
        "O0": lambda: autocast_by_hand(setting, None, False),
        "O1": lambda: autocast_by_hand(setting, half, True),
        "O2": lambda: masters_by_hand(setting, half, 65536.0),
        "O3": lambda: masters_by_hand(setting, half, None),
        "O4": lambda: autocast_by_hand(setting, brain, False),
        "O5": lambda: masters_by_hand(setting, brain, 1.0),
    }
    return ways[level]()


def seconds(step: Step, device: str) -> float:
    """How long one step takes, the device's work included; on the CPU, what this process computes of it."""
    if device == "cpu":
        # Others on the machine do not count.
        start = time.process_time()
        step()
        return time.process_time() - start
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(setting: Setting, mine: Step, theirs: Step, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds a step, of both ways, taking turns and changing who is first."""
    times: tuple[list[float], list[float]] = ([], [])
    for index in range(rounds + WARM_UP):
        for which in (0, 1) if index % 2 else (1, 0):
            # Not to be cast by what a thread that trains with amp casts.
            with amp.disable_casts() if which else contextlib.nullcontext():
                took = seconds(theirs if which else mine, setting.device)
            if index >= WARM_UP:
                times[which].append(took)
    return times


def describe(level: str, mine: list[float], theirs: list[float]) -> str:
    """A line of the table."""
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    quarter, _, three_quarters = statistics.quantiles(ratios, n=4)
    return (
        f"{level:4} {min(mine) * 1e3:8.3f} {min(theirs) * 1e3:8.3f} {min(mine) / min(theirs):6.3f}   "
        f"{statistics.median(mine) * 1e3:8.3f} {statistics.median(theirs) * 1e3:8.3f} {statistics.median(ratios):6.3f}"
        f"   {quarter:.3f} to {three_quarters:.3f}"
    )


def main() -> None:
    """Print a table: milliseconds and ratios, of the fastest step and of the median, and the ratios' range."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--levels", nargs="+", default=list(LEVELS), choices=LEVELS)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    setting = Setting(given.device, given.layers, given.width, given.batch)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ["AMPIFY_DTYPE"] = "float16"
    print(
        f"{given.layers} layers, {2 * given.layers} parameters, {given.device}; "
        f"milliseconds a step, {given.rounds} rounds"
    )
    print("          ours  by hand  ratio       ours  by hand  ratio")
    print("                minimum                     median             range")
    # Before amp is initialized, from where on this thread casts.
    control = by_hand(setting, "O1"), by_hand(setting, "O1")
    print(describe("same", *measure(setting, *control, given.rounds)), flush=True)
    for level in given.levels:
        theirs = by_hand(setting, level)
        print(describe(level, *measure(setting, ours(setting, level), theirs, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
