"""An accelerator of Hugging Face Accelerate is made without a precision.

What it does
------------
Gives `Accelerator(...)` the precision of the level that is asked for: `mixed_precision="fp16"` at O1, "bf16" at O4.
Other levels have no equal.

Why it matters
--------------
Without it the precision is what the launcher or the machine's configuration says, float32 if they say nothing.

Before
------
    from accelerate import Accelerator

    accelerator = Accelerator()
    print(accelerator.device)

After
-----
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="fp16")
    print(accelerator.device)

Fix safety
----------
Unsafe: it takes precedence over what `accelerate launch --mixed_precision` and the machine's configuration say.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import PRECISIONS, adding, calls, given, unpacks

CODE = "AMP612"
NAME = "accelerate-in-full-precision"
MESSAGE = "no precision is set here: it is float32 unless the launcher says otherwise"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every accelerator that is made without a precision."""
    for facts, call, _ in calls(project, ("accelerate",), frozenset({"Accelerator"})):
        if settings.opt_level not in PRECISIONS or given(call, "mixed_precision", "fp16") or unpacks(call):
            continue
        quote = facts.quote
        codes = {
            "float16": (f"mixed_precision={quote}fp16{quote}",),
            "bfloat16": (f"mixed_precision={quote}bf16{quote}",),
        }
        yield Finding(
            CODE, NAME, facts.anchor(call), MESSAGE, fix=adding(settings, facts.anchor(call), codes, "unsafe")
        )
