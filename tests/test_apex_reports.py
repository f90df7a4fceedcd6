"""What is reported of loops that leave NVIDIA apex: they are migrated, and their reviewers are told what to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.bulk.message import commit_message
from ampify.model.plan import Report
from ampify.model.settings import Settings, Target
from ampify.pipeline import run
from ampify.report.advice import risks, scripts_of, trials, undoing, verifying
from ampify.report.links import Links
from ampify.report.markdown import markdown_report

HEAD = """\
import torch
from apex import amp

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
"""
SCALED = """\
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
"""
ON_APEX = f"{HEAD}{SCALED}    optimizer.step()\n"
PLAIN = """\
import torch

net = torch.nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    sgd.zero_grad()
    net(torch.ones(2, 4)).mean().backward()
    sgd.step()
"""


def report(folder: Path, target: Target = "runtime", **files: str) -> Report:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return run([folder], Settings(root=str(folder), target=target, cache=False))


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_a_loop_whose_amp_moved_is_migrated_and_its_reviewer_told_what_to_try(target: Target, tmp_path: Path) -> None:
    found = report(tmp_path, target, train=ON_APEX)
    assert [loop.state for loop in found.loops] == ["migrated"]
    page = markdown_report(found, Links())
    assert all(f"\n## {title}\n" in page for title in ("Risk", "Test plan", "Verify", "Undo"))
    assert [Path(script).name for script in scripts_of(found)] == ["train.py"]
    assert undoing(found) == ("ampify undo",)
    assert any("NVIDIA apex" in risk for risk in risks(found))


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_nobody_is_told_that_off_apex_and_in_full_precision_are_the_same(target: Target, tmp_path: Path) -> None:
    found = report(tmp_path, target, train=ON_APEX)
    assert not any("O0" in text for text in (*trials(found), *verifying(found)))
    assert ("--target native" in " ".join(verifying(found))) == (target == "native")


def test_a_loop_that_had_no_amp_is_compared_at_o0_by_the_runtime_alone(tmp_path: Path) -> None:
    both = report(tmp_path, train=ON_APEX, plain=PLAIN)
    at_o0 = [command for command in verifying(both) if "O0" in command and not command.startswith("#")]
    assert [Path(command.split()[-1]).name for command in at_o0] == ["plain.py"]
    native = report(tmp_path, "native", train=ON_APEX, plain=PLAIN)
    assert {loop.state for loop in native.loops} == {"migrated"}
    assert not any("O0" in command for command in verifying(native))


def test_a_commit_counts_what_moved_apart_from_what_is_new(tmp_path: Path) -> None:
    settings = Settings(root=str(tmp_path))
    moved = commit_message(report(tmp_path, train=ON_APEX), settings)
    assert moved.startswith("Train without NVIDIA apex\n")
    assert "1 training loop moved from NVIDIA apex's amp to the runtime's amp" in " ".join(moved.split())
    assert "O0" not in moved
    both = " ".join(commit_message(report(tmp_path, plain=PLAIN), settings).split())
    assert both.startswith("Train in mixed precision Made by ampify")
    assert "1 training loop rewritten for mixed precision (opt level O1) and 1 training loop moved" in both


def test_a_loop_that_is_refused_stays_so_beside_imports_that_move(tmp_path: Path) -> None:
    """On the runtime it goes on as it was; what is wrong with it is still for a person."""
    odd = ON_APEX.replace("scaled_loss.backward()\n", "scaled_loss.backward()\n        optimizer.step()\n")
    found = report(tmp_path, train=odd)
    assert any(outcome.after for outcome in found.outcomes)
    assert [loop.state for loop in found.loops] == ["refused"]


def test_several_loops_of_one_program_are_migrated_together(tmp_path: Path) -> None:
    """They leave in one group, which is none of theirs by name."""
    second = "\n".join(HEAD.splitlines()[3:]).replace("model", "net").replace("optimizer", "sgd")
    block = SCALED.replace("optimizer", "sgd")
    two = f"{ON_APEX}{second}\n{block}    sgd.step()\n"
    for target in ("runtime", "native"):
        found = report(tmp_path, target, train=two)
        assert [loop.state for loop in found.loops] == ["migrated", "migrated"], target
        assert not any("from apex" in (outcome.after or "") for outcome in found.outcomes)


# Beside the code


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_lines_that_install_apex_go_with_its_last_import(target: Target, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4\napex==0.1\nnumpy\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("git clone https://github.com/NVIDIA/apex\n", encoding="utf-8")
    found = report(tmp_path, target, train=ON_APEX)
    (after,) = (o.after for o in found.outcomes if o.path.endswith("requirements.txt"))
    assert after == ("torch>=2.4\nnumpy\n" if target == "native" else "torch>=2.4\nampify>=0.1\nnumpy\n")
    (told,) = (f for f in found.findings if f.code == "AMP114" and f.anchor.path.endswith("README.md"))
    assert ("ampify" in told.hint) == (target == "runtime")


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_they_go_where_only_a_layer_was_apexs(target: Target, tmp_path: Path) -> None:
    """The migrated file has no scaler, and no loop."""
    (tmp_path / "requirements.txt").write_text("torch>=2.4\napex\n", encoding="utf-8")
    found = report(
        tmp_path, target, layers="import torch\nfrom apex.normalization import FusedLayerNorm as N\n\nn = N(4)\n"
    )
    (after,) = (o.after for o in found.outcomes if o.path.endswith("requirements.txt"))
    assert after is not None
    assert "apex" not in after


def test_they_stay_where_one_import_stays(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4\napex\n", encoding="utf-8")
    lamb = (
        "import torch\nfrom apex.optimizers import FusedLAMB\n\nlamb = FusedLAMB(torch.nn.Linear(2, 2).parameters())\n"
    )
    found = report(tmp_path, "native", train=ON_APEX, lamb=lamb)
    assert "AMP114" not in {f.code for f in found.findings}
    assert not any(o.after for o in found.outcomes if o.path.endswith("requirements.txt"))


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_each_file_that_waits_for_another_says_so(target: Target, tmp_path: Path) -> None:
    """What keeps amp on apex is in one file; in the others an import stays. What torch has goes there all the same."""
    odd = ON_APEX.replace("import torch\n", "import torch\nimport layers\nimport other\n")
    odd += "amp.wrap.cached_cast(None)\n"
    layers = "import torch\nfrom apex.normalization import FusedLayerNorm\n\nlayer = FusedLayerNorm(4)\n"
    other = "import apex\n\nprint(apex.amp.state_dict())\n"
    found = report(tmp_path, target, train=odd, layers=layers, other=other)
    changed = {Path(outcome.path).name for outcome in found.outcomes if outcome.after}
    assert changed == ({"layers.py"} if target == "native" else set())
    told = {Path(f.anchor.path).name for f in found.findings if f.refuses and f.code.startswith("AMP5")}
    assert told == {"train.py", "layers.py", "other.py"} - changed
    assert len({(f.code, f.anchor, f.message, f.loop) for f in found.findings}) == len(found.findings)
    said = [(f.code, f.anchor, f.message) for f in found.findings]
    assert len(set(said)) == len(said)
