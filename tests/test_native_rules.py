"""Loops in torch's own mixed precision: which mistakes are found where, and what is right is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.pipeline import run

HEAD = """\
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
clip = torch.nn.utils.clip_grad_norm_
"""
# What many scripts do where torch may have no scaler.
STOOD_IN = """\
import torch
try:
    from torch.amp import GradScaler
except ImportError:
    class GradScaler:
        def __init__(self, device):
            pass
        def scale(self, loss):
            return loss
        def unscale_(self, optimizer):
            pass
        def step(self, optimizer):
            optimizer.step()
        def update(self):
            pass
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler("cuda")
"""
FORWARD = """\
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(torch.ones(2, 4)).mean()
"""
STEP = "    scaler.step(optimizer)\n    scaler.update()\n"
BACKWARD = "    scaler.scale(loss).backward()\n"
CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
UNSCALE = "    scaler.unscale_(optimizer)\n"
LOOP = "for step in range(3):\n"


def check(folder: Path, *, unsafe: bool = False, **files: str) -> Report:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return run([folder], Settings(root=str(folder), unsafe=unsafe))


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def script(*lines: str, head: str = HEAD) -> str:
    return head + LOOP + FORWARD + "".join(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (script(BACKWARD, STEP), set()),
        (script(BACKWARD, UNSCALE, CLIP, STEP), set()),
        (script(BACKWARD, CLIP, STEP), {"AMP220"}),
        (script(BACKWARD, CLIP, UNSCALE, STEP), {"AMP220"}),
        # The flag decides on unscaling and on scaling alike.
        (
            script(
                "    if step:\n        scaler.scale(loss).backward()\n        scaler.unscale_(optimizer)\n"
                "    else:\n        loss.backward()\n",
                CLIP,
                "    if step:\n        scaler.step(optimizer)\n        scaler.update()\n"
                "    else:\n        optimizer.step()\n",
            ),
            set(),
        ),
        # Gradients are accumulated, and unscaled once.
        (
            script(
                BACKWARD,
                "    if step % 2:\n        scaler.unscale_(optimizer)\n    " + CLIP + "        scaler.step(optimizer)\n"
                "        scaler.update()\n",
            ),
            set(),
        ),
        (script(BACKWARD, UNSCALE, "    if step % 2:\n        scaler.step(optimizer)\n        scaler.update()\n"), {"AMP222"}),
        (script(BACKWARD, UNSCALE, UNSCALE, STEP), {"AMP222"}),
        (script(BACKWARD, "    norm = sum(p.grad.norm() for p in model.parameters())\n", STEP), {"AMP221"}),
        (script(BACKWARD, UNSCALE, "    norm = sum(p.grad.norm() for p in model.parameters())\n", STEP), set()),
        # The scaler's step unscales what nothing unscaled before it, unless the optimizer does that in its own kernel.
        (script(BACKWARD, STEP, "    norm = sum(p.grad.norm() for p in model.parameters())\n"), set()),
        (
            script(BACKWARD, STEP, "    norm = sum(p.grad.norm() for p in model.parameters())\n").replace(
                "lr=0.1", "lr=0.1, fused=True"
            ),
            {"AMP221"},
        ),
        (
            script(
                BACKWARD,
                "    for p in model.parameters():\n        p.grad.data /= 2\n        torch.distributed.all_reduce(p.grad)\n",
                STEP,
            ),
            set(),
        ),
        (script(BACKWARD, "    found = model.weight.grad is not None\n", STEP), set()),
        (script(BACKWARD, "    scaler.step(optimizer)\n"), {"AMP223"}),
        (script(BACKWARD, STEP, "    scaler.step(other)\n    scaler.update()\n"), {"AMP224"}),
        (script(BACKWARD, "    scaler.step(optimizer)\n    scaler.step(other)\n    scaler.update()\n"), set()),
        (script(BACKWARD, "    optimizer.step()\n    scaler.update()\n"), {"AMP225"}),
        (script(BACKWARD, UNSCALE, CLIP, STEP, head=STOOD_IN), set()),
        (script("        scaler.scale(loss).backward()\n", STEP), {"AMP320"}),
        (script(BACKWARD, STEP).replace('autocast("cuda")', 'autocast("cuda", dtype=torch.bfloat16)'), {"AMP321"}),
        (script(BACKWARD, STEP).replace("loss = model", "loss = model.half()"), {"AMP323"}),
        (script("        criterion = torch.nn.BCELoss()\n        loss = criterion(loss, loss)\n", BACKWARD, STEP), {"AMP322"}),
        (script("    loss = torch.nn.BCELoss()(loss.float(), loss.float())\n", BACKWARD, STEP), set()),
        (script("    scaler = torch.amp.GradScaler('cuda')\n", BACKWARD, STEP), {"AMP324"}),
        (script("    loss.backward()\n    optimizer.step()\n"), set()),
    ],
)  # fmt: skip
def test_mistakes_are_found_and_what_is_right_is_left_alone(text: str, expected: set[str], tmp_path: Path) -> None:
    report = check(tmp_path, train=text)
    assert codes(report) == expected
    assert all(outcome.after is None for outcome in report.outcomes)
    state = "right" if expected <= {"AMP221", "AMP320", "AMP321", "AMP323"} else "refused"
    assert {loop.state for loop in report.loops} == {state}


AROUND = f"""\
{HEAD}
def train():
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

