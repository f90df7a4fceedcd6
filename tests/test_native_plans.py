"""How the native target plans a loop: small scripts, each for one turn, with what must be written or why nothing is.

What is written is run as well, in float16 on the CPU: a scaler stops at what it is not asked rightly.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from ampify.index.remedies import DEVICE_HINT, ONE_HINT
from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.pipeline import run
from tests.fixture_run.case import Training
from tests.fixture_run.training import Runner
from tests.test_native_target import forced, runner

__all__ = ["runner"]

SET_UP = """\
import torch

torch.manual_seed(1)
device = torch.device("cpu")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(6, 4)
"""
CAST = 'with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=device.type == "cuda"):'


def migrate(folder: Path, **files: str) -> tuple[dict[str, str], Report]:
    """The texts of some modules after a run, which are written as well."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    report = run([folder], Settings(root=str(folder), target="native"))
    for outcome in report.outcomes:
        if outcome.after is not None:
            Path(folder, outcome.path).write_text(outcome.after, encoding="utf-8")
    return {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in files}, report


def trains(runner: Runner, folder: Path, script: str = "train.py") -> None:
    """Runs a migrated script in float16."""
    runner.losses(Training(script), forced(folder))


def loop(body: str, before: str = "") -> str:
    return SET_UP + dedent(before) + "for step in range(4):\n" + indent(dedent(body), "    ")


def step(text: str) -> str:
    return f"optimizer.zero_grad()\n{text}\noptimizer.step()\n"


