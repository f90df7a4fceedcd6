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


TRAINING = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.zero_grad()
model(torch.ones(2, 4)).mean().backward()
optimizer.step()
"""
NO_TRAINING = "this file has to do with no training: nothing in it, or in what uses it, runs a backward pass"
# Files that have to do with no training, and what the ledger says of each.
ASIDE = {
    "convert.py": ("import torch\ntorch.save({}, 'to.pt')\nx = torch.load('of.pt')\n", [("save", 2), ("load", 3)]),
    "wrapper.py": (
        "class Wrapper:\n    def step(self):\n        self.inner_optimizer.step()\n        self.inner.zero_grad()\n",
        [("step", 3), ("zero_grad", 4)],
    ),
    "several.py": ("def each(optimizers):\n    for op in optimizers:\n        op.step()\n", [("step", 3)]),
    "warm.py": (
        "class Warm(Adam):\n    def step(self, closure=None):\n        super().step(closure)\n",
        [("step", 3)],
    ),
    "scheduler.py": ("class Rate(Base):\n    def step(self):\n        super().step()\n", []),
    "norms.py": (
        "import torch\n\ndef norms(p):\n    return torch.nn.utils.clip_grad_norm_(p, 1), p[0].grad\n",
        [("clip", 4), ("grad_read", 4)],
    ),
    "named_without.py": ("def norm(p):\n    return p.grad\n\nenvironment.step(p)\n", []),
    "python2.py": ("import torch\nprint torch.load('of.pt')\n", []),
    "unheard.py": ("# -*- coding: unheard-of -*-\nimport torch\ntorch.load('of.pt')\n", []),
}


@pytest.mark.parametrize("training", [True, False])
def test_what_stands_in_files_that_train_nothing_is_listed(
    training: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (text, _) in ASIDE.items():
        (tmp_path / name).write_text(text)
    if training:
        (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    report = pipeline.run([Path()], Settings(cache=False))
    for name, (_, expected) in ASIDE.items():
        there = [entry for entry in report.ledger if entry.site.anchor.path == name]
        assert [(entry.site.kind, entry.site.anchor.line) for entry in there] == expected, name
        assert all(entry.state == "not_training" and entry.site.loop is None for entry in there)
    assert [outcome.path for outcome in report.outcomes if outcome.status == "changed"] == ["train.py"] * training
    assert not [finding for finding in report.findings if finding.anchor.path in ASIDE]
    places = [entry.site.anchor for entry in report.ledger]
    assert places == sorted(places)


def test_what_trains_nothing_is_told_why_and_from_the_cache_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPIFY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    converting = Path("convert.py")
    converting.write_text("import torch\ntorch.save({}, 'to.pt')\n" + "# padding\n" * 20_000)
    first = pipeline.run([converting], Settings(evidence=True))
    (entry,) = first.ledger
    assert entry.site.evidence[0].hops[0].how == NO_TRAINING
    assert pipeline.run([converting], Settings(evidence=True)) == first
    assert len(list((tmp_path / "cache").rglob("*.json*"))) == 1
    converting.write_text(converting.read_text() + "torch.load('of.pt')\n")
    assert [e.site.kind for e in pipeline.run([converting], Settings(evidence=True)).ledger] == ["save", "load"]
