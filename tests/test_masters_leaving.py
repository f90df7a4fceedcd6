"""Scripts on apex's `FP16_Optimizer` under the native target: what becomes of each part, and what keeps a loop there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.pipeline import run

SCRIPT = """\
import torch
from apex.fp16_utils import FP16_Optimizer

model = torch.nn.Linear(4, 2).cuda().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = FP16_Optimizer(optimizer, static_loss_scale=128.0)
for x, y in [(torch.ones(3, 4), torch.zeros(3, 2))] * 3:
    optimizer.zero_grad()
    loss = (model(x.cuda().half()).float() - y.cuda()).pow(2).mean()
    optimizer.backward(loss)
    optimizer.clip_master_grads(1.0)
    optimizer.step()
"""
MADE = "optimizer = FP16_Optimizer(optimizer, static_loss_scale=128.0)"
IMPORTED = "from apex.fp16_utils import FP16_Optimizer"
BUILT = f"{IMPORTED}\n\nmodel = torch.nn.Linear(4, 2).cuda().half()\n"
BACKWARD = "    optimizer.backward(loss)\n"
CLIP = "    optimizer.clip_master_grads(1.0)\n"


def migrated(files: dict[str, str], folder: Path) -> tuple[dict[str, str], Report]:
    """What the native target makes of the files that it changes, and its report."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    report = run([folder], Settings(root=str(folder), target="native", cache=False, jobs=1))
    return {Path(o.path).name: o.after for o in report.outcomes if o.after is not None}, report


def changed(old: str, new: str, folder: Path) -> str:
    """The migrated script, with a part of it written otherwise."""
    assert SCRIPT.count(old) == 1
    after, report = migrated({"train.py": SCRIPT.replace(old, new)}, folder)
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert "apex" not in after["train.py"]
    assert "half" not in after["train.py"]
    return after["train.py"]


