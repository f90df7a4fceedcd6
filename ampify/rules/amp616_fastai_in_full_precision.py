"""A learner of fastai is made and never told to use mixed precision.

What it does
------------
Puts `.to_fp16()` after what makes the learner, at O1, in files that say nothing of precision.

Why it matters
--------------
fastai owns the loop. It casts and scales by itself once it is told to.

Before
------
    from fastai.learner import Learner


    def main(data, model):
        learner = Learner(data, model)
        learner.fit(1)

After
-----
    from fastai.learner import Learner


    def main(data, model):
        learner = Learner(data, model).to_fp16()
        learner.fit(1)

Fix safety
----------
Unsafe: what it does depends on the version of fastai, and callbacks that read gradients may see scaled ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.model.edit import Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import alone, calls

CODE = "AMP616"
NAME = "fastai-in-full-precision"
MESSAGE = "this learner computes in float32: it is never told to use mixed precision"
SETTINGS = frozenset({"to_fp16", "to_bf16", "to_native_fp16", "to_non_native_fp16"})


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every learner in a file that says nothing of precision."""
    for facts, call, _ in calls(project, ("fastai",), catalog.FASTAI_LEARNERS) if settings.opt_level == "O1" else ():
        if any(word in line for line in facts.lines for word in (*SETTINGS, "MixedPrecision")):
            continue
        anchor = facts.anchor(call)
        edits = (Replace(anchor, f"{facts.text(call.span)}.to_fp16()"),)
        yield Finding(CODE, NAME, anchor, MESSAGE, fix=alone(anchor, edits, "unsafe"))