@pytest.mark.parametrize(
    ("body", "written"),
    [
        # The loss in the backward's own statement, also where its name is taken.
        (
            step("model(x).mean().backward()"),
            f"{CAST}\n        loss = model(x).mean()\n    scaler.scale(loss).backward()",
        ),
        (
            step("(loss := model(x).mean()).backward()"),
            f"{CAST}\n        loss = model(x).mean()\n    scaler.scale(loss).backward()",
        ),
        # What a loss is gathered in, and loops that compute it.
        (
            step(
                "losses = []\nfor part in x:\n    losses.append(model(part).mean())\nloss = sum(losses)\nloss.backward()"
            ),
            "    losses = []\n    with torch.autocast",
        ),
        # Statements before and after that have nothing to do with it stay where they are.
        (
            step("a = x + 1\nout = model(a)\nprint(out.shape)\nloss = out.mean()\nb = 2\nloss.backward()"),
            f"    a = x + 1\n    {CAST}\n        out = model(a)\n        print(out.shape)\n        loss = out.mean()\n"
            "    b = 2\n    scaler.scale(loss).backward()",
        ),
        # One clip under a condition, two clips: one unscaling, in the rounds of the step.
        (
            step(
                "loss = model(x).mean()\nloss.backward()\nif step:\n"
                "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
            ),
            "    scaler.unscale_(optimizer)\n    if step:\n        torch.nn.utils.clip_grad_norm_",
        ),
        (
            step(
                "loss = model(x).mean()\nloss.backward()\nfor p in model.parameters():\n    p.grad.clamp_(-1, 1)\n"
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
            ),
            "    scaler.unscale_(optimizer)\n    for p in model.parameters():\n        p.grad.clamp_(-1, 1)\n"
            "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    scaler.step(optimizer)",
        ),
        # Gradients that are read after the step are unscaled by then.
        (
            step("loss = model(x).mean()\nloss.backward()") + "print(model[0].weight.grad.norm())\n",
            "    scaler.step(optimizer)\n    scaler.update()\n    print(",
        ),
        # An optimizer that steps twice in a round has its scale adapted in between.
        (
            step("loss = model(x).mean()\nloss.backward()") + step("again = model(x).mean()\nagain.backward()"),
            "    scaler.step(optimizer)\n    scaler.update()\n    optimizer.zero_grad()",
        ),
        # A block without gradients that ends the round is no matter.
        (
            step(
                "if step == 0:\n    with torch.no_grad():\n        print(model(x).shape)\n        continue\n"
                "loss = model(x).mean()\nloss.backward()"
            ),
            f"    {CAST}\n        loss = model(x).mean()\n    scaler.scale(loss).backward()",
        ),
        # What has no gradients stays outside: its cast weights must not be used again.
        (
            step("with torch.no_grad():\n    goal = model(x) + 1\nloss = (model(x) - goal).mean()\nloss.backward()"),
            f"    with torch.no_grad():\n        goal = model(x) + 1\n    {CAST}\n        loss = (model(x) - goal).mean()",
        ),
    ],
)
def test_what_is_written_in_a_loop(body: str, written: str, tmp_path: Path, runner: Runner) -> None:
    texts, report = migrate(tmp_path, train=loop(body))
    assert [summary.state for summary in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert written in texts["train"]
    assert texts["train"].count("unscale_") == written.count("unscale_")
    trains(runner, tmp_path)


GAN = """\
import torch

torch.manual_seed(2)
device = torch.device("cpu")
D = torch.nn.Linear(3, 1).to(device)
G = torch.nn.Linear(3, 3).to(device)
opt_d = torch.optim.SGD(D.parameters(), lr=0.01)
opt_g = torch.optim.SGD(G.parameters(), lr=0.01)
for i in range(4):
    z = torch.randn(5, 3)
    fake = G(z)
    opt_d.zero_grad()
    d_loss = D(fake.detach()).mean() - D(z).mean()
    d_loss.backward()
    opt_d.step()
"""


def test_two_optimizers_share_an_update_where_they_step_together(tmp_path: Path, runner: Runner) -> None:
    body = "    opt_g.zero_grad()\n    g_loss = -D(fake).mean()\n    g_loss.backward()\n    opt_g.step()\n"
    texts, _ = migrate(tmp_path, train=GAN + body)
    assert texts["train"].count("scaler.update()") == 1
    assert texts["train"].endswith("    scaler.step(opt_g)\n    scaler.update()\n")
    assert "    scaler.step(opt_d)\n    opt_g.zero_grad()" in texts["train"]
    trains(runner, tmp_path)


def test_two_optimizers_that_step_at_times_of_their_own_have_updates_of_their_own(
    tmp_path: Path, runner: Runner
) -> None:
    body = "    if i % 2:\n        opt_g.zero_grad()\n        g_loss = -D(G(z)).mean()\n        g_loss.backward()\n"
    texts, _ = migrate(tmp_path, train=f"{GAN}{body}        opt_g.step()\n")
    assert "    scaler.step(opt_d)\n    scaler.update()\n    if i % 2:" in texts["train"]
    assert texts["train"].endswith("        scaler.step(opt_g)\n        scaler.update()\n")
    trains(runner, tmp_path)


def test_an_optimizer_that_steps_again_under_a_condition_has_the_scale_adapted_in_between(
    tmp_path: Path, runner: Runner
) -> None:
    again = "    if i % 2:\n        opt_d.zero_grad()\n        size = D(z).pow(2).mean()\n        size.backward()\n"
    other = "    opt_g.zero_grad()\n    g_loss = -D(G(z)).mean()\n    g_loss.backward()\n    opt_g.step()\n"
    texts, _ = migrate(tmp_path, train=f"{GAN}{again}        opt_d.step()\n{other}")
    assert "    scaler.step(opt_d)\n    scaler.update()\n    if i % 2:" in texts["train"]
    assert "        scaler.step(opt_d)\n        scaler.update()\n" in texts["train"]
    assert texts["train"].endswith("    scaler.step(opt_g)\n    scaler.update()\n")
    trains(runner, tmp_path)


def test_the_scale_does_not_change_while_gradients_wait(tmp_path: Path) -> None:
    body = (
        "    g_loss = -D(fake).mean()\n    g_loss.backward()\n    opt_d.step()\n    if i % 2:\n        opt_g.step()\n"
    )
    before = GAN.replace("    opt_d.step()\n", "") + body
    texts, report = migrate(tmp_path, train=before)
    assert texts["train"] == before
    assert "AMP231" in {finding.code for finding in report.findings if finding.refuses}


TRAINED = step("loss = model(x).mean()\nloss.backward()")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            loop("if x.sum() > step:\n    model(x).mean().backward()\n    continue\noptimizer.step()\n"),
            "AMP231",
            "before",
        ),
        (
            loop(
                "loss = model(x).mean()\nif loss > 0:\n    loss.backward()\noptimizer.step()\noptimizer.zero_grad()\n"
            ),
            "AMP231",
            "need not come before",
        ),
        (
            loop(
                "loss = model(x).mean()\nloss.backward()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                "if step % 2:\n    optimizer.step()\n    optimizer.zero_grad()\n"
            ),
            "AMP231",
            "other rounds",
        ),
        (
            loop(
                "optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()\n"
                "other.zero_grad()\nhead(model(x)).mean().backward()\nother.step()\n"
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)\n",
                "head = torch.nn.Linear(1, 1)\nother = torch.optim.SGD(head.parameters(), lr=0.1)\n",
            ),
            "AMP231",
            "the backward on line",
        ),
        (
            loop(
                "optimizer.zero_grad()\nother.zero_grad()\nloss = model(x).mean()\nloss.backward()\n"
                "optimizer.step()\nother.step()\n",
                "other = torch.optim.SGD(model.parameters(), lr=0.1)\n",
            ),
            "AMP231",
            "the same parameters",
        ),
        (
            loop(
                step(
                    "y = x.clone().requires_grad_()\nout = model(y).sum()\n"
                    "(g,) = torch.autograd.grad(out, y, create_graph=True)\nloss = out + g.norm()\nloss.backward()"
                )
            ),
            "AMP231",
            "part of a loss",
        ),
        (
            loop(
                step("loss = (model(x) - goal(x)).mean()\nloss.backward()"),
                "@torch.no_grad()\ndef goal(x):\n    return model(x) + 1\n",
            ),
            "AMP230",
            "without gradients",
        ),
    ],
)
def test_what_is_not_exact_is_refused_with_its_reason(text: str, code: str, said: str, tmp_path: Path) -> None:
    texts, report = migrate(tmp_path, train=text)
    assert texts["train"] == text
    (finding,) = [finding for finding in report.findings if finding.refuses]
    assert finding.code == code
    assert said in finding.message
    assert finding.hint


