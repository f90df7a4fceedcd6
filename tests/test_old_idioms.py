"""Idioms that no torch or no Python of today reads: repaired where that is exact, and analysed as any other code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.settings import Settings, Target
from ampify.pipeline import run, run_text, write
from ampify.source import decode_source, repaired

LOOP = """\
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    batch = torch.ones(2, 4).cuda(async=True)
    model(batch).mean().backward()
    optimizer.step()
"""


def repair(text: str) -> tuple[str, tuple[int, ...]] | None:
    found = repaired(decode_source(text.encode(), "a.py"))
    return None if found is None else (found.source.text, found.lines)


@pytest.mark.parametrize(
    ("text", "expected", "lines"),
    [
        ("x.cuda(async=True)\n", "x.cuda(non_blocking=True)\n", (1,)),
        ("x = 1\r\nx.cuda(0, async = True)\r\n", "x = 1\r\nx.cuda(0, non_blocking = True)\r\n", (2,)),
        (
            "x.copy_(y,  # of y\n    async=(a, b))\n",
            "x.copy_(y,  # of y\n    non_blocking=(a, b))\n",
            (2,),
        ),
        ("f(x.cuda(async=True), [y.cuda(async=True)])\n", "f(x.cuda(non_blocking=True), [y.cuda(non_blocking=True)])\n", (1,)),
        ("x.cuda(async=True)  # async=True\n", "x.cuda(non_blocking=True)  # async=True\n", (1,)),
    ],
)  # fmt: skip
def test_the_keyword_is_spelled_for_today(text: str, expected: str, lines: tuple[int, ...]) -> None:
    assert repair(text) == (expected, lines)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n",
        "async def f():\n    pass\n",
        "load(async=True)\n",
        "x.cuda(async=True)\nload(async=True)\n",
        "async = 3\n",
        "x.cuda(async == True)\n",
        "x.cuda(async=True\n",
    ],
)
def test_what_is_not_that_keyword_alone_stays(text: str) -> None:
    assert repair(text) is None


def test_a_repaired_file_is_migrated_and_written_as_any_other(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP, encoding="utf-8")
    settings = Settings(root=str(tmp_path))
    report = run([tmp_path], settings)
    assert [(f.code, f.anchor.line, f.applicability) for f in report.findings if f.code == "AMP505"] == [
        ("AMP505", 6, "safe")
    ]
    write(report, settings)
    after = script.read_text(encoding="utf-8")
    assert "    batch = torch.ones(2, 4).cuda(non_blocking=True)\n" in after
    assert "with amp.scale_loss(model(batch).mean(), optimizer) as scaled_loss:" in after
    again = run([tmp_path], settings)
    assert [outcome.status for outcome in again.outcomes] == ["unchanged"]


def test_a_repair_is_all_that_is_done_where_a_loop_is_refused() -> None:
    text = LOOP.replace("model(batch)", "model(batch.half())")
    (outcome,) = run_text(text.encode(), Settings()).outcomes
    assert outcome.status == "changed"
    assert outcome.after == text.replace("async", "non_blocking")


@pytest.mark.parametrize(
    ("text", "settings", "status"),
    [
        (LOOP, Settings(ignore=("AMP505",)), "failed"),
        (f"{LOOP}print 1\n", Settings(), "failed"),
        (f"# ampify: skip-file\n{LOOP}", Settings(), "skipped"),
    ],
)
def test_what_is_not_wanted_or_not_enough_is_not_repaired(text: str, settings: Settings, status: str) -> None:
    (outcome,) = run_text(text.encode(), settings).outcomes
    assert (outcome.status, outcome.after) == (status, None)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("loss.backward()\nprint(loss.data[0])\n", "loss.backward()\nprint(loss.item())\n"),
        ("self.loss.backward(retain_graph=True)\nx = self.loss.data[0] / 2\n", "self.loss.backward(retain_graph=True)\nx = self.loss.item() / 2\n"),
        ("total += loss.data[0]\n", None),
        ("out.backward(gradient=g)\nx = out.data[0]\n", None),
        ("x = weights.data[0]\n", None),
    ],
)  # fmt: skip
def test_a_loss_is_read_as_one_number_where_it_surely_is_one(text: str, after: str | None) -> None:
    (outcome,) = run_text(text.encode(), Settings()).outcomes
    assert outcome.after == after


def test_a_loss_that_may_be_more_is_reported() -> None:
    (finding,) = run_text(b"total += val_loss.data[0]\n", Settings()).findings
    assert (finding.code, finding.fix, finding.refuses) == ("AMP506", None, False)


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_an_old_clip_that_is_imported_by_its_name_is_called_by_it(target: Target, tmp_path: Path) -> None:
    """The name without the underscore still is there; the other one is not imported."""
    text = (
        "import torch\nfrom torch.nn.utils import clip_grad_norm\n\nmodel = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor batch in torch.rand(3, 2, 4):\n"
        "    optimizer.zero_grad()\n    loss = model(batch).mean()\n    loss.backward()\n"
        "    clip_grad_norm(model.parameters(), 1.0)\n    optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path), target=target))
    (outcome,) = report.outcomes
    assert outcome.after is not None
    assert "    clip_grad_norm(" in outcome.after
    assert not any(finding.refuses for finding in report.findings)
