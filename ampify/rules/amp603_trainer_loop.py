"""The Trainer of Hugging Face Transformers runs the training.

What it does
------------
Refuses what trains in a file that imports `transformers.Trainer` or its arguments. Where the file has no backward and
no step of its own but uses a trainer, it is said all the same that nothing is to be migrated there, unless the
arguments are made in the files given: then AMP613 speaks of their precision.

Why it matters
--------------
The Trainer owns the loop and has mixed precision of its own, behind a single option. Scaling the loss as well would
scale it twice.

Before
------
    from transformers import AutoModelForSequenceClassification, Trainer


    def main(arguments, dataset):
        model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
        trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
        trainer.train()

Hint
----
Set the option where the arguments are made: `TrainingArguments(fp16=True)`, or `bf16=True`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import PRECISIONS, has_setting
from ampify.rules.refusal import refusals, refusals_of_sites

CODE = "AMP603"
NAME = "trainer-loop"
MESSAGE = "the Trainer of Hugging Face Transformers runs the training here and has mixed precision of its own"
HINT = "set TrainingArguments(fp16=True), or bf16=True"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every file that trains with a Trainer."""
    if settings.opt_level in PRECISIONS and has_setting(project, NAME):
        return refusals_of_sites(project, CODE, NAME, MESSAGE, HINT)
    return refusals(project, CODE, NAME, MESSAGE, HINT)