def test_a_penalty_in_a_function_of_its_own_is_computed_in_float32(tmp_path: Path, runner: Runner) -> None:
    penalty = """\
def penalty(critic, inputs):
    inputs = inputs.clone().requires_grad_()
    scores = critic(inputs)
    found = torch.autograd.grad(scores, inputs, torch.ones_like(scores), create_graph=True)[0]
    assert scores.dtype == torch.float32
    return ((found.norm(2, dim=1) - 1) ** 2).mean()


"""
    body = step("score = model(x).mean()\ngp = penalty(model, x)\nloss = score + gp\nloss.backward()")
    texts, report = migrate(tmp_path, train=loop(body, penalty))
    assert [summary.state for summary in report.loops] == ["migrated"]
    assert f"    {CAST}\n        score = model(x).mean()\n    gp = penalty(model, x)\n" in texts["train"]
    trains(runner, tmp_path)


# How the scaler gets about

ENGINE = """\
import torch


def train_one(model, optimizer, x{parameters}):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
"""
MAIN = """\
import torch

from engine import train_one


def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        print(train_one({arguments}))


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("parameters", "arguments", "parameters_after", "arguments_after"),
    [
        ("", "model, optimizer, torch.ones(2, 4)", ", scaler", "model, optimizer, torch.ones(2, 4), scaler"),
        (
            "",
            "model, optimizer, x=torch.ones(2, 4)",
            ", scaler",
            "model, optimizer, x=torch.ones(2, 4), scaler=scaler",
        ),
        (
            ", factor: float = 1.0",
            "model, optimizer, torch.ones(2, 4)",
            ", factor: float = 1.0, *, scaler",
            "model, optimizer, torch.ones(2, 4), scaler=scaler",
        ),
        (
            ", **more",
            "*(model, optimizer), torch.ones(2, 4)",
            ", scaler, **more",
            "*(model, optimizer), torch.ones(2, 4), scaler=scaler",
        ),
    ],
)
def test_the_scaler_goes_along_a_call(
    parameters: str, arguments: str, parameters_after: str, arguments_after: str, tmp_path: Path, runner: Runner
) -> None:
    files = {"engine": ENGINE.format(parameters=parameters), "train": MAIN.format(arguments=arguments)}
    texts, report = migrate(tmp_path, **files)
    assert [summary.state for summary in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert f"def train_one(model, optimizer, x{parameters_after}):" in texts["engine"]
    assert f"print(train_one({arguments_after}))" in texts["train"]
    trains(runner, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("\n\ndef train_one", "\n\n@torch.enable_grad()\ndef train_one"), "decorated"),
        (("    return loss.item()\n", "    return loss.item()\n\n\nEPOCHS = [train_one]\n"), "handed on"),
        (
            ("    return loss.item()\n", "    return loss.item()\n\n\ndef other(kept):\n    kept.run = train_one\n"),
            "handed on",
        ),
    ],
)
def test_a_function_that_cannot_be_given_it_refuses_the_loop(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    engine = ENGINE.format(parameters="").replace(*change)
    files = {"engine": engine, "train": MAIN.format(arguments="model, optimizer, torch.ones(2, 4)")}
    texts, report = migrate(tmp_path, **files)
    assert texts == files
    (finding,) = [finding for finding in report.findings if finding.refuses]
    assert finding.code == "AMP122"
    assert said in finding.message


def test_a_function_that_reads_the_optimizer_from_its_module_reads_the_scaler_there(
    tmp_path: Path, runner: Runner
) -> None:
    text = SET_UP + (
        "\n\ndef train(batch):\n" + indent(TRAINED.replace("model(x)", "model(batch)"), "    ") + "\n\ntrain(x)\n"
    )
    texts, _ = migrate(tmp_path, train=text)
    assert "def train(batch):" in texts["train"]
    assert 'scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")\nx = ' in texts["train"]
    trains(runner, tmp_path)


def test_a_name_that_is_taken_is_not_taken_again(tmp_path: Path, runner: Runner) -> None:
    text = loop(TRAINED, "scaler = 2.0\n")
    texts, _ = migrate(tmp_path, train=text)
    assert "grad_scaler = torch.amp.GradScaler(" in texts["train"]
    assert "scaler = 2.0\n" in texts["train"]
    trains(runner, tmp_path)


def test_torch_is_imported_by_name_where_it_is_not_as_a_whole(tmp_path: Path, runner: Runner) -> None:
    text = (
        "from torch import nn, ones, optim\n\nmodel = nn.Linear(4, 1)\n"
        "optimizer = optim.SGD(model.parameters(), lr=0.1)\nfor step in range(3):\n"
        "    optimizer.zero_grad()\n    loss = model(ones(2, 4)).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    texts, _ = migrate(tmp_path, train=text)
    assert "from torch.amp import GradScaler\n" in texts["train"]
    assert 'scaler = GradScaler("cuda", enabled=next(model.parameters()).is_cuda)' in texts["train"]
    trains(runner, tmp_path)


def test_a_model_that_goes_to_the_gpu_either_way_needs_no_condition(tmp_path: Path) -> None:
    text = (
        "import torch\n\ndef main(args):\n    model = torch.nn.Linear(4, 1)\n    if args.distributed:\n"
        "        model = torch.nn.DataParallel(model.cuda())\n    else:\n        model = model.cuda()\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    x = torch.ones(2, 4)\n"
        f"    for step in range(3):\n{indent(TRAINED, '        ')}"
    )
    texts, _ = migrate(tmp_path, train=text)
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in texts["train"]
    assert 'torch.autocast(device_type="cuda", dtype=torch.float16):' in texts["train"]


@pytest.mark.parametrize(
    ("device", "moved", "written"),
    [
        ('device = torch.device("cpu")', "model.to(device)", 'device.type, enabled=device.type == "cuda"'),
        ('where = "cuda" if torch.cuda.is_available() else "cpu"', "model.to(where)", 'where, enabled=where == "cuda"'),
        (
            'args = argparse.ArgumentParser().parse_args()\nargs.device = "cpu"',
            "model.to(args.device)",
            'args.device, enabled=args.device == "cuda"',
        ),
        (
            "use_cuda = torch.cuda.is_available()",
            "if use_cuda:\n    model.cuda()",
            '"cuda", enabled=use_cuda',
        ),
        (
            "args = argparse.Namespace(gpu=0)\nif not torch.cuda.is_available():\n    args.gpu = None",
            "if args.gpu is not None:\n    model.cuda()",
            '"cuda", enabled=args.gpu is not None',
        ),
        (
            "gpus = 0",
            "if gpus > 1:\n    model = torch.nn.DataParallel(model.cuda())\nelif gpus > 0:\n    model.cuda()",
            '"cuda", enabled=next(model.parameters()).is_cuda',
        ),
        (
            "gpus = torch.cuda.device_count()",
            'if gpus:\n    model.cuda()\nelse:\n    model.to("cpu")',
            '"cuda", enabled=next(model.parameters()).is_cuda',
        ),
        (
            "gpus = torch.cuda.device_count()",
            "model = model.cuda() if gpus else model",
            '"cuda", enabled=next(model.parameters()).is_cuda',
        ),
        (
            'where = torch.cuda.current_device() if torch.cuda.is_available() else "cpu"',
            "model.to(where)",
            '"cuda", enabled=next(model.parameters()).is_cuda',
        ),
        (
            "",
            'model.to("cuda" if torch.cuda.is_available() else "cpu")',
            '("cuda" if torch.cuda.is_available() else "cpu"), '
            'enabled=("cuda" if torch.cuda.is_available() else "cpu") == "cuda"',
        ),
        ("", "model = model", '"cuda", enabled=next(model.parameters()).is_cuda'),
    ],
)
def test_the_device_is_told_as_the_script_tells_it(
    device: str, moved: str, written: str, tmp_path: Path, runner: Runner
) -> None:
    text = (
        f"import argparse\n\nimport torch\n\n{device}\nmodel = torch.nn.Linear(4, 1)\n{moved}\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nx = torch.ones(2, 4)\n"
        f"for step in range(3):\n{indent(TRAINED, '    ')}"
    )
    texts, _ = migrate(tmp_path, train=text)
    assert f"scaler = torch.amp.GradScaler({written})" in texts["train"]
    runner.losses(Training("train.py"), tmp_path)


PENALIZED = """\
import torch

