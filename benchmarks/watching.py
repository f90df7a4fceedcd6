"""Measures what watching adds to a training step of a small conv net.

Run as `python benchmarks/watching.py [RUNS]`. Within one process the watcher is taken out and put back every few steps,
so that both sides meet the same machine; of the steps of each side, the median is read. Prints a line a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

INSIDE = Path(__file__).resolve().parents[1] / "ampify" / "verify" / "inside"
RUNS = 3

SCRIPT = """\
import statistics, time
import torch
from torch import nn
from torch.optim import optimizer as hooks

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 8 * 8, 10),
)
optimizer = torch.optim.Adam(model.parameters())
images, labels = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
watched = torch.autograd.backward
before, after = dict(hooks._global_optimizer_pre_hooks), dict(hooks._global_optimizer_post_hooks)
assert before and after and hasattr(watched, "__wrapped__"), "nobody watches"

def watch(on):
    torch.autograd.backward = watched if on else watched.__wrapped__
    for registry, known in ((hooks._global_optimizer_pre_hooks, before), (hooks._global_optimizer_post_hooks, after)):
        registry.clear()
        registry.update(known if on else {})

times = {True: [], False: []}
for step in range(400):
    on = step // 5 % 2 == 1
    watch(on)
    start = time.perf_counter()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    if step >= 20:
        times[on].append(time.perf_counter() - start)
print(statistics.median(times[False]), statistics.median(times[True]))
"""


def measure(folder: Path) -> tuple[float, float]:
    """The median time of a step without and with the watcher, in seconds."""
    orders = {"folder": str(folder / "records"), "tree": str(folder), "root": "/nonexistent"}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(folder / "train.py")],
        env=kept | {"OMP_NUM_THREADS": "1", "AMPIFY_WATCH": json.dumps(orders), "PYTHONPATH": str(INSIDE)},
        capture_output=True,
        text=True,
        check=True,
    )
    plain, watched = map(float, done.stdout.split())
    return plain, watched


def main() -> None:
    """Measures and prints."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        (folder / "records").mkdir()
        for _ in range(runs):
            plain, watched = measure(folder)
            ratio = watched / plain
            print(f"plain {plain * 1e3:.2f} ms   watched {watched * 1e3:.2f} ms   ratio {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
