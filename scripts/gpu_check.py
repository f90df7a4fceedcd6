"""Checks the CUDA kernels on a GPU and measures them, in under 5 minutes: values, graphs, a training, bytes per second.

    python scripts/gpu_check.py                  on a machine with an NVIDIA GPU; standard library and torch only
    python scripts/gpu_check.py --parameters N   with fewer parameters than 1e9, for a small card
    python scripts/gpu_check.py --rehearse DIR   without a GPU: the same steps, small, on kernels that g++ builds in DIR

Exit status: 0 if every check passed, 1 if one did not, 2 if there is nothing to check on. A short table comes last.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "runtime"), str(ROOT / "benchmarks")]

import torch
from ampify_runtime import amp
from ampify_runtime.kernels import diagnosis, operations, reference
from ampify_runtime.kernels.state import GradStats, ScaleUpdate, StepState
from ampify_runtime.optimizers import FusedAdam
from optimizer_bytes import STEPS, bytes_of_step
from torch import Tensor, nn

BETAS, EPSILON, DECAY, MAX_NORM = (0.9, 0.999), 1e-6, 0.01, 1.0
TENSORS = 600
REPEATS = 10


@dataclass(frozen=True)
class Machine:
    """Where the checks run; a rehearsal is small, and its times mean nothing."""

    device: torch.device
    rehearsal: bool

    def wait(self) -> None:
        if not self.rehearsal:
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object]) -> float:
        """The time of one call of `work` on the device, once it is warm."""
        for _ in range(3):
            work()
        self.wait()
        start = time.perf_counter()
        repeats = 1 if self.rehearsal else REPEATS
        for _ in range(repeats):
            work()
        self.wait()
        return (time.perf_counter() - start) / repeats


@dataclass(frozen=True)
class Row:
    """A line of the table: what was checked, whether it is right, and what was seen. `timed`: right if fast enough."""

    name: str
    passed: bool
    seen: str
    timed: bool = False


@dataclass
class Model:
    """Parameters in training, in float16 with float32 masters and state."""

    grads: list[Tensor]
    masters: list[Tensor]
    states: list[list[Tensor]]
    halves: list[Tensor]
    norms: Tensor
    state: StepState
    step: Tensor
    scale: Tensor
    tracker: Tensor

    @classmethod
    def of(cls, sizes: list[int], device: torch.device, half: torch.dtype, states: int, seed: int = 0) -> Model:
        torch.manual_seed(seed)
        masters = [torch.randn(size, device=device) for size in sizes]
        return cls(
            grads=[torch.randn(size, device=device).mul_(64.0).to(half) for size in sizes],
            masters=masters,
            states=[[torch.full_like(master, 0.1) for master in masters] for _ in range(states)],
            halves=[master.to(half) for master in masters],
            norms=torch.ones(len(sizes), device=device),
            state=StepState.on(device),
            step=torch.zeros((), dtype=torch.int32, device=device),
            scale=torch.full((), 64.0, device=device),
            tracker=torch.zeros((), dtype=torch.int32, device=device),
        )


def update(name: str, model: Model, stats: Any, by: Any, *, copies: bool = True) -> None:
    """One optimizer's update by the functions of `by`."""
    halves = {"model_params": model.halves if copies else None, "weight_decay": DECAY}
    lists = (model.grads, model.masters, *model.states)
    adaptive = {"betas": BETAS, "eps": EPSILON}
    if name.startswith("Adam"):
        by.adam(*lists, model.state, decoupled=True, **adaptive, **halves)
    elif name.startswith("SGD"):
        modes = {"dampening": 0.0, "nesterov": False, "wd_after_momentum": False, "first_run": None}
        by.sgd(*lists, model.state, momentum=0.9, **modes, **halves)
    elif name == "Adagrad":
        by.adagrad(*lists, model.state, eps=EPSILON, decoupled=False, **halves)
    elif name == "NovoGrad":
        modes = {"grad_averaging": True, "decay_in_moment": False, "max_norm_kind": False, "first_run": False}
        by.novograd(*lists, model.norms, model.state, stats.sums.sqrt(), **adaptive, **modes, **halves)
    else:
        modes = {"decoupled": True, "grad_averaging": True, "use_nvlamb": False}
        by.lamb(*lists, model.state, **adaptive, **modes, **halves)


def states_of(name: str) -> int:
    """How many lists of state an optimizer keeps."""
    return 2 if name == "LAMB" or name.startswith("Adam") else 1