torch.manual_seed(1)
device = torch.device("cpu")


class Solver:
    def __init__(self):
        self.critic = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
        self.optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.01)

    def penalty(self, out, inputs):
        assert out.dtype == torch.float32
        found = torch.autograd.grad(out, inputs, torch.ones_like(out), create_graph=True)[0]
        return ((found.norm(2, dim=1) - 1) ** 2).mean()

    def train(self, made):
        for step in range(4):
            real = torch.randn(6, 4, device=device)
            score = self.critic(real)
            fake = made(real).detach()
            alpha = torch.rand(6, 1, device=device)
            mixed = MIXED.requires_grad_()
            out = self.critic(mixed)
            size = self.penalty(out, mixed)
            loss = self.critic(fake).mean() - score.mean() + 10 * size
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print("loss", repr(loss.item()))


Solver().train(torch.nn.Linear(4, 4).to(device))
"""


def test_the_forward_that_a_penalty_is_given_is_computed_in_float32(tmp_path: Path, runner: Runner) -> None:
    before = PENALIZED.replace("MIXED", "(alpha * real + (1 - alpha) * fake)")
    texts, report = migrate(tmp_path, train=before)
    assert "\n            out = self.critic(mixed)\n" in texts["train"]
    assert {f.code for f in report.findings} >= {"AMP306", "AMP227"}
    (tmp_path / "before.py").write_text(before, encoding="utf-8")
    original = runner.losses(Training("before.py"), tmp_path)
    assert runner.losses(Training("train.py"), tmp_path) == original
    # A scale at which no step is skipped, for losses that can be compared.
    low = texts["train"].replace("GradScaler(device.type,", "GradScaler(device.type, init_scale=128.0,")
    (tmp_path / "train.py").write_text(low, encoding="utf-8")
    half = runner.losses(Training("train.py"), forced(tmp_path))
    assert half != original
    assert half.values == pytest.approx(original.values, rel=0.02)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Two statements may set what is differentiated, it is changed in place, or nothing here sets it.
        ("            out = self.critic(mixed)\n", "            if step:\n                out = self.critic(mixed)\n"),
        ("            out = self.critic(mixed)\n", "            out = self.critic(mixed)\n            out += 1\n"),
        ("self.penalty(out, mixed)", "self.penalty(self.critic(mixed), mixed)"),
        # What passes through a module once more is in its precision.
        ("= MIXED.requires_grad_()", "= made(alpha * real + (1 - alpha) * fake).detach().requires_grad_()"),
        # What is mixed, but with an option alone.
        ("= MIXED.requires_grad_()", "= (fake * step).requires_grad_()"),
    ],
)
def test_a_penalty_whose_forward_is_not_told_is_refused(before: str, after: str, tmp_path: Path) -> None:
    text = PENALIZED.replace(before, after).replace("MIXED", "(alpha * real + (1 - alpha) * fake)")
    texts, report = migrate(tmp_path, train=text)
    assert texts["train"] == text
    assert {f.code for f in report.findings if f.refuses} <= {"AMP230", "AMP231"}


@pytest.mark.parametrize("mixed", ["(0.5 * fake)", "torch.clamp(2 * fake, 0, 1)", "fake.clone()"])
def test_a_penalty_on_what_a_model_made_in_half_precision_is_refused(mixed: str, tmp_path: Path) -> None:
    before = PENALIZED.replace("MIXED", mixed)
    texts, report = migrate(tmp_path, train=before)
    assert texts["train"] == before
    assert [f.code for f in report.findings if f.refuses] == ["AMP231"]


TRAINER = """\
import torch


