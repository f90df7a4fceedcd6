"""A DeepSpeed configuration in the script says nothing of precision.

What it does
------------
Gives the dict that `deepspeed.initialize` gets as its configuration `"fp16": {"enabled": True}` at O1, `"bf16"` in its
place at O4. A configuration in a file of its own is left to AMP604.

Why it matters
--------------
The engine casts the model, scales the loss and steps on master weights by itself once it is told to.

Before
------
    import deepspeed
    import torch

    model = torch.nn.Linear(4, 1)
    settings = {"train_batch_size": 8}
    engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)

After
-----
    import deepspeed
    import torch

    model = torch.nn.Linear(4, 1)
    settings = {"train_batch_size": 8, "fp16": {"enabled": True}}
    engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)

Fix safety
----------
Unsafe: the engine casts the whole model, so that inputs that are float32 have to be cast by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import nodes
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import PRECISIONS, adding, assigned, calls

CODE = "AMP614"
NAME = "deepspeed-in-full-precision"
MESSAGE = "this DeepSpeed configuration leaves the model in float32"
KEYS = frozenset({"fp16", "bf16", "bfloat16", "amp", "torch_autocast"})


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every configuration in a dict that says nothing of precision."""
    for facts, call, _ in calls(project, ("deepspeed",), frozenset({"initialize"})):
        config = next((value for name, value in call.keywords if name in ("config", "config_params")), None)
        display = assigned(facts, config, lambda found: isinstance(found, f.Mapping)) if config is not None else None
        if not isinstance(display, f.Mapping) or _says(display) or _adds(facts):
            continue
        if settings.opt_level not in PRECISIONS:
            continue
        anchor, quote = facts.anchor(display), facts.quote
        on = f"{{{quote}enabled{quote}: True}}"
        codes = {"float16": (f"{quote}fp16{quote}: {on}",), "bfloat16": (f"{quote}bf16{quote}: {on}",)}
        yield Finding(CODE, NAME, anchor, MESSAGE, fix=adding(settings, anchor, codes, "unsafe"))


def _adds(facts: f.FileFacts) -> bool:
    """Whether such an entry is named anywhere in a file: it may join the configuration later."""
    found = (node for scope in facts.scopes for node, _ in nodes(scope.body))
    return any(isinstance(node, f.Constant) and node.value in KEYS for node in found)


def _says(display: f.Mapping) -> bool:
    """Whether a configuration has, or may have, an entry for the precision."""
    return any(not isinstance(key, f.Constant) or key.value in KEYS for key in display.keys)