with torch.autocast("cpu", dtype=torch.bfloat16):
    train()
"""


def test_autocast_around_a_loop_in_another_function_is_found(tmp_path: Path) -> None:
    assert codes(check(tmp_path, train=AROUND)) == {"AMP325"}


def test_autocast_around_a_loop_keeps_the_weights_it_cast_first() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(3):
            loss = model(torch.ones(2, 4)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert len(set(losses)) == 1


def test_a_scaler_made_by_the_function_of_each_epoch_is_found(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in (LOOP + FORWARD + BACKWARD + STEP).splitlines())
    text = f"{HEAD}\ndef epoch():\n    scaler = torch.amp.GradScaler('cuda')\n{body}\nfor number in range(2):\n    epoch()\n"
    assert codes(check(tmp_path, train=text)) == {"AMP324"}


SAVE = 'torch.save({"net": model.state_dict(), "optim": optimizer.state_dict()}, "last.pt")\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (script(BACKWARD, STEP) + SAVE, {"AMP420"}),
        (script(BACKWARD, STEP) + SAVE.replace("}, ", ', "scaler": scaler.state_dict()}, '), set()),
        (script(BACKWARD, STEP) + 'torch.save(model.state_dict(), "model.pt")\n', set()),
        (script("    loss.backward()\n    optimizer.step()\n") + SAVE, set()),
        (script(BACKWARD, STEP) + 'optimizer.load_state_dict(torch.load("x"))\n', {"AMP421"}),
        (
            script(BACKWARD, STEP) + 'c = torch.load("x")\nscaler.load_state_dict(c["scaler"])\n'
            'optimizer.load_state_dict(c["optim"])\n',
            {"AMP422"},
        ),
        (
            script(BACKWARD, STEP) + 'c = torch.load("x")\nif "scaler" in c:\n    scaler.load_state_dict(c["scaler"])\n'
            'optimizer.load_state_dict(c["optim"])\n',
            set(),
        ),
        (
            script(BACKWARD, STEP) + 'c = torch.load("x")\nassert "scaler" in c, "an old file"\n'
            'scaler.load_state_dict(c["scaler"])\noptimizer.load_state_dict(c["optim"])\n',
            set(),
        ),
        (
            script(BACKWARD, STEP) + 'c = torch.load("x")\nif "scaler" not in c:\n    raise SystemExit("an old file")\n'
            'scaler.load_state_dict(c["scaler"])\noptimizer.load_state_dict(c["optim"])\n',
            set(),
        ),
    ],
)
def test_checkpoints_hold_the_scalers_state(text: str, expected: set[str], tmp_path: Path) -> None:
    assert codes(check(tmp_path, train=text)) == expected


def test_the_scalers_state_is_added_only_where_it_surely_is(tmp_path: Path) -> None:
    maybe = script(BACKWARD, STEP).replace("scaler = torch", "if model:\n    scaler = torch") + SAVE
    (finding,) = [f for f in check(tmp_path, train=maybe).findings if f.code == "AMP420"]
    assert finding.fix is None
    assert not finding.refuses


def test_one_unscaling_mends_all_that_is_read_and_clipped_after_it(tmp_path: Path) -> None:
    read = "    norm = sum(p.grad.norm() for p in model.parameters())\n"
    old = script(BACKWARD, CLIP, CLIP, read, STEP).replace("torch.amp", "torch.cuda.amp").replace('"cuda"', "")
    report = check(tmp_path, unsafe=True, train=old)
    (outcome,) = report.outcomes
    assert outcome.after is not None
    assert outcome.after.count("unscale_(") == 1
    assert outcome.after.index("unscale_(") < outcome.after.index("clip_grad_norm_(")
    (finding,) = (f for f in report.findings if f.code == "AMP220")
    assert [place.anchor.line for place in finding.related] == [11, 13, 14]
    assert codes(check(tmp_path, unsafe=True, train=outcome.after)) == set()


PAIR = """\
import torch
a = torch.nn.Linear(4, 4)
b = torch.nn.Linear(4, 1)
both = torch.nn.Sequential(a, b)
one = torch.optim.SGD(a.parameters(), lr=0.1)
two = torch.optim.SGD(b.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
clip = torch.nn.utils.clip_grad_norm_
for step in range(3):
    both.zero_grad()
    with torch.autocast("cuda"):
        loss = both(torch.ones(2, 4)).mean()
    scaler.scale(loss).backward()
"""
STEP_TWO = "    scaler.step(two)\n    scaler.update()\n"
STEPS = "    scaler.step(one)\n" + STEP_TWO


@pytest.mark.parametrize("done", ["    scaler.unscale_(one)\n", "    scaler.step(one)\n"])
@pytest.mark.parametrize("taken", ["b.parameters()", "both.parameters()", "[*a.parameters(), *b.parameters()]"])
def test_unscaling_for_one_optimizer_leaves_the_gradients_of_another_scaled(
    done: str, taken: str, tmp_path: Path
) -> None:
    steps = STEPS if "unscale_" in done else STEP_TWO
    report = check(tmp_path, unsafe=True, train=f"{PAIR}{done}    clip({taken}, 1.0)\n{steps}")
    assert codes(report) == {"AMP220"}
    after = report.outcomes[0].after
    assert after is not None
    assert f"{done}    scaler.unscale_(two)\n    clip({taken}, 1.0)\n{steps}" in after
    assert codes(check(tmp_path, unsafe=True, train=after)) == set()


def test_each_clip_is_mended_for_the_optimizer_it_is_of(tmp_path: Path) -> None:
    report = check(
        tmp_path, unsafe=True, train=PAIR + "    clip(a.parameters(), 1.0)\n    clip(b.parameters(), 1.0)\n" + STEPS
    )
    after = report.outcomes[0].after
    assert after is not None
    assert "    scaler.unscale_(one)\n    clip(a.parameters(), 1.0)\n" in after
    assert "    scaler.unscale_(two)\n    clip(b.parameters(), 1.0)\n" in after
    assert codes(check(tmp_path, unsafe=True, train=after)) == set()


def test_a_read_of_what_another_optimizer_has_is_told(tmp_path: Path) -> None:
    read = "    norm = sum(p.grad.norm() for p in b.parameters())\n"
    assert codes(check(tmp_path, train=PAIR + "    scaler.step(one)\n" + read + STEP_TWO)) == {"AMP221"}


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        # Each in its turn, though both are parts of one model.
        (PAIR, "    scaler.unscale_(one)\n    clip(a.parameters(), 1.0)\n    scaler.unscale_(two)\n    clip(b.parameters(), 1.0)\n"),
        (PAIR, "    for o in (one, two):\n        scaler.unscale_(o)\n    clip(both.parameters(), 1.0)\n"),
        # Which of the parameters that two optimizers share out are clipped is not known.
        (
            PAIR.replace("(a.parameters(), lr", "([p for p in both.parameters() if p.ndim > 1], lr").replace(
                "(b.parameters(), lr", "([p for p in both.parameters() if p.ndim < 2], lr"
            ),
            "    scaler.unscale_(one)\n    clip([p for p in both.parameters() if p.ndim > 1], 1.0)\n",
        ),
    ],
)  # fmt: skip
def test_gradients_of_unscaled_optimizers_are_right(head: str, lines: str, tmp_path: Path) -> None:
    assert codes(check(tmp_path, train=head + lines + STEPS)) == set()


def test_what_needs_a_review_is_written_when_asked_for(tmp_path: Path) -> None:
    report = check(tmp_path, unsafe=True, train=script(BACKWARD, CLIP, STEP) + SAVE)
    after = report.outcomes[0].after
    assert after is not None
    assert BACKWARD + UNSCALE + CLIP + STEP in after
    assert '"optim": optimizer.state_dict(), "scaler": scaler.state_dict()}' in after


# Spelling


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch.cuda.amp import autocast\nwith autocast():\n    pass\n", 'from torch.amp import autocast\nwith autocast("cuda"):\n    pass\n'),
        ("from torch.cuda import amp\ns = amp.GradScaler(2.0)\n", 'from torch import amp\ns = amp.GradScaler("cuda", 2.0)\n'),
        ("import torch.cuda.amp as amp\nwith amp.autocast(False):\n    pass\n", 'import torch.amp as amp\nwith amp.autocast("cuda", enabled=False):\n    pass\n'),
        ("import torch\nc = torch.cuda.amp.autocast(dtype=torch.float16)\n", 'import torch\nc = torch.amp.autocast("cuda", dtype=torch.float16)\n'),
        (
            "import torch\n\n\nclass F(torch.autograd.Function):\n    @staticmethod\n    @torch.cuda.amp.custom_fwd\n    def forward(ctx, x):\n        return x\n",
            'import torch\n\n\nclass F(torch.autograd.Function):\n    @staticmethod\n    @torch.amp.custom_fwd(device_type="cuda")\n    def forward(ctx, x):\n        return x\n',
        ),
        ("from torch.cuda.amp import custom_fwd as c\n\n@c(cast_inputs=None)\ndef f(x):\n    pass\n", 'from torch.amp import custom_fwd as c\n\n@c(device_type="cuda", cast_inputs=None)\ndef f(x):\n    pass\n'),
    ],
)  # fmt: skip
def test_old_names_are_spelled_for_today(before: str, after: str, tmp_path: Path) -> None:
    report = check(tmp_path, train=before)
    assert report.outcomes[0].after == after
    assert codes(report) == {"AMP504"}


@pytest.mark.parametrize(
    "text",
    [
        "from torch.cuda.amp import autocast\nchoice = autocast if 1 else None\n",
        "from torch.cuda.amp import autocast\nwith autocast(*flags):\n    pass\n",
        "from torch.cuda.amp import autocast, common\n",
        "import torch\nfound = hasattr(torch.cuda.amp, 'autocast')\n",
        "from torch.cuda.amp import *\n",
        "from torch.cuda.amp import autocast\n\ndef f(autocast):\n    with autocast():\n        pass\n",
        "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    class autocast:\n        pass\n",
    ],
)
def test_what_is_handed_on_is_only_reported(text: str, tmp_path: Path) -> None:
    report = check(tmp_path, train=text)
    assert report.outcomes[0].after is None
    (finding,) = report.findings
    assert (finding.code, finding.hint.startswith("by hand: ")) == ("AMP504", True)


def test_names_that_other_files_take_from_here_stay(tmp_path: Path) -> None:
    report = check(
        tmp_path,
        train="from mine import autocast\nwith autocast():\n    pass\n",
        mine="from torch.cuda.amp import autocast\n",
    )
    assert [outcome.after for outcome in report.outcomes] == [None, None]


def test_a_loop_that_makes_the_optimizer_as_well_starts_each_training_anew(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in script(BACKWARD, STEP).splitlines())
    assert codes(check(tmp_path, train=f"def main():\n{body}\nfor seed in range(3):\n    main()\n")) == set()


WRAPPED = """\
import torch
class Scaling:
    def __init__(self):
        self.inner = torch.amp.GradScaler("cuda")
    def __call__(self, loss, optimizer):
        self.inner.scale(loss).backward()
        self.inner.step(optimizer)
        self.inner.update()
    def state_dict(self):
        return self.inner.state_dict()
    def load_state_dict(self, state):
        self.inner.load_state_dict(state)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaling = Scaling()
def resume(path):
    state = torch.load(path)
    optimizer.load_state_dict(state["optimizer"])
    LOAD
def keep(path):
    torch.save({"optimizer": optimizer.state_dict(), SAVE}, path)
resume("last.pt")
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(torch.ones(2, 4)).mean()
    scaling(loss, optimizer)
keep("last.pt")
"""


@pytest.mark.parametrize(
    ("load", "save", "expected"),
    [
        ('if "scaler" in state: scaling.load_state_dict(state["scaler"])', '"scaler": scaling.state_dict()', set()),
        ("pass", '"step": 3', {"AMP420", "AMP421"}),
    ],
)
def test_the_state_of_a_scaler_in_a_class_of_its_own_is_kept_through_that_class(
    tmp_path: Path, load: str, save: str, expected: set[str]
) -> None:
    assert codes(check(tmp_path, train=WRAPPED.replace("LOAD", load).replace("SAVE", save))) == expected


@pytest.mark.parametrize(
    ("autocast", "expected"),
    [
        ('torch.autocast("cuda", torch.float16, False)', set()),
        ('torch.autocast("cuda", torch.float16, True)', {"AMP323"}),
        ("torch.cuda.amp.autocast(False)", {"AMP504"}),
    ],
)
def test_a_cast_under_an_autocast_that_is_turned_off_by_position_is_right(
    tmp_path: Path, autocast: str, expected: set[str]
) -> None:
    text = script(BACKWARD, STEP).replace("loss = model", "loss = model.half()")
    assert codes(check(tmp_path, train=text.replace('torch.autocast("cuda")', autocast))) == expected