class Base:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def step(self, x):
        raise NotImplementedError

    def fit(self, data, rounds):
        for _ in range(rounds):
            for x in data:
                self.step(x)


class Trainer(Base):
    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).mean()
        loss.backward()
        self.optimizer.step()
        print("loss", repr(loss.item()))


model = torch.nn.Linear(4, 1)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
data = [torch.ones(2, 4)]
trainer.fit(data, 2)
trainer.fit(data, 1)
"""


def test_a_penalty_on_what_was_reshaped_since_it_was_mixed_is_computed_in_float32(tmp_path: Path) -> None:
    mixed = "(alpha * real + (1 - alpha) * fake)"
    text = PENALIZED.replace(
        "            mixed = MIXED", f"            mixed = {mixed}\n            mixed = mixed.view(6, 4)"
    )
    texts, report = migrate(tmp_path, train=text)
    assert [summary.state for summary in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert "\n            out = self.critic(mixed)\n" in texts["train"]


def test_a_trainer_that_is_run_twice_steps_one_optimizer(tmp_path: Path, runner: Runner) -> None:
    _, report = migrate(tmp_path, train=TRAINER)
    assert [summary.state for summary in report.loops] == ["migrated"], [f.message for f in report.findings]
    trains(runner, tmp_path)


SEVERAL = """\
import torch