def whole_step(name: str, model: Model) -> None:
    """A step as the optimizers take it: check, decide with the clip, update. Nothing waits for the device."""
    stats = operations.grad_stats(model.grads)
    operations.step_prep(
        model.state,
        stats,
        lr=1e-3,
        step=model.step,
        betas=BETAS,
        bias_correction=True,
        scale=model.scale,
        max_norm=MAX_NORM,
        scale_update=ScaleUpdate(model.tracker),
    )
    update(name, model, stats, operations)


def check_values(machine: Machine) -> Iterator[Row]:
    """Each optimizer and half type against float64 on the same device, three steps, the second with an overflow."""
    sizes = [1, 0, 7, 8, 2049, 300, 16389] + ([] if machine.rehearsal else [1_000_003])
    for name in STEPS:
        worst, exact = 0.0, True
        for half in (torch.float16, torch.bfloat16):
            model = Model.of(sizes, machine.device, half, states_of(name))
            for number in range(3):
                error, right = _checked_step(name, model, overflow=number == 1)
                worst, exact = max(worst, error), exact and right
        yield Row(
            f"values: {name}", exact and worst < 2e-5, f"largest error {worst:.1e}, copies and skip exact: {exact}"
        )


def _checked_step(name: str, model: Model, *, overflow: bool) -> tuple[float, bool]:
    for number, grad in enumerate(model.grads):
        torch.manual_seed(number)
        grad.copy_(torch.randn_like(grad) * 64.0)
    if overflow:
        model.grads[-1][-1] = float("inf")
    before = [master.clone() for master in model.masters]
    wide = replace(
        model,
        grads=[grad.double() for grad in model.grads],
        masters=[master.double() for master in model.masters],
        states=[[tensor.double() for tensor in kept] for kept in model.states],
        norms=model.norms.double(),
    )
    whole_step(name, model)
    if overflow:
        return 0.0, all(map(torch.equal, model.masters, before)) and bool(model.state.skip)
    sums = torch.stack([grad.square().sum() for grad in wide.grads])
    update(name, wide, GradStats(sums, model.state.skip), reference, copies=False)
    pairs = [*zip(model.masters, wide.masters, strict=True)]
    error = max(float((one.double() - other).abs().max()) for one, other in pairs if one.numel())
    return error, all(
        torch.equal(half, master.to(half.dtype)) for half, master in zip(model.halves, model.masters, strict=True)
    )


def check_capture(machine: Machine) -> Iterator[Row]:
    """A step captured in a CUDA graph and replayed does what the same steps do one by one."""
    if machine.rehearsal:
        yield Row("graph capture", True, "not rehearsed: there is no graph without a GPU")
        return
    for name in STEPS:
        captured, plain = (
            Model.of([5, 4096, 70_001], machine.device, torch.float16, states_of(name)) for _ in range(2)
        )
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            whole_step(name, captured)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            whole_step(name, captured)
        for _ in range(3):
            graph.replay()
        for _ in range(4):
            whole_step(name, plain)
        same = all(map(torch.equal, captured.masters, plain.masters)) and int(captured.step) == 4
        yield Row(f"graph capture: {name}", same, f"equal bit for bit after 3 replays: {same}")


class Transformer(nn.Module):
    """A small language model over 64 symbols."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 64)

    def forward(self, symbols: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(self.embed(symbols)))
        return logits


def check_training(machine: Machine) -> Iterator[Row]:
    """O2 with FusedAdam learns as float32 with torch's AdamW does."""
    steps = 5 if machine.rehearsal else 200
    torch.manual_seed(0)
    symbols = torch.randint(0, 64, (16, 32), device=machine.device)
    losses = {}
    for kind in ("float32", "O2"):
        torch.manual_seed(1)
        model = Transformer().to(machine.device)
        if kind == "O2":
            made: Any = FusedAdam(model.parameters(), lr=1e-3)
            model, optimizer = amp.initialize(model, made, opt_level="O2", verbosity=0)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
        losses[kind] = [_training_step(model, optimizer, symbols, scaled=kind == "O2") for _ in range(steps)]
    first, last = losses["O2"][0], losses["O2"][-1]
    apart = abs(last - losses["float32"][-1])
    passed = last < first and apart < max(0.1, 0.1 * losses["float32"][-1])
    yield Row(
        "training: O2, FusedAdam",
        passed,
        f"loss {first:.3f} to {last:.3f} in {steps} steps, float32 {losses['float32'][-1]:.3f}",
    )


