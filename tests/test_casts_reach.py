"""A refused loop that would train with the casts of another loop's `amp.initialize` on keeps that from being migrated."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings, Target
from ampify.pipeline import run

CODE = "AMP108"
MODEL = "import torch\n\nmodel = torch.nn.Linear(4, 1)\n"
# Migrated where nothing forbids it.
PLAIN = """
first = torch.optim.Adam(model.parameters())
for step in range(3):
    first.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
    first.step()
"""
# Refused for its closure.
CLOSURE = """
last = torch.optim.LBFGS(model.parameters())


def closure():
    last.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
    return loss


last.step(closure)
"""
OTHER_MODEL = CLOSURE.replace("model", "head").replace("last =", "head = torch.nn.Linear(4, 1)\nlast =", 1)


def indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def check(folder: Path, text: str, *, target: Target = "runtime", opt_level: str = "O1") -> Report:
    (folder / "train.py").write_text(text, encoding="utf-8")
    return run([folder], Settings(root=str(folder), target=target, opt_level=opt_level))


def migrates(report: Report) -> bool:
    return any(outcome.after is not None for outcome in report.outcomes)


@pytest.mark.parametrize(
    "text",
    [
        MODEL + PLAIN + CLOSURE,
        # Casts hold for other models as well.
        MODEL + PLAIN + OTHER_MODEL,
        MODEL + "\n\ndef fit():\n" + indented(PLAIN) + "\n\ndef tune():\n" + indented(CLOSURE) + "\n\nfit()\ntune()\n",
        # Initialized for the first round of training, whatever is built for the second.
        MODEL
        + "\n\ndef fit(first):\n"
        + indented(PLAIN.replace("first = torch.optim.Adam(model.parameters())\n", ""))
        + "\n\nonce = torch.optim.Adam(model.parameters())\nfit(once)\n"
        + CLOSURE
        + "again = torch.optim.Adam(model.parameters())\nfit(again)\n",
        # What is not told of is not migrated either.
        MODEL + PLAIN + CLOSURE.replace("last.step(closure)", "last.step(closure)  # ampify: ignore"),
    ],
)
def test_nothing_is_migrated_whose_casts_reach_a_loop_that_stays(text: str, tmp_path: Path) -> None:
    report = check(tmp_path, text)
    (finding,) = (f for f in report.findings if f.code == CODE)
    assert finding.refuses
    lines = text.splitlines()
    assert [lines[r.anchor.line - 1].strip() for r in finding.related] == ["loss.backward()"]
    assert finding.related[0].anchor.line in range(lines.index(next(x for x in lines if "LBFGS" in x)) + 1, len(lines))
    assert not migrates(report)


@pytest.mark.parametrize(
    "text",
    [
        # Over before anything is initialized.
        MODEL + CLOSURE + PLAIN,
        # Not known to run in one process.
        MODEL + "\n\ndef fit():\n" + indented(PLAIN) + "\n\ndef tune():\n" + indented(CLOSURE),
    ],
)
def test_a_loop_is_migrated_whose_casts_reach_no_other(text: str, tmp_path: Path) -> None:
    report = check(tmp_path, text)
    assert CODE not in {f.code for f in report.findings}
    assert "AMP204" in {f.code for f in report.findings}
    assert migrates(report)


def test_native_casts_in_its_own_loop_alone(tmp_path: Path) -> None:
    assert migrates(check(tmp_path, MODEL + PLAIN + CLOSURE, target="native"))


def test_nothing_is_cast_at_level_0(tmp_path: Path) -> None:
    assert migrates(check(tmp_path, MODEL + PLAIN + CLOSURE, opt_level="O0"))


@pytest.mark.parametrize("silenced", [False, True])
def test_a_backward_that_may_be_training_counts_unless_its_author_says_no(silenced: bool, tmp_path: Path) -> None:
    # No step is seen: AMP205.
    backward = "other(torch.ones(2, 4)).sum().backward()" + "  # ampify: ignore[AMP205]" * silenced
    report = check(
        tmp_path, MODEL + "other = torch.nn.Linear(4, 1)\n" + PLAIN + f"\n\ndef grow():\n    {backward}\n\n\ngrow()\n"
    )
    assert {"AMP205", CODE} & {f.code for f in report.findings} == (set() if silenced else {"AMP205", CODE})
    assert migrates(report) is silenced


def test_what_follows_from_a_refusal_is_refused_too(tmp_path: Path) -> None:
    second = PLAIN.replace("first", "second").replace("model", "other")
    report = check(tmp_path, MODEL + "other = torch.nn.Linear(4, 1)\n" + PLAIN + second + CLOSURE)
    assert len([f for f in report.findings if f.code == CODE]) == 2
    assert not migrates(report)


IDLE = """
image = torch.rand(2, 4, requires_grad=True)
model(image).sum().backward()
print(image.grad.abs())
"""
UNCAST = "from ampify_runtime import amp\n"


def test_a_loop_that_is_kept_from_casts_is_no_hindrance(tmp_path: Path) -> None:
    last = CLOSURE.replace("last.step(closure)", "with amp.disable_casts():\n    last.step(closure)")
    report = check(tmp_path, UNCAST + MODEL + PLAIN + last)
    assert CODE not in {f.code for f in report.findings}
    assert migrates(report)


@pytest.mark.parametrize(
    ("text", "opt_level", "told"),
    [
        (MODEL + PLAIN + IDLE, "O1", True),
        # bfloat16 has the range of float32.
        (MODEL + PLAIN + IDLE, "O4", False),
        (MODEL + IDLE + PLAIN, "O1", False),
        (UNCAST + MODEL + PLAIN + "with amp.disable_casts():\n" + indented(IDLE), "O1", False),
    ],
)
def test_a_backward_beside_training_that_nothing_scales_is_told(
    text: str, opt_level: str, told: bool, tmp_path: Path
) -> None:
    report = check(tmp_path, text, opt_level=opt_level)
    found = [text.splitlines()[f.anchor.line - 1] for f in report.findings if f.code == "AMP312"]
    assert found == ["model(image).sum().backward()"] * told
    assert migrates(report)


def test_native_leaves_such_a_backward_outside_autocast(tmp_path: Path) -> None:
    report = check(tmp_path, MODEL + PLAIN + IDLE, target="native")
    assert "AMP312" not in {f.code for f in report.findings}
