"""Scripts on apex's amp under the native target: what is written trains as the same script does on the runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.pipeline import run

ROOT = Path(__file__).resolve().parents[1]
PLAIN = """\
import torch
from apex import amp

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for step in range(8):
    loss = torch.nn.functional.mse_loss(model(torch.randn(16, 8)), torch.randn(16, 4))
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()  # of this batch
    torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1)
    optimizer.step()
    print("loss", repr(loss.item()))
"""
SWITCHED = """\
import argparse

import torch
from apex import amp
from apex.optimizers import FusedSGD

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--accum", type=int, default=2)
parser.add_argument("--opt-level", default="O1")
args = parser.parse_args()


def train(model, optimizer, data, args):
    model.train()
    for step, (x, y) in enumerate(data):
        loss = torch.nn.functional.mse_loss(model(x), y) / args.accum
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if (step + 1) % args.accum == 0:
            if args.fp16:
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
        print("loss", repr(loss.item()))


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = FusedSGD(model.parameters(), lr=0.1, momentum=0.9)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
    data = [(torch.randn(16, 8), torch.randn(16, 4)) for _ in range(12)]
    train(model, optimizer, data, args)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if args.fp16:
        state["amp"] = amp.state_dict()
    torch.save(state, "last.pt")


if __name__ == "__main__":
    main()
"""


def migrated(text: str, folder: Path) -> tuple[str, Report]:
    """What the native target makes of a script."""
    folder.mkdir()
    (folder / "train.py").write_text(text)
    report = run([folder], Settings(root=str(folder), target="native"))
    (after,) = (o.after for o in report.outcomes if o.path.endswith("train.py"))
    return text if after is None else after, report


def forced(text: str) -> str:
    """A migrated script that does on the CPU what it would on a GPU: torch's autocast and scaler work there, too."""
    return text.replace('"cuda"', '"cpu"').replace("next(model.parameters()).is_cuda", "True")


