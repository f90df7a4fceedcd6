"""The model's parameters are shared out over processes.

What it does
------------
Refuses a loop whose model is given to `FullyShardedDataParallel`, or cut into tensor-parallel parts by
`parallelize_module`. A model that `fully_shard` shards is migrated: torch looks for overflows in all its parts.

Why it matters
--------------
Each process holds some of the gradients. Under `FullyShardedDataParallel` it sees the overflows of these alone: one
would skip its step while another makes it, and the parts of the model drift from each other without a word. Of
tensor-parallel parts it has not been shown that all processes skip the same steps.

Before
------
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.distributed.init_process_group("gloo")
    model = FullyShardedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Give `FullyShardedDataParallel` a `MixedPrecision` policy in bfloat16, which needs no loss scale; in float16, use
`torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler`. Or shard the model by `fully_shard`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP311"
NAME = "sharded-model"
MESSAGE = "this shares the model out over processes"
HINT = "train it in bfloat16, which needs no loss scale (a MixedPrecision policy), or shard it by fully_shard"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop whose model is shared out."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
