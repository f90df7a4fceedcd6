"""The ledger has a line for every site that a plain walk over the syntax finds in the fixtures."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampify import pipeline
from ampify.model.settings import Settings

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = sorted(folder.parent.name for folder in FIXTURES.glob("*/before"))
TORCH_FUNCTIONS = ("save", "load")
CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
# The last name of what a `step` is called on, where that is no optimizer.
STEPPED_OTHERS = ("sched", "lr", "scaler", "env", "engine", "prof", "anneal", "accelerator")


def receiver(node: ast.expr) -> str:
    """The last identifier of an expression."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called(node: ast.Call) -> str | None:
    """The kind of site that a call is by its name, if any."""
    function = node.func
    name = receiver(function)
    if name in CLIPS:
        return "clip"
    if not isinstance(function, ast.Attribute):
        return None
    if name in ("backward", "zero_grad"):
        return name
    if name == "step":
        owner = receiver(function.value).lower()
        return None if any(word in owner for word in STEPPED_OTHERS) else "step"
    torch = isinstance(function.value, ast.Name) and function.value.id == "torch"
    return name if torch and name in TORCH_FUNCTIONS else None


def written(text: str) -> Iterator[tuple[str, int, int]]:
    """The kind, line and column of all that is a site by its name; empty for what does not parse."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        kind = None
        if isinstance(node, ast.Call):
            kind = called(node)
        elif isinstance(node, ast.Attribute) and node.attr == "grad" and id(node) not in functions:
            kind = "grad_read"
        if kind is not None:
            yield kind, node.lineno, len(text.splitlines()[node.lineno - 1].encode()[: node.col_offset].decode())


@pytest.mark.parametrize("name", CASES)
def test_every_site_by_its_name_is_in_the_ledger(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES / name / "before")
    report = pipeline.run([Path()], Settings(cache=False), prove=False)
    listed = [entry.site for entry in report.ledger]
    missing = []
    for path in sorted(Path().rglob("*.py")):
        for kind, line, column in written(path.read_text(encoding="utf-8", errors="replace")):
            same = [s.anchor for s in listed if s.kind == kind and s.anchor.path == path.as_posix()]
            # What is saved is told at the dict, what is loaded at the optimizer that takes it: on the lines of the call.
            stored = kind in TORCH_FUNCTIONS and any(a.line <= line <= a.end_line for a in same)
            if (line, column) not in [a.start for a in same] and not stored:
                missing.append(f"{path}:{line}:{column + 1} {kind}")
    assert not missing


def test_the_walk_finds_sites_of_every_kind() -> None:
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in FIXTURES.rglob("before/**/*.py")]
    kinds = {kind for text in texts for kind, _, _ in written(text)}
    assert kinds == {"backward", "step", "zero_grad", "clip", "grad_read", "save", "load"}


def test_a_state_that_a_loop_takes_out_of_itself_is_followed(tmp_path: Path) -> None:
    text = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = torch.load("old.pt")
for key in ("outer", "inner"):
    state = state.pop(key)
model.load_state_dict(state)
optimizer.load_state_dict(state.pop("optimizer"))
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
"""
    (tmp_path / "train.py").write_text(text)
    report = pipeline.run([tmp_path], Settings(root=str(tmp_path), cache=False))
    assert not [finding.message for finding in report.findings if finding.code.startswith("AMP9")]
    loads = [entry.site for entry in report.ledger if entry.site.kind == "load"]
    # `torch.load`, and the optimizer that takes what came of it.
    assert [site.anchor.line for site in loads] == [5, 9]
    assert all(site.loop is not None for site in loads)
