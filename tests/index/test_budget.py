"""A program too large to follow is refused in a bounded time, and its sites are in the ledger all the same."""

from __future__ import annotations

import pytest

from ampify.index import build_project
from ampify.index.contexts import COARSE, PRECISE
from ampify.index.flow import Flow
from ampify.index.reading import read_facts
from ampify.model.settings import Settings
from ampify.model.source import SourceFile

MODELS = 30
READS = 400
BUDGET = 20_000
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


def test_a_program_beyond_the_budget_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampify.index.flow.WORK_BUDGET", BUDGET)
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


def test_a_function_called_from_very_many_places_is_followed_in_few_frames() -> None:
    """Its calls are told apart no longer, and the loop, which is called once, is migrated all the same."""
    calls = "\n".join(f"a{n} = outer({n}, a0)\nb{n} = outer(a{n}, {n})" for n in range(1, 80))
    text = (
        "import torch\ndef inner(x, y):\n    return dict(x=x, y=y)\ndef outer(x, y):\n    return inner(inner(x, y), y)\n"
        f"a0 = inner(0, 0)\n{calls}\n{TRAINING.partition(chr(10))[2]}"
    ).format(models="torch.nn.Linear(4, 1)", reads="")
    project = build_project([SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")], Settings())
    assert [(loop.optimizers, len(loop.backward_calls)) for loop in project.loops] == [(("optimizer",), 1)]
    assert not project.obstacles


def test_a_program_too_large_to_be_followed_precisely_is_followed_less_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that call each other from several places have a frame for every two calls on the way to them."""
    chain = "\n".join(f"def f{n}(x):\n    return [f{n + 1}(x), f{n + 1}(x), f{n + 1}(x)]" for n in range(40))
    head = f"import torch\ndef f40(x):\n    return dict(x=x)\n{chain}\nf0(1)\n"
    text = head + TRAINING.format(models="torch.nn.Linear(4, 1)", reads="").partition("\n")[2]
    source = SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")
    files = {"train.py": read_facts(source)}
    taken = []
    for precision in (PRECISE, COARSE):
        flow = Flow(files, precision=precision)
        flow.solve()
        taken.append(flow.work)
    assert taken[1] < taken[0] / 2
    monkeypatch.setattr("ampify.index.flow.WORK_BUDGET", (taken[0] + taken[1]) // 2)
    project = build_project([source], Settings())
    assert [(loop.optimizers, len(loop.backward_calls)) for loop in project.loops] == [(("optimizer",), 1)]
    assert not project.obstacles
