"""Words in the code by which events are looked for, and told apart where values are unknown."""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.index.events import EventKind
from ampify.index.syntax import calls, last_name
from ampify.model import facts as f

NAMES = (
    frozenset(
        """backward step zero_grad grad state_dict load_state_dict initialize save binary_cross_entropy half double
        scale_loss dict optimizer_step bfloat16 DataParallel DistributedDataParallel DistributedDataParallelCPU compile
        script convert_sync_batchnorm convert_syncbn_model GradScaler unscale_ update init clip_master_grads""".split()
    )
    | {dotted.rpartition(".")[2] for dotted in catalog.HALVED}
    | catalog.CLIPS
    | catalog.GRADIENT_HOOKS
    | catalog.DEVICE_METHODS
    | catalog.SHARDING
)
# Words in the name of a receiver that tell its `step` is no optimizer's.
NOT_OPTIMIZERS = (
    "sched",
    "lr",
    "env",
    "prof",
    "bar",
    "warmup",
    "sampler",
    "meter",
    "anneal",
    "timer",
    "game",
    "simulator",
)
PRECISIONS: dict[str, EventKind] = {
    "half": "half",
    "float16": "half",
    "bfloat16": "half",
    "HalfTensor": "half",
    "double": "double",
    "float64": "double",
    "DoubleTensor": "double",
}
FOREIGN = ("optim", "accelerator", "engine", "fabric", "strategy", "scaler", "amp", "manager", "runner", "trainer")


def aliases(facts: f.FileFacts) -> Iterator[tuple[str, str]]:
    """Names under which a file imports one of `NAMES`."""
    for name in (n for statement in facts.imports for n in statement.names):
        if name.attribute in NAMES and name.bound != name.attribute:
            yield name.bound, str(name.attribute)


def buffers(facts: f.FileFacts) -> Iterator[str]:
    """Names under which modules of a file keep tensors that are no parameters."""
    if "register_buffer" in facts.methods:
        for call in (call for scope in facts.scopes for call in calls(scope.body)):
            name = call.args[0] if call.args and last_name(call.func) == "register_buffer" else None
            if isinstance(name, f.Constant) and isinstance(name.value, str):
                yield name.value
