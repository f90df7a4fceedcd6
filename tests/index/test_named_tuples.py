"""Named tuples of all kinds are followed, and none stops the analysis."""

from __future__ import annotations

from ampify.index import build_project
from ampify.model.settings import Settings
from ampify.model.source import SourceFile

TEXT = """\
from collections import namedtuple
import torch
Made = namedtuple("Made", "model optimizer")
model = torch.nn.Linear(4, 1)
made = Made(model, torch.optim.SGD(model.parameters(), lr=0.1))
made(1)
for batch in torch.rand(3, 2, 4):
    made.optimizer.zero_grad()
    made.model(batch).mean().backward()
    made.optimizer.step()
"""


def test_a_named_tuple_that_is_called_is_no_class() -> None:
    project = build_project([SourceFile("train.py", TEXT.encode(), TEXT, "utf-8", b"", "\n")], Settings())
    assert not project.unreadable
    assert [loop.backward_calls[0].optimizers for loop in project.loops] == [("made.optimizer",)]