torch.manual_seed(1)


class Trainer:
    def __init__(self, size, device):
        self.model = torch.nn.Linear(4, size).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def fit(self, x):
        for step in range(3):
            self.optimizer.zero_grad()
            self.model(x).pow(2).mean().backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()

    def loss(self, x):
        return self.model(x).pow(2).mean()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


device = torch.device("cpu")
x = torch.randn(6, 4)
"""
TWICE = "first = Trainer(2, device)\nsecond = Trainer(3, device)\n"


@pytest.mark.parametrize(
    "code",
    [
        TWICE + "first.fit(x)\nsecond.fit(x)\n",
        "Trainer(2, device).fit(x)\nTrainer(3, device).fit(x)\n",
    ],
)
def test_each_of_several_objects_of_one_class_has_a_scaler_of_its_own(
    code: str, tmp_path: Path, runner: Runner
) -> None:
    texts, report = migrate(tmp_path, train=SEVERAL + code)
    assert not [finding for finding in report.findings if finding.refuses]
    assert texts["train"].count("self.scaler = torch.amp.GradScaler(") == 1
    assert "self.scaler.scale(self.model" not in texts["train"]
    for written in ("self.scaler.scale(loss).backward()", "self.scaler.unscale_(self.optimizer)"):
        assert texts["train"].count(written) == 1
    assert texts["train"].endswith(code)
    trains(runner, tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        # Both are trained in one loop, so that a place is looked for where both are ready.
        "for epoch in range(2):\n    first.fit(x)\n    second.fit(x)\n",
        "(first.loss(x) + second.loss(x)).backward()\nfirst.step()\nsecond.step()\n",
        "first.fit(x)\nsecond.fit(x)\n(first.loss(x) + second.loss(x)).backward()\nfirst.step()\nsecond.step()\n",
        "first.fit(x)\nsecond.fit(x)\nfirst.loss(x).backward()\nfirst.step()\n",
    ],
)
def test_objects_of_one_class_that_train_together_are_left_alone(code: str, tmp_path: Path) -> None:
    texts, report = migrate(tmp_path, train=SEVERAL + TWICE + code)
    assert texts["train"] == SEVERAL + TWICE + code
    (finding,) = [finding for finding in report.findings if finding.refuses]
    assert (finding.code, finding.hint) == ("AMP122", ONE_HINT)


def test_models_of_a_list_that_nothing_moves_are_told_what_to_do(tmp_path: Path) -> None:
    text = """\