def test_the_whole_loop_leaves(tmp_path: Path) -> None:
    after, _ = migrated({"train.py": SCRIPT}, tmp_path)
    assert (
        after["train.py"]
        == """\
import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=128.0, growth_interval=2**31 - 1)
for x, y in [(torch.ones(3, 4), torch.zeros(3, 2))] * 3:
    optimizer.zero_grad()
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        loss = (model(x.cuda().float()).float() - y.cuda()).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
    )


@pytest.mark.parametrize(
    ("arguments", "scaler"),
    [
        ("", "init_scale=1.0, growth_interval=2**31 - 1"),
        (", 64, verbose=False", "init_scale=64.0, growth_interval=2**31 - 1"),
        (", scale", "init_scale=float(scale), growth_interval=2**31 - 1"),
        (", dynamic_loss_scale=True", ""),
        (", dynamic_loss_scale=True, dynamic_loss_args=None", ""),
        (", 1., True, {'init_scale': 2 ** 8,}", "init_scale=2 ** 8"),
        (
            ", dynamic_loss_scale=True, dynamic_loss_args={'scale_factor': 4.0, 'scale_window': n}",
            "growth_interval=n, growth_factor=4.0, backoff_factor=1 / (4.0)",
        ),
        (
            ", scale, dynamic, {'scale_window': 500}",
            "init_scale=2.0**16 if dynamic else float(scale), growth_interval=500 if dynamic else 2**31 - 1",
        ),
    ],
)
def test_the_scaler_scales_as_the_optimizer_did(arguments: str, scaler: str, tmp_path: Path) -> None:
    start = "scale, dynamic, n = 8.0, True, 7\n"
    after = changed(MADE, f"{start}optimizer = FP16_Optimizer(optimizer{arguments})", tmp_path)
    given = f", {scaler}" if scaler else ""
    assert f'scaler = torch.amp.GradScaler("cuda"{given})\n' in after.replace("'", '"')


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            BACKWARD,
            "    optimizer.backward(loss, retain_graph=True)\n",
            "scaler.scale(loss).backward(retain_graph=True)",
        ),
        (
            BACKWARD,
            "    optimizer.backward(loss, False)\n    optimizer.update_master_grads()\n",
            "    scaler.scale(loss).backward()\n    scaler.unscale_(optimizer)\n",
        ),
        (
            BACKWARD,
            "    optimizer.backward(model(x.cuda()).float().mean())\n",
            '    with torch.autocast(device_type="cuda", dtype=torch.float16):\n'
            "        amp_loss = model(x.cuda()).float().mean()\n    scaler.scale(amp_loss).backward()\n",
        ),
        (CLIP, "    optimizer.clip_master_grads(norm_type=1, max_norm=c)\n", "_(model.parameters(), c, norm_type=1)"),
        (CLIP, '    print("scale", optimizer.loss_scale)\n', 'print("scale", scaler.get_scale())'),
        (
            CLIP,
            "    for group in optimizer.optimizer.param_groups:\n        group['lr'] *= 0.9\n",
            "in optimizer.param_g",
        ),
        (MADE, "opt = optimizer\noptimizer = FP16_Optimizer(opt, 128.0)", "\noptimizer = opt\n"),
        (
            MADE,
            "optimizer = FP16_Optimizer(torch.optim.Adam(model.parameters()), 128.0)",
            "\noptimizer = torch.optim.Adam(model.parameters())\n",
        ),
        (
            "model = torch.nn.Linear(4, 2).cuda().half()",
            "model = torch.nn.Linear(4, 2)\nmodel.cuda()\nmodel.half()",
            "\n",
        ),
        ("x.cuda().half()", "(x.cuda() * 2).half()", "model((x.cuda() * 2).float())"),
        (
            BUILT,
            f"{IMPORTED}, BN_convert_float, network_to_half\n\n"
            "model = BN_convert_float(network_to_half(torch.nn.Linear(4, 2).cuda().half()))\n",
            "\nmodel = torch.nn.Linear(4, 2).cuda()\n",
        ),
        (
            BUILT,
            f"{IMPORTED}, convert_network\n\nmodel = torch.nn.Linear(4, 2)\n"
            "model = convert_network(model.cuda(), torch.float16)\n",
            "\nmodel = model.cuda()\n",
        ),
        (BUILT, f"{IMPORTED}, FP16Model\n\nmodel = torch.nn.Linear(4, 2)\nmodel = FP16Model(model)\n", "(4, 2)\nopt"),
        (
            "torch.nn.Linear(4, 2).cuda().half()\n",
            "torch.nn.Linear(4, 2).cuda()\nif torch:\n    model.half()\n",
            "cuda()\noptimizer",
        ),
        (CLIP, "    print(loss.dtype == torch.float16)\n", "print(loss.dtype == torch.float16)"),
        (MADE, f"if torch:\n    {MADE}\nelse:\n    optimizer = None", "enabled=bool(torch))"),
    ],
)
def test_what_it_offers_has_an_equal(old: str, new: str, expected: str, tmp_path: Path) -> None:
    assert expected in changed(old, new, tmp_path)


STAYS = {
    "an overflow that is asked for": (CLIP, "    if optimizer.overflow:\n        continue\n", "no such overflow"),
    "a norm that is used": (CLIP, "    norm = optimizer.clip_master_grads(1.0)\n    print(norm)\n", "returns is used"),
    "gradients of the masters": (CLIP, "    print(optimizer.inspect_master_grad_data())\n", "no such inspect"),
    "a scale that is set": (CLIP, "    optimizer.loss_scale = 2.0\n", "no such loss_scale"),
    "a clip of the model": (
        CLIP,
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "the model's own gradients",
    ),
    "a type of half precision": ("x.cuda().half()", "x.cuda().to(torch.float16)", "a type of half precision"),
    "another such type": ("x.cuda().half()", "x.type(torch.cuda.HalfTensor)", "a type of half precision"),
    "a type by its name": ("x.cuda().half()", "x.type('torch.cuda.HalfTensor')", "a type of half precision"),
    "a part of something larger": (MADE, "optimizer = [FP16_Optimizer(optimizer)][0]", "part of something larger"),
    "a method of its own": (
        BUILT,
        f"{BUILT}\n\nclass Batch:\n    def half(self):\n        return torch.ones(3, 4).cuda()\n\n\nBatch().half()\n",
        "a method of the project's own",
    ),
    "a comment in a cast": ("x.cuda().half()", "x.cuda()  # as it is\n        .half()", "laid out in a way"),
    "a comment in another": ("4, 2).cuda().half()", "4, 2).cuda(  # all\n).half()", "a comment stands inside"),
    "a cast of what is not named": (
        BUILT,
        f"{IMPORTED}, network_to_half\n\nmodel = torch.nn.Linear(4, 2)\nmodel = network_to_half(*[model])\n",
        "it cannot be told what is cast",
    ),
    "a cast that may be none": (
        BUILT,
        f"{IMPORTED}, network_to_half\n\nmodel = torch.nn.Linear(4, 2)\n"
        "model = (network_to_half if torch else torch.compile)(model)\n",
        "it cannot be told what is cast",
    ),
    "a cast in a loss": (
        BACKWARD,
        "    optimizer.backward(model(x.cuda().half()).mean())\n",
        "part of a backward's loss",
    ),
    "a method that is handed on": (
        "    optimizer.zero_grad()\n",
        "    print(optimizer.zero_grad)\n",
        "no such zero_grad",
    ),
    "an optimizer out of sight": (CLIP, "    print.optimizer.clip_master_grads(1.0)\n", "it cannot be told whose"),
    "a closure": ("    optimizer.step()\n", "    optimizer.step(lambda: loss)\n", "closure step"),
    "zeroes that are None": ("zero_grad()", "zero_grad(set_grads_to_None=True)", "no such zero_grad"),
    "an argument that is spread": (BACKWARD, "    optimizer.backward(*[loss])\n", "is given what is not known"),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_has_no_equal_keeps_the_loop(name: str, tmp_path: Path) -> None:
    """The reason stands behind what comes nearest."""
    old, new, reason = STAYS[name]
    assert SCRIPT.count(old) == 1
    after, report = migrated({"train.py": SCRIPT.replace(old, new)}, tmp_path)
    assert after == {}
    assert [loop.state for loop in report.loops] == ["refused"]
    told = [f.message for f in report.findings if f.code == "AMP514" and f.refuses]
    assert [reason in text and "torch.amp.GradScaler" in text for text in told] == [True], told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MADE, "optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True, dynamic_loss_args=vars(torch))"),
        (
            MADE,
            "optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True, dynamic_loss_args={'min_loss_scale': 1})",
        ),
        (MADE, "optimizer = FP16_Optimizer(optimizer, **{})"),
        ("    optimizer.step()\n", "    optimizer.step()\n    assert isinstance(optimizer, FP16_Optimizer)\n"),
        ("import FP16_Optimizer\n", "import FP16_Optimizer, tofp16\nfirst = tofp16()\n"),
    ],
)
def test_what_only_apex_has_keeps_the_loop(old: str, new: str, tmp_path: Path) -> None:
    assert SCRIPT.count(old) == 1
    after, report = migrated({"train.py": SCRIPT.replace(old, new)}, tmp_path)
    assert after == {}
    assert [loop.state for loop in report.loops] == ["refused"]
    assert any(f.code == "AMP513" and f.refuses for f in report.findings)


def test_a_loss_that_amp_scales_beside_keeps_the_loop(tmp_path: Path) -> None:
    text = SCRIPT.replace(IMPORTED, f"from apex import amp\n{IMPORTED}")
    more = "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n"
    after, report = migrated({"train.py": text.replace(BACKWARD, BACKWARD + more)}, tmp_path)
    assert after == {}
    told = [f.message for f in report.findings if f.code == "AMP514"]
    assert ["scaled by something else" in text for text in told] == [True]


def test_each_of_two_has_a_scale_of_its_own(tmp_path: Path) -> None:
    head = "head = torch.nn.Linear(2, 2).cuda().half()\nother = FP16_Optimizer(torch.optim.Adam(head.parameters()))\n"
    text = SCRIPT.replace(MADE, head + MADE).replace("(model(x.cuda().half())", "(head(model(x.cuda().half()))")
    after, report = migrated({"train.py": text.replace("r.step()\n", "r.step()\n    other.step()\n")}, tmp_path)
    assert after == {}
    assert any("each of several optimizers" in f.message for f in report.findings if f.code == "AMP514")


def test_a_file_that_others_may_use_keeps_its_casts(tmp_path: Path) -> None:
    net = "import torch\n\n\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n        return super().forward(x{})\n"
    train = SCRIPT.replace("import torch\n", "import torch\nfrom net import Net\n", 1).replace("torch.nn.Linear", "Net")
    after, report = migrated({"train.py": train, "net.py": net.format("")}, tmp_path)
    assert [loop.state for loop in report.loops] == ["migrated"]
    assert list(after) == ["train.py"]
    after, report = migrated({"train.py": train, "net.py": net.format(".half()")}, tmp_path)
    assert after == {}
    told = [f.message for f in report.findings if f.code == "AMP514"]
    assert ["net.py:6" in text and "without this training" in text for text in told] == [True]


def test_an_if_goes_with_all_that_it_holds(tmp_path: Path) -> None:
    text = SCRIPT.replace("model = torch.nn.Linear(4, 2).cuda().half()", "model = torch.nn.Linear(4, 2).cuda()")
    text = text.replace(MADE, f"if fp16:\n    model.half()\n    {MADE}").replace(
        "import torch\n", "import torch\nfp16 = 1\n", 1
    )
    after, _ = migrated({"train.py": text}, tmp_path)
    assert "if fp16" not in after["train.py"]
    assert "growth_interval=2**31 - 1, enabled=bool(fp16))" in after["train.py"]
    assert "enabled=scaler.is_enabled()" in after["train.py"]
    (tmp_path / "train.py").unlink()
    text = text.replace("    model.half()\n", "    model.half()\n    print('in half')\n")
    after, _ = migrated({"other.py": text}, tmp_path)
    assert "if fp16:\n    print('in half')\nfor x" in after["other.py"]