def _training_step(model: nn.Module, optimizer: Any, symbols: Tensor, *, scaled: bool) -> float:
    optimizer.zero_grad()
    logits = model(symbols).float()
    loss = nn.functional.cross_entropy(logits.reshape(-1, 64), symbols.reshape(-1))
    with amp.scale_loss(loss, optimizer) if scaled else nullcontext(loss) as to_differentiate:
        to_differentiate.backward()
    optimizer.step()
    return float(loss.detach())


def measure(machine: Machine, parameters: int) -> Iterator[Row]:
    """Bytes per second of each optimizer's whole step, against a copy on the device and against torch's own way."""
    copy = _copy_rate(machine, parameters)
    yield Row("device copy", True, f"{copy / 1e12:.2f} TB/s", timed=True)
    tensors = 20 if machine.rehearsal else TENSORS
    sizes = [parameters // tensors] * tensors
    seconds = {}
    for name in STEPS:
        seconds[name] = _our_seconds(machine, name, sizes)
        rate = bytes_of_step(name) * sum(sizes) / seconds[name]
        seen = f"{seconds[name] * 1e3:.2f} ms, {rate / 1e12:.2f} TB/s, {rate / copy:.0%} of a copy"
        yield Row(f"step: {name}", rate >= 0.85 * copy, seen, timed=True)
    theirs = _torch_seconds(machine, sizes)
    yield Row("step: torch AdamW, GradScaler, clip", True, f"{theirs * 1e3:.2f} ms", timed=True)
    faster = theirs / seconds["Adam, AdamW"]
    yield Row("Adam against torch's", faster >= 1.3, f"{faster:.2f} times as fast", timed=True)


def _our_seconds(machine: Machine, name: str, sizes: list[int]) -> float:
    model = Model.of(sizes, machine.device, torch.float16, states_of(name))
    return machine.seconds(lambda: whole_step(name, model))


def _copy_rate(machine: Machine, parameters: int) -> float:
    source = torch.zeros(parameters, device=machine.device)
    target = torch.empty_like(source)
    return 2 * source.numel() * source.element_size() / machine.seconds(lambda: target.copy_(source))


def _torch_seconds(machine: Machine, sizes: list[int]) -> float:
    params = [nn.Parameter(torch.randn(size, device=machine.device)) for size in sizes]
    for param in params:
        param.grad = torch.randn_like(param)
    optimizer = torch.optim.AdamW(params, lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler(machine.device.type, init_scale=1.0, growth_interval=10**9)
    scaler.scale(torch.zeros((), device=machine.device))

    def work() -> None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(params, MAX_NORM, foreach=True)
        scaler.step(optimizer)
        scaler.update()

    return machine.seconds(work)


@contextmanager
def machine_to_check(rehearse: Path | None) -> Iterator[Machine]:
    """The GPU; or for a rehearsal the CPU, with emulated kernels in place."""
    if rehearse is None:
        yield Machine(torch.device("cuda", torch.cuda.current_device()), rehearsal=False)
        return
    from tests.kernels.emulation import emulated

    found = emulated(rehearse)
    with found.in_place():
        yield Machine(torch.device("cpu"), rehearsal=True)
    if found.engine.failures or not found.launches:
        raise SystemExit(f"no kernel was launched in the rehearsal, or one failed: {found.engine.failures}")


def describe(machine: Machine) -> None:
    """Say what is checked on."""
    found = diagnosis.diagnose()
    card = "none, a rehearsal" if machine.rehearsal else torch.cuda.get_device_name()
    print(f"card {card}; torch {found.torch}, driver {found.driver or 'none'}, NVRTC {found.nvrtc or 'none'}")


def main() -> int:
    """Run all checks; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=1_000_000_000, metavar="N")
    parser.add_argument("--rehearse", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.rehearse is None:
        usable = operations.usable(torch.device("cuda"))
        if not usable:
            print(f"the kernels cannot be used here: {usable.reason}", file=sys.stderr)
            return 2
    start = time.perf_counter()
    with machine_to_check(arguments.rehearse) as machine:
        describe(machine)
        parameters = 40_000 if machine.rehearsal else arguments.parameters
        checks = (check_values(machine), check_capture(machine), check_training(machine), measure(machine, parameters))
        rows = [_announced(row) for check in checks for row in check]
    print(
        f"\n{time.perf_counter() - start:.0f} s{', a rehearsal: its times mean nothing' if machine.rehearsal else ''}"
    )
    if machine.rehearsal:
        rows = [replace(row, passed=True) if row.timed else row for row in rows]
    for row in rows:
        print(f"{'ok  ' if row.passed else 'FAIL'} {row.name:38s} {row.seen}")
    return 0 if all(row.passed for row in rows) else 1


def _announced(row: Row) -> Row:
    print(f"  {row.name} ...", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
