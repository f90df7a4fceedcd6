"""A program too large to follow is refused in a bounded time, and its sites are in the ledger all the same."""

from __future__ import annotations

from ampify.index import build_project
from ampify.model.settings import Settings
from ampify.model.source import SourceFile

MODELS = 140
READS = 4000
TRAINING = """\
import torch
models = [{models}]
{reads}
optimizer = torch.optim.SGD(models[0].parameters(), lr=0.1)
for batch in torch.rand(3, 2, 4):
    optimizer.zero_grad()
    models[0](batch).mean().backward()
    torch.nn.utils.clip_grad_norm_(models[0].parameters(), 1.0)
    optimizer.step()
    scheduler.step()
"""


def test_a_program_beyond_the_budget_is_refused_whole() -> None:
    models = ", ".join("torch.nn.Linear(4, 1)" for _ in range(MODELS))
    reads = "\n".join(f"x{n} = models[n].weight.data" for n in range(READS))
    text = TRAINING.format(models=models, reads=reads)
    project = build_project([SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")], Settings())
    first = READS + 5
    assert [(o.kind, o.anchor.line, len(o.related)) for o in project.obstacles] == [("analysis-budget", first + 1, 3)]
    assert [(site.kind, site.anchor.line) for site in project.sites] == [
        ("zero_grad", first),
        ("backward", first + 1),
        ("clip", first + 2),
        ("step", first + 3),
    ]
    assert project.loops == ()