import torch

models = [torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
for step in range(3):
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).pow(2).mean().backward()
        optimizer.step()
"""
    texts, report = migrate(tmp_path, train=text)
    assert texts["train"] == text
    (finding,) = [finding for finding in report.findings if finding.refuses]
    assert (finding.code, finding.hint) == ("AMP122", DEVICE_HINT)


def test_gradients_that_are_only_deleted_are_not_used(tmp_path: Path, runner: Runner) -> None:
    """After an error of memory, say: the next step clears them anyway."""
    text = loop(
        """\
        optimizer.zero_grad()
        try:
            loss = model(x).pow(2).mean()
            loss.backward()
        except RuntimeError:
            for p in model.parameters():
                if p.grad is not None:
                    del p.grad
            continue
        optimizer.step()
        """
    )
    texts, _ = migrate(tmp_path, train=text)
    assert "scaler.step(optimizer)" in texts["train"]
    assert "scaler.unscale_" not in texts["train"]
    trains(runner, tmp_path)


def test_one_scaler_serves_optimizers_that_take_turns(tmp_path: Path, runner: Runner) -> None:
    later = "if step == 2:\n    optimizer = torch.optim.Adam(model.parameters())\n"
    texts, report = migrate(tmp_path, train=loop(later + step("loss = model(x).pow(2).mean()\nloss.backward()")))
    assert [entry.state for entry in report.loops] == ["migrated"]
    assert texts["train"].count("GradScaler(") == 1
    trains(runner, tmp_path)


def test_a_function_that_cannot_be_given_the_scaler_is_not_taken_for_given_it_later(tmp_path: Path) -> None:
    """Two places of one method load the optimizer's state, and the method is handed on: neither knows a scaler."""
    text = """\
import torch


class Checkpointer:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def load(self, path):
        checkpoint = torch.load(path)
        if "optimizer" in checkpoint:
            self.optimizer.load_state_dict(checkpoint["optimizer"])
        else:
            self.optimizer.load_state_dict(checkpoint["old"])


def main():
    device = torch.device("cuda")
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpointer = Checkpointer(optimizer)
    checkpointer.load("last.pt")
    print(checkpointer.load)
    for x, y in [(torch.ones(3, 4, device=device), torch.zeros(3, 2, device=device))]:
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()


main()
"""
    texts, report = migrate(tmp_path, train=text)
    assert [loop.state for loop in report.loops] == ["migrated"]
    assert texts["train"].partition("def main")[0] == text.partition("def main")[0]
    assert [f.anchor.line for f in report.findings if f.code == "AMP431"] == [11, 13]
