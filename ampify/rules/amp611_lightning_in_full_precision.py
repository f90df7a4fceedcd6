"""A trainer of PyTorch Lightning is made without a precision.

What it does
------------
Gives `Trainer(...)` and `Fabric(...)` the precision of the level that is asked for: `precision="16-mixed"` at O1 and
"bf16-mixed" at O4. What comes from `pytorch_lightning`, which may be of any version, gets 16 and "bf16": Lightning 2
reads these as the same. Other levels have no equal. A trainer for a CPU or another accelerator is left alone, and one
with plugins or unpacked arguments is only reported.

Why it matters
--------------
Lightning owns the loop. It casts, scales, clips and saves the scale by itself once it is told to.

Before
------
    import lightning
    import torch


    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, number):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)


    trainer = lightning.Trainer(max_epochs=1)
    trainer.fit(Regression(), torch.utils.data.DataLoader(torch.ones(8, 4)))

After
-----
    import lightning
    import torch


    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, number):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)


    trainer = lightning.Trainer(max_epochs=1, precision="16-mixed")
    trainer.fit(Regression(), torch.utils.data.DataLoader(torch.ones(8, 4)))

Fix safety
----------
Safe where the trainer may use a GPU and no file with Lightning works on gradients or types itself. Unsafe otherwise:
hooks before the step see scaled gradients, manual optimization has rules of its own, and a CPU may refuse float16.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import PRECISIONS, adding, calls, given, literal, mentions, unpacks

CODE = "AMP611"
NAME = "lightning-in-full-precision"
MESSAGE = "this trainer computes in float32: no precision is set"
HINT = "set precision where the arguments of the trainer come from, unless a plugin among them is for precision"
# Accelerators that the fix is not for: autocast to float16 is CUDA's.
ELSEWHERE = frozenset({"cpu", "mps", "tpu", "hpu", "ipu"})
# Where code works on gradients or types itself, that the precision changes may matter to it.
BY_HAND = (
    "automatic_optimization",
    "manual_backward",
    ".backward(",
    "on_after_backward",
    "def optimizer_step",
    "configure_gradient_clipping",
    ".grad",
    ".half(",
    ".double(",
    "BCELoss(",
    "binary_cross_entropy(",
)


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every trainer that is made without a precision."""
    roots, names = catalog.FRAMEWORK_SETTINGS["lightning-loop"]
    for facts, call, dotted in calls(project, roots, names) if settings.opt_level in PRECISIONS else ():
        anchor = facts.anchor(call)
        if literal(call, "accelerator") in ELSEWHERE:
            continue
        if (unpacks(call) or given(call, "plugins")) and not any(name == "precision" for name, _ in call.keywords):
            yield Finding(CODE, NAME, anchor, MESSAGE, HINT, refuses=True)
        elif not given(call, "precision", "use_amp"):
            safe = _reaches_a_gpu(call, dotted) and not mentions(project, roots, BY_HAND)
            fix = adding(settings, anchor, _codes(call, dotted, facts.quote), "safe" if safe else "unsafe")
            yield Finding(CODE, NAME, anchor, MESSAGE, fix=fix)


def _codes(call: f.Call, dotted: str, quote: str) -> dict[str, tuple[str, ...]]:
    """What to add. Lightning 2 spells mixed precision out, and takes what 1.x took as the same."""
    if dotted.startswith("lightning."):
        half, brain = f"{quote}16-mixed{quote}", f"{quote}bf16-mixed{quote}"
    else:
        half, brain = "16", f"{quote}bf16{quote}"
    return {"float16": (f"precision={half}",), "bfloat16": (f"precision={brain}",)}


def _reaches_a_gpu(call: f.Call, dotted: str) -> bool:
    """Whether a trainer uses a GPU where there is one: before Lightning 2 it had to be told to."""
    accelerator = literal(call, "accelerator")
    if any(name == "accelerator" and not isinstance(value, f.Constant) for name, value in call.keywords):
        return False
    if dotted.startswith("lightning."):
        return accelerator in (None, "auto", "gpu", "cuda")
    return accelerator in ("gpu", "cuda") or literal(call, "gpus") not in (None, 0)
