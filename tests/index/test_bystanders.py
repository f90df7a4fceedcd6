"""Code that several training loops run is no place to prepare one of them."""

from __future__ import annotations

import pytest

from ampify.index import build_project
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.model.source import SourceFile

BUILD = """\
import torch
def build():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer
"""
LOOP = """\
def {name}():
    model, optimizer = build()
    {more}
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
"""


def project(first: str, second: str) -> Project:
    loops = LOOP.format(name="first", more=first) + LOOP.format(name="second", more=second)
    text = f"{BUILD}{loops}first()\nsecond()\n"
    return build_project([SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")], Settings())


def test_two_loops_that_one_place_prepares_go_on() -> None:
    found = project("pass", "pass")
    assert {place.anchor.line for loop in found.loops for place in loop.initializes} == {4}
    assert not found.obstacles


@pytest.mark.parametrize("order", [("pass", "model.to('cpu')"), ("model.to('cpu')", "pass")])
def test_two_loops_that_would_be_prepared_apart_stay_as_they_are(order: tuple[str, str]) -> None:
    """One would be initialized where both are built, and the other again after its move."""
    found = project(*order)
    assert {obstacle.kind for obstacle in found.obstacles} == {"no-place-to-initialize"}
    assert {obstacle.loop for obstacle in found.obstacles} == {loop.id for loop in found.loops}