def printed(text: str, folder: Path, *arguments: str) -> list[str]:
    """What a script prints, run on the CPU in float16 where it casts."""
    folder.mkdir()
    (folder / "train.py").write_text(text)
    path = str(ROOT / "runtime")
    done = subprocess.run(
        [sys.executable, "train.py", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "AMPIFY_DTYPE": "float16", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "arguments", "casts"),
    [(PLAIN, [], True), (SWITCHED, ["--fp16"], True), (SWITCHED, [], False), (SWITCHED, ["--opt-level", "O0"], False)],
    ids=["plain", "switched on", "switched off", "off by level"],
)
def test_it_trains_as_on_the_runtime(text: str, arguments: list[str], casts: bool, tmp_path: Path) -> None:
    after, report = migrated(text, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert "apex" not in after
    on_cpu = forced(after)
    native = printed(on_cpu, tmp_path / "a", *arguments)
    assert native == printed(text.replace("apex", "ampify_runtime"), tmp_path / "b", *arguments)
    plain = text.replace("amp.initialize(model, optimizer, ", "amp.initialize(model, optimizer, enabled=False, ")
    assert (native != printed(plain.replace("apex", "ampify_runtime"), tmp_path / "c", *arguments)) == casts


def test_a_model_of_apex_layers_may_be_wrapped_in_a_branch(tmp_path: Path) -> None:
    """What makes the model is edited, a second binding of it goes, and a third stays."""
    text = PLAIN.replace("from apex import amp", "from apex import amp\nfrom apex import normalization, parallel")
    text = text.replace("torch.nn.ReLU()", "normalization.FusedLayerNorm(16)").replace(
        "(16, 4))\n", "(16, 4)).train()\n", 1
    )
    place = 'opt_level="O1")\n'
    text = text.replace(
        place, f"{place}if torch.cuda.device_count() > 1:\n    model = parallel.DistributedDataParallel(model)\n"
    )
    after, report = migrated(text, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert "torch.nn.LayerNorm(16)" in after
    assert printed(forced(after), tmp_path / "a") == printed(text.replace("apex", "ampify_runtime"), tmp_path / "b")


def test_a_second_run_changes_nothing_and_comments_stay(tmp_path: Path) -> None:
    after, _ = migrated(PLAIN, tmp_path / "first")
    assert "    scaler.scale(loss).backward()  # of this batch\n" in after
    assert migrated(after, tmp_path / "second")[0] == after


def test_a_checkpoint_of_apex_is_read(tmp_path: Path) -> None:
    """The scale and its age come from the state of apex's first scaler, or from that of torch's."""
    load = 'state = torch.load("old.pt")\noptimizer.load_state_dict(state["optimizer"])\namp.load_state_dict(state["amp"])\n'
    text = (
        PLAIN.replace("for step in", f"{load}for step in") + 'print(amp.state_dict()["loss_scaler0"]["loss_scale"])\n'
    )
    after, report = migrated(PLAIN.replace("for step in", f"{load}for step in"), tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    make = 'torch.save({"optimizer": optimizer.state_dict(), "amp": {"loss_scaler0": {"loss_scale": 512.0, "unskipped": 3}}}, "old.pt")\n'
    place = 'state = torch.load("old.pt")'
    on_cpu = forced(after)
    native = printed(on_cpu.replace(place, make + place) + "print(scaler.get_scale())\n", tmp_path / "a")
    assert native == printed(text.replace("apex", "ampify_runtime").replace(place, make + place), tmp_path / "b")
    assert native[-1] == "512.0"


def test_reading_a_state_of_apex_leaves_the_names_of_the_script_alone(tmp_path: Path) -> None:
    text = PLAIN.replace("from apex import amp\n", "from apex import amp\nfrom apex.optimizers import FusedAdam\n")
    text = text.replace("torch.optim.SGD(", "FusedAdam(").replace("lr=0.1)", "lr=0.1); steps, scale = 8, 2.0")
    load = 'state = torch.load("old.pt")\noptimizer.load_state_dict(state["optimizer"])\namp.load_state_dict(state["amp"])\n'
    text = text.replace("for step in range(8)", f"{load}for step in range(steps)").replace(
        "= torch.nn.f", "= scale * torch.nn.f"
    )
    make = (
        'moments = {"exp_avg": torch.ones(16, 8), "exp_avg_sq": torch.ones(16, 8)}\n'
        'old = optimizer.state_dict() | {"state": {0: moments}}\nold["param_groups"][0]["step"] = 5\n'
        'torch.save({"optimizer": old, "amp": {"loss_scaler0": {"loss_scale": 512.0, "unskipped": 3}}}, "old.pt")\n'
    )
    after, report = migrated(text, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    place = 'state = torch.load("old.pt")'
    ours = printed(forced(after).replace(place, make + place), tmp_path / "a")
    theirs = printed(text.replace("apex", "ampify_runtime").replace(place, make + place), tmp_path / "b")
    values = [[float(line.split()[1]) for line in lines] for lines in (ours, theirs)]
    assert len(values[0]) == 8
    assert values[0] == pytest.approx(values[1], rel=1e-4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('opt_level="O1"', 'opt_level="O3"'),
        ("optimizer.step()", "print(amp.loss_scale()); optimizer.step()"),
    ],
)
def test_what_torch_has_no_equal_of_keeps_all_on_apex(old: str, new: str, tmp_path: Path) -> None:
    text = PLAIN.replace(old, new)
    after, report = migrated(text, tmp_path / "native")
    assert after == text
    assert any(finding.refuses and finding.hint for finding in report.findings)
    assert [loop.state for loop in report.loops] == ["refused"]


def test_a_class_that_stands_in_for_apex_goes_with_the_import(tmp_path: Path) -> None:
    """Its own name means itself in its body, and nothing is edited in what is taken away."""
    text = (
        "import torch\nfrom torch import nn\n\ntry:\n    from apex.normalization import FusedLayerNorm as Norm\n"
        "except ImportError:\n    class Norm(nn.Module):\n        def __init__(self, size):\n"
        "            super(Norm, self).__init__()\n            self.weight = nn.Parameter(torch.ones(size))\n\n"
        "        def forward(self, x):\n            return self.weight * x\n\n\nlayer = Norm(4)\n"
    )
    (tmp_path / "layers.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    (outcome,) = report.outcomes
    assert outcome.after is not None
    assert "apex" not in outcome.after
    assert not [f for f in report.findings if f.refuses]
    space: dict[str, object] = {}
    exec(compile(outcome.after, "layers.py", "exec"), space)
    assert type(space["layer"]) is torch.nn.LayerNorm


def test_a_backward_whose_scale_was_forgotten_gets_the_scaler(tmp_path: Path) -> None:
    """On apex it trained with whatever float16 left of its gradients; what is written trains as a right one does."""
    block = (
        "    with amp.scale_loss(loss, optimizer) as scaled_loss:\n        scaled_loss.backward()  # of this batch\n"
    )
    assert block in PLAIN
    forgotten = PLAIN.replace(block, "    loss.backward()  # of this batch\n")
    forgotten = forgotten.replace("amp.master_params(optimizer)", "model.parameters()")
    texts = []
    for name, text in (("right", PLAIN), ("forgotten", forgotten)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "train.py").write_text(text)
        (outcome,) = run([folder], Settings(root=str(folder), target="native")).outcomes
        assert outcome.after is not None
        texts.append(outcome.after)
    assert texts[0] == texts[1]


def test_a_name_that_other_files_import_goes_on_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(
        "import torch\n\ntry:\n    from apex.normalization import FusedLayerNorm as Norm\nexcept ImportError:\n"
        "    from torch.nn import LayerNorm as Norm\n\n\ndef norm(size):\n    return Norm(size, eps=1e-12)\n"
    )
    (tmp_path / "net.py").write_text("from layers import Norm\n\nlayer = Norm(4)\n")
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    (outcome,) = (outcome for outcome in report.outcomes if outcome.after is not None)
    assert outcome.path.endswith("layers.py")
    assert outcome.after is not None
    assert outcome.after.startswith("import torch\n\nfrom torch.nn import LayerNorm as Norm\n\n\ndef norm(size):\n")
    assert not any(finding.refuses for finding in report.findings)


def test_a_block_without_casts_is_one_without_autocast(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "    loss = torch.nn.functional.mse_loss(model(torch.randn(16, 8)), torch.randn(16, 4))\n",
        "    out = model(torch.randn(16, 8))\n    with amp.disable_casts():\n"
        "        loss = torch.nn.functional.mse_loss(out.float(), torch.randn(16, 4))\n",
    )
    assert text != PLAIN
    (tmp_path / "train.py").write_text(text)
    (outcome,) = run([tmp_path], Settings(root=str(tmp_path), target="native")).outcomes
    assert outcome.after is not None
    inside = '        with torch.autocast(device_type="cuda", enabled=False):\n            loss = torch.nn.functional.mse_loss('
    assert inside in outcome.after
    assert "apex" not in outcome.after


def test_a_function_that_is_called_in_both_arms_trains_in_each(tmp_path: Path) -> None:
    """What needs amp in one call of it says nothing of the other call."""
    body = "".join(f"    {line}\n" if line else "\n" for line in PLAIN.splitlines()[3:])
    text = f"import sys\nimport torch\nfrom apex import amp\n\n\ndef train():\n{body}\n\n"
    text += "if len(sys.argv) > 1:\n    for _ in range(2):\n        train()\nelse:\n    train()\n"
    (tmp_path / "train.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    (outcome,) = report.outcomes
    assert outcome.after is not None
    assert "apex" not in outcome.after
    assert "        scaler.step(optimizer)\n        scaler.update()\n" in outcome.after
    assert not any(finding.refuses for finding in report.findings)


# One branch for accumulation and one without, each with amp on or off: as Swin Transformer's loop is built.
BRANCHES = """\
import argparse

import torch
from apex import amp

parser = argparse.ArgumentParser()
parser.add_argument("--level", default="O1")
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.level != "O0":
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
for step in range(8):
    loss = torch.nn.functional.mse_loss(model(torch.randn(16, 8)), torch.randn(16, 4)) / args.accum
    if args.accum > 1:
        if args.level != "O0":
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if (step + 1) % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    else:
        optimizer.zero_grad()
        if args.level != "O0":
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1)
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    print("loss", repr(loss.item()))
"""


@pytest.mark.parametrize("arguments", [[], ["--accum", "2"], ["--level", "O0"], ["--level", "O0", "--accum", "2"]])
def test_branches_that_both_have_amp_are_told_from_those_where_it_is_off(arguments: list[str], tmp_path: Path) -> None:
    after, report = migrated(BRANCHES, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert after.count("scaler.step(optimizer)") == after.count("scaler.update()") == 2
    native = printed(forced(after), tmp_path / "a", *arguments)
    assert native == printed(BRANCHES.replace("apex", "ampify_runtime"), tmp_path / "b", *arguments)


def test_each_file_that_stays_for_anothers_sake_says_so(tmp_path: Path) -> None:
    """The reason is in the training script; the import that stays in the other file points there."""
    (tmp_path / "states.py").write_text(
        "import torch\nfrom apex import amp\n\n\ndef save(optimizer):\n"
        '    torch.save({"optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")\n'
    )
    odd = PLAIN.replace("    optimizer.step()\n", "    print(amp.loss_scale()); optimizer.step()\n")
    (tmp_path / "train.py").write_text(f"from states import save\n{odd}save(optimizer)\n")
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    (told,) = [f for f in report.findings if Path(f.anchor.path).name == "states.py" and f.code == "AMP512"]
    assert told.anchor.line == 2
    assert told.refuses
    (reason,) = told.related
    (why,) = {f.anchor for f in report.findings if f.code == "AMP513" and f.refuses}
    assert reason.anchor == why


@pytest.mark.parametrize("more", ["", "from apex import pyprof\npyprof.nvtx.init()\n"])
def test_a_loop_that_is_on_the_runtime_stays_there(more: str, tmp_path: Path) -> None:
    text = PLAIN.replace("from apex import", f"{more}from ampify_runtime import")
    (tmp_path / "train.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    assert all(outcome.after is None for outcome in report.outcomes)
    assert not any(finding.code.startswith("AMP9") or finding.code == "AMP513" for finding in report.findings)


PENALTY = """\
def penalty(model, x):
    mixed = x.clone().requires_grad_()
    scores = model(mixed)
    (grads,) = torch.autograd.grad(scores.sum(), mixed, create_graph=True)
    return (grads.norm(2, dim=1) - 1).pow(2).mean()


"""


def test_a_gradient_penalty_stays_in_float32_and_is_told_of(tmp_path: Path) -> None:
    text = PLAIN.replace("torch.manual_seed(0)\n", f"\n{PENALTY}torch.manual_seed(0)\n")
    part = '    size = penalty(model, torch.randn(16, 8))\n    print("penalty", repr(size.item()))\n    loss = loss + size\n'
    text = text.replace("    optimizer.zero_grad()\n", f"{part}    optimizer.zero_grad()\n")
    after, report = migrated(text, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert [f.anchor.line for f in report.findings if f.code == "AMP306"] == [8]
    assert ".is_cuda):\n        loss = torch.nn.functional.mse_loss(" in after
    # Before the first step its value is that of a model in full precision.
    off = text.replace("apex", "ampify_runtime").replace(
        "initialize(model, ", "initialize(enabled=False, models=model, optimizers="
    )
    first = printed(forced(after), tmp_path / "a")[0]
    assert first.startswith("penalty")
    assert first == printed(off, tmp_path / "b")[0]
    assert first != printed(text.replace("apex", "ampify_runtime"), tmp_path / "c")[0]


# Torch has nothing for `amp.loss_scale`, so that this loop stays on apex.
KEPT = """\
import torch
import apex
from apex import amp
from apex.optimizers import FusedAdam

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), apex.normalization.FusedLayerNorm(16), torch.nn.Linear(16, 4))
optimizer = FusedAdam(model.parameters(), lr=0.01)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for step in range(8):
    loss = torch.nn.functional.mse_loss(model(torch.randn(16, 8)), torch.randn(16, 4))
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
    if step > 8:
        print(amp.loss_scale())
"""


def test_parts_that_stand_alone_go_where_the_loop_stays(tmp_path: Path) -> None:
    after, report = migrated(KEPT, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["refused"]
    assert {f.code for f in report.findings if f.refuses} == {"AMP513"}
    assert "torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)" in after
    assert "torch.nn.LayerNorm(16)" in after
    # The package is still needed for its amp, which is reached by another name.
    assert [line for line in after.splitlines() if "apex" in line] == ["from apex import amp"]
    (tmp_path / "again").mkdir()
    assert migrated(after, tmp_path / "again" / "native")[0] == after
    lines = [
        printed(text.replace("apex", "ampify_runtime"), tmp_path / name) for name, text in (("a", KEPT), ("b", after))
    ]
    values = [[float(line.split()[1]) for line in part] for part in lines]
    assert len(values[0]) == 8
    assert values[0] == pytest.approx(values[1], rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('opt_level="O1"', 'opt_level="O3"'),
        ('opt_level="O1"', "opt_level=LEVEL"),
        ("torch.manual_seed(0)", "torch.manual_seed(0); dtype = torch.float16"),
    ],
)
def test_an_optimizer_of_parameters_that_may_be_half_goes_alone_on_demand_only(
    old: str, new: str, tmp_path: Path
) -> None:
    text = KEPT.replace(old, new)
    assert text != KEPT
    after, report = migrated(text, tmp_path / "native")
    assert "optimizer = FusedAdam(" in after
    assert "from apex.optimizers import FusedAdam" in after
    assert "torch.nn.LayerNorm(16)" in after
    assert any("in half precision" in f.message and f.fix is not None for f in report.findings)
    (outcome,) = run([tmp_path / "native"], Settings(root=str(tmp_path), target="native", unsafe=True)).outcomes
    assert outcome.after is not None
    assert "torch.optim.AdamW(" in outcome.after


def test_what_is_reached_through_a_package_goes_by_itself(tmp_path: Path) -> None:
    """Without a loop, too: one part that torch has no equal of does not keep the others."""
    text = (
        "import torch\nfrom apex import normalization, optimizers\n\n\ndef build(model, name):\n"
        '    if name == "lamb":\n        return optimizers.FusedLAMB(model.parameters())\n'
        "    return optimizers.FusedSGD(model.parameters(), lr=0.1)\n\n\nlayer = normalization.FusedLayerNorm(4)\n"
    )
    (tmp_path / "parts.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    (outcome,) = report.outcomes
    expected = text.replace("optimizers.FusedSGD", "torch.optim.SGD")
    expected = expected.replace("normalization.FusedLayerNorm", "torch.nn.LayerNorm")
    expected = expected.replace("import normalization, optimizers", "import optimizers")
    assert outcome.after == expected
    assert [(f.code, f.anchor.line) for f in report.findings if f.refuses] == [("AMP512", 7)]
