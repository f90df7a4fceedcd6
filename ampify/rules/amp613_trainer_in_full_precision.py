"""Training arguments of Hugging Face Transformers say nothing of precision.

What it does
------------
Gives `TrainingArguments(...)` and `Seq2SeqTrainingArguments(...)` the precision of the level that is asked for:
`fp16=True` at O1, `bf16=True` at O4. Other levels have no equal.

Why it matters
--------------
The Trainer owns the loop. It casts, scales, clips and saves the scale by itself once it is told to.

Before
------
    from transformers import Trainer, TrainingArguments


    def main(model, dataset):
        arguments = TrainingArguments(output_dir="out", num_train_epochs=1)
        trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
        trainer.train()

After
-----
    from transformers import Trainer, TrainingArguments


    def main(model, dataset):
        arguments = TrainingArguments(output_dir="out", num_train_epochs=1, fp16=True)
        trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
        trainer.train()

Fix safety
----------
Unsafe: on a machine without a GPU that computes in this precision, the script stops where it trained in float32.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import PRECISIONS, adding, calls, unpacks

CODE = "AMP613"
NAME = "trainer-in-full-precision"
MESSAGE = "the Trainer computes in float32 by these arguments"
HINT = "set fp16 or bf16 where these arguments come from"
CODES = {"float16": ("fp16=True",), "bfloat16": ("bf16=True",)}


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for all training arguments without a precision."""
    roots, names = catalog.FRAMEWORK_SETTINGS["trainer-loop"]
    for facts, call, _ in calls(project, roots, names) if settings.opt_level in PRECISIONS else ():
        anchor = facts.anchor(call)
        if any(name in ("fp16", "bf16") for name, _ in call.keywords):
            continue
        if unpacks(call):
            yield Finding(CODE, NAME, anchor, MESSAGE, HINT, refuses=True)
        else:
            yield Finding(CODE, NAME, anchor, MESSAGE, fix=adding(settings, anchor, CODES, "unsafe"))
