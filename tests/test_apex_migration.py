"""Scripts on NVIDIA apex: every form of import moves to the runtime, what has no equal stays, and the result trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.pipeline import run

ROOT = Path(__file__).resolve().parents[1]
LOOP = """\
for step in range(3):
    optimizer.zero_grad()
    with amp.scale_loss(model(torch.ones(2, 4)).mean(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
MODEL = """\
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
INITIALIZE = 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n'


def migrate(folder: Path, settings: Settings | None = None, **files: str) -> Report:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path if path.suffix else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return run([folder], settings or Settings(root=str(folder)))


def text_of(report: Report, name: str = "train.py") -> str | None:
    """The new text of a file, None if it stays."""
    return next(o.after for o in report.outcomes if o.path.endswith(name))


def codes(report: Report) -> list[tuple[str, int, bool]]:
    return [(f.code, f.anchor.line, f.refuses) for f in report.findings if f.code != "AMP110"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from apex import amp\n", "from ampify_runtime import amp\n"),
        ("from apex import amp as mixed, optimizers\n", "from ampify_runtime import amp as mixed, optimizers\n"),
        ("import apex.amp as amp\n", "import ampify_runtime.amp as amp\n"),
        ("import os, apex, apex.parallel\n", "import os, ampify_runtime, ampify_runtime.parallel\n"),
        ("import apex as a\nprint(a.amp.scale_loss)\n", "import ampify_runtime as a\nprint(a.amp.scale_loss)\n"),
        ("from apex.optimizers import *  # all\n", "from ampify_runtime.optimizers import *  # all\n"),
        (
            "from apex.parallel import (\n    DistributedDataParallel as DDP,  # ours\n    convert_syncbn_model,\n)\n",
            "from ampify_runtime.parallel import (\n    DistributedDataParallel as DDP,  # ours\n"
            "    convert_syncbn_model,\n)\n",
        ),
        ("from apex.parallel.LARC import LARC\n", "from ampify_runtime.parallel.LARC import LARC\n"),
        (
            "def f(args):\n    if args.fp16:\n        from apex import amp\n        return amp\n",
            "def f(args):\n    if args.fp16:\n        from ampify_runtime import amp\n        return amp\n",
        ),
        (
            "try:\n    import apex\nexcept ImportError:\n    apex = None\nif apex is not None:\n    apex.amp.initialize(1)\n",
            "try:\n    import ampify_runtime\nexcept ImportError:\n    ampify_runtime = None\n"
            "if ampify_runtime is not None:\n    ampify_runtime.amp.initialize(1)\n",
        ),
        (
            "import apex\n\ndef f(apex):\n    return apex.other\n\nprint(apex.amp)\n",
            "import ampify_runtime\n\ndef f(apex):\n    return apex.other\n\nprint(ampify_runtime.amp)\n",
        ),
        (
            'import importlib\n\namp = importlib.import_module("apex.amp")\nname = "apex.amp"\n',
            'import importlib\n\namp = importlib.import_module("ampify_runtime.amp")\nname = "apex.amp"\n',
        ),
        (
            "try:\n    from apex import amp\nexcept ImportError:\n"
            "    raise ImportError('Please install apex from https://www.github.com/nvidia/apex to run this.')\n",
            "try:\n    from ampify_runtime import amp\nexcept ImportError:\n"
            "    raise ImportError('Please install ampify to run this.')\n",
        ),
        (
            'try:\n    from apex import amp\nexcept:\n    raise ("Please install apex for mixed precision training")\n',
            "try:\n    from ampify_runtime import amp\nexcept:\n"
            '    raise ("Please install ampify for mixed precision training")\n',
        ),
        (
            "from apex import amp\nprint('Install NVIDIA Apex for Apex AMP.', 'apex is not installed')\n",
            "from ampify_runtime import amp\nprint('Install ampify for Apex AMP.', 'ampify is not installed')\n",
        ),
        ('"""Needs you to install apex."""\nfrom apex import amp\n', '"""Needs you to install apex."""\nfrom ampify_runtime import amp\n'),
    ],
)  # fmt: skip
def test_every_form_of_import_moves(before: str, after: str, tmp_path: Path) -> None:
    report = migrate(tmp_path, train=before)
    assert text_of(report) == after
    assert {code for code, _, _ in codes(report)} - {"AMP106"} == {"AMP502"}


def test_a_copy_of_the_runtime_is_imported_from_where_it_is(tmp_path: Path) -> None:
    settings = Settings(root=str(tmp_path), vendor="third_party")
    report = migrate(tmp_path, settings, train="import apex\nfrom apex import amp\n\nprint(apex.amp, amp)\n")
    assert text_of(report) == (
        "import third_party.ampify_runtime\nfrom third_party.ampify_runtime import amp\n\n"
        "print(third_party.ampify_runtime.amp, amp)\n"
    )


@pytest.mark.parametrize(
    ("text", "line", "nearest"),
    [
        ("from apex.contrib.xentropy import SoftmaxCrossEntropyLoss\n", 1, "torch.nn.functional.cross_entropy"),
        ("import amp_C\n", 1, "from ampify_runtime import amp_C"),
        ("from apex.transformer import parallel_state\n", 1, "megatron.core"),
        ("import apex\n\nprint(apex.RNN.LSTM)\n", 3, "torch.nn.LSTM"),
        ("import importlib\n\nimportlib.import_module('apex.contrib.fmha')\n", 3, "scaled_dot_product_attention"),
    ],
)
def test_what_has_no_equal_stays_and_the_nearest_is_named(text: str, line: int, nearest: str, tmp_path: Path) -> None:
    report = migrate(tmp_path, train=text)
    assert text_of(report) is None
    (finding,) = report.findings
    assert (finding.code, finding.anchor.line, finding.refuses) == ("AMP503", line, True)
    assert nearest in finding.hint


def test_other_imports_move_beside_what_has_no_equal_and_the_message_stays_true(tmp_path: Path) -> None:
    text = f"""\
import torch
try:
    from apex import amp
    from apex.contrib.sparsity import ASP
except ImportError:
    raise ImportError("install apex")
{MODEL}{INITIALIZE}{LOOP}"""
    report = migrate(tmp_path, train=text)
    assert text_of(report) == text.replace("from apex import amp", "from ampify_runtime import amp")
    assert [loop.state for loop in report.loops] == ["migrated"]


def test_a_part_of_amp_without_an_equal_keeps_all_that_runs_together_on_apex(tmp_path: Path) -> None:
    script = f"import torch\nfrom apex import amp\nimport casts\n{MODEL}{INITIALIZE}{LOOP}"
    report = migrate(tmp_path, train=script, casts="from apex.amp import wrap\n", other="from apex import amp\n")
    assert text_of(report) is None
    assert text_of(report, "casts.py") is None
    assert text_of(report, "other.py") == "from ampify_runtime import amp\n"
    assert [loop.state for loop in report.loops] == ["refused"]


def test_the_projects_own_apex_is_not_nvidias(tmp_path: Path) -> None:
    report = migrate(tmp_path, train="from apex import amp\n", apex__amp="x = 1\n")
    assert text_of(report) is None


def test_not_selected_the_loops_stay_with_their_imports(tmp_path: Path) -> None:
    script = f"import torch\nfrom apex import amp\n{MODEL}{LOOP}"
    report = migrate(tmp_path, Settings(root=str(tmp_path), ignore=("AMP502",)), train=script)
    assert text_of(report) is None
    assert [loop.state for loop in report.loops] == ["refused"]


# What an `if` switches off


SWITCHED = """\
import argparse
import torch
from apex import amp
args = argparse.ArgumentParser().parse_args()
{model}if args.fp16:
    {initialize}for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    {backward}
    optimizer.step()
"""


def switched(backward: str) -> str:
    return SWITCHED.format(model=MODEL, initialize=INITIALIZE, backward=backward.replace("\n", "\n    "))


def test_the_arm_without_amp_is_right(tmp_path: Path) -> None:
    text = switched(
        "if args.fp16:\n    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n"
        "else:\n    loss.backward()\n"
        "if args.fp16:\n    torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)\n"
        "else:\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    )
    report = migrate(tmp_path, train=text)
    assert text_of(report) == text.replace("from apex", "from ampify_runtime")
    assert codes(report) == [("AMP502", 3, False)]
    assert {entry.state for entry in report.ledger} == {"right"}


def test_a_backward_outside_is_refused_where_amp_can_be_off(tmp_path: Path) -> None:
    text = switched("loss.backward()")
    report = migrate(tmp_path, train=text)
    # The runtime would refuse the step: the import waits for its author.
    assert text_of(report) is None
    expected = [("AMP502", 3, True), ("AMP502", 3, False), ("AMP106", 8, False), ("AMP201", 12, True)]
    assert codes(report) == expected


def test_a_backward_outside_is_scaled_where_amp_is_always_on(tmp_path: Path) -> None:
    plain = (
        "for step in range(3):\n    loss = model(torch.ones(2, 4)).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    report = migrate(tmp_path, train=f"import torch\nfrom apex import amp\n{MODEL}{INITIALIZE}{plain}")
    after = text_of(report)
    assert after is not None
    assert "    with amp.scale_loss(loss, optimizer) as scaled_loss:\n        scaled_loss.backward()\n" in after


def test_a_clip_of_the_models_parameters_is_mended_where_the_import_might_fail(tmp_path: Path) -> None:
    text = switched(
        "if args.fp16:\n    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n"
        "else:\n    loss.backward()\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    ).replace("from apex import amp\n", "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n")
    after = text_of(migrate(tmp_path, train=text))
    assert after is not None
    # The runtime needs torch alone: it is there, whether amp is on or not.
    assert after.startswith("import argparse\nimport torch\nfrom ampify_runtime import amp\ntry:\n")
    assert "clip_grad_norm_(amp.master_params(optimizer), 1.0)" in after


def test_amp_state_that_joins_the_checkpoint_under_a_condition_is_there(tmp_path: Path) -> None:
    text = switched(
        "with amp.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()\n"
        'state = {"optimizer": optimizer.state_dict()}\n'
        'if args.fp16:\n    state["amp"] = amp.state_dict()\n'
        'torch.save(state, "last.pt")'
    )
    report = migrate(tmp_path, train=text)
    assert text_of(report) == text.replace("from apex", "from ampify_runtime")


def test_what_only_forbids_a_migration_is_no_reproach_to_one_that_was_made(tmp_path: Path) -> None:
    text = switched(
        "with amp.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()\n"
        "norm = sum(p.grad.norm() for p in amp.master_params(optimizer))"
    )
    report = migrate(tmp_path, train=text)
    assert codes(report) == [("AMP502", 3, False)]
    assert [loop.state for loop in report.loops] == ["migrated"]


# A wrap before the call


WRAPPED = f"""\
import torch
from ampify_runtime import amp
from torch.nn.parallel import DataParallel
model = torch.nn.Linear(4, 1)
{{wrap}}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level={{level}})
{LOOP}"""


def wrapped(level: str, wrap: str = "model = DataParallel(model)") -> str:
    return WRAPPED.format(wrap=wrap, level=level)


def test_a_wrap_before_a_call_that_casts_parameters_moves_behind_it_when_asked_to(tmp_path: Path) -> None:
    report = migrate(tmp_path, train=wrapped("'O2'"))
    assert text_of(report) is None
    assert [(c, line, refuses) for c, line, refuses in codes(report)] == [("AMP103", 5, True)]
    unsafe = migrate(tmp_path, Settings(root=str(tmp_path), unsafe=True), train=wrapped("'O2'"))
    after = text_of(unsafe)
    assert after is not None
    assert after.index("amp.initialize(") < after.index("model = DataParallel(model)")
    assert codes(migrate(tmp_path, train=after)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wrapped("'O1'"), []),
        (wrapped("level()"), [("AMP103", 5, False)]),
        (wrapped("'O2'", "model = DataParallel(model)\nprint(model.module)"), [("AMP103", 5, True)]),
        (wrapped("'O3'", "outer = DataParallel(model)"), [("AMP103", 5, True)]),
    ],
)
def test_a_wrap_that_cannot_simply_move_is_only_reported(
    text: str, expected: list[tuple[str, int, bool]], tmp_path: Path
) -> None:
    report = migrate(tmp_path, Settings(root=str(tmp_path), unsafe=True), train=text)
    assert (codes(report), text_of(report)) == (expected, None)


# Beside the code


def test_requirements_lose_apex_and_other_files_are_named(tmp_path: Path) -> None:
    report = migrate(
        tmp_path,
        train="from apex import amp\n",
        **{
            "requirements.txt": "torch>=2.4\napex==0.1\nnumpy\n",
            "Dockerfile.txt": "FROM x\n",
            "README.md": "# Run\n\ngit clone https://github.com/NVIDIA/apex\n",
            "environment.yml": "dependencies:\n  - pytorch\n  - pip:\n    - apex\n",
        },
    )
    assert text_of(report, "requirements.txt") == "torch>=2.4\nampify>=0.1\nnumpy\n"
    told = [(Path(f.anchor.path).name, f.anchor.line, f.fix is None) for f in report.findings if f.code == "AMP114"]
    assert told == [("README.md", 3, True), ("environment.yml", 4, True), ("requirements.txt", 2, False)]


def test_requirements_keep_apex_where_something_of_it_stays(tmp_path: Path) -> None:
    files = {"requirements.txt": "torch>=2.4\napex\n"}
    report = migrate(tmp_path, train="from apex import amp\nfrom apex.RNN import LSTM\n", **files)
    assert text_of(report, "requirements.txt") == "torch>=2.4\nampify>=0.1\napex\n"
    assert "AMP114" not in {f.code for f in report.findings}


# Running


def losses(folder: Path, *arguments: str, **environment: str) -> list[str]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    command = [sys.executable, *arguments]
    ran = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("loss")]


def test_the_migrated_script_trains_alike_with_amp_off_and_without(tmp_path: Path) -> None:
    script = ROOT / "fixtures" / "apex_script" / "after" / "run_glue.py"
    plain = losses(tmp_path, str(script))
    assert len(plain) == 4
    assert losses(tmp_path, str(script), "--fp16", AMPIFY_OPT_LEVEL="O0") == plain
    assert losses(tmp_path, str(script), "--fp16", AMPIFY_DTYPE="bfloat16") != plain


def test_the_repaired_checkpoint_goes_on_where_it_was(tmp_path: Path) -> None:
    script = ROOT / "fixtures" / "apex_unfinished" / "after" / "train.py"
    whole = losses(tmp_path, str(script), "--epochs", "1", AMPIFY_DTYPE="float16")
    resumed = losses(tmp_path, str(script), "--epochs", "2", "--resume", "last.pth", AMPIFY_DTYPE="float16")
    assert (len(whole), len(resumed)) == (4, 4)


@pytest.mark.parametrize(
    "use", ["torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "if step % 2:\n            optimizer.step()"]
)
def test_gradients_used_before_they_are_unscaled_are_told_of_and_the_use_stays(tmp_path: Path, use: str) -> None:
    inside = LOOP.replace("scaled_loss.backward()\n", f"scaled_loss.backward()\n        {use}\n")
    report = migrate(tmp_path, train="import torch\nfrom apex import amp\n" + MODEL + INITIALIZE + inside)
    assert "AMP216" in {code for code, _, refuses in codes(report) if refuses}
    assert use in (text_of(report) or "")


def test_the_import_waits_too_where_a_loop_that_could_be_scaled_is_refused(tmp_path: Path) -> None:
    """Its backward stays unscaled, whatever it is refused for."""
    text = (
        f"import torch\ntry:\n    from apex import amp\nexcept ImportError:\n    amp = None\n{MODEL}"
        f"if amp is not None:\n    {INITIALIZE}"
        "for p in model.parameters():\n    p.register_hook(lambda g: g.clamp(-1, 1))\n"
        "for step in range(3):\n    loss = model(torch.ones(2, 4)).mean()\n    optimizer.zero_grad()\n"
        "    loss.backward()\n    optimizer.step()\n"
    )
    report = migrate(tmp_path, train=text)
    assert text_of(report) is None
    assert {"AMP215", "AMP502"} <= {code for code, _, refuses in codes(report) if refuses}


def test_an_optimizer_stays_with_the_one_around_it_that_has_no_equal(tmp_path: Path) -> None:
    """The wrapper hands its optimizer arguments that only apex's takes: half a move would break what worked."""
    text = """\
        import torch
        try:
            from apex.optimizers import FP16_Optimizer, FusedAdam
            from apex.normalization import FusedLayerNorm
        except ImportError:
            raise ImportError("Please install apex to use fp16.")
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), FusedLayerNorm(4)).half()
        optimizer = FP16_Optimizer(FusedAdam(model.parameters(), max_grad_norm=1.0), dynamic_loss_scale=True)
        for batch in torch.rand(3, 2, 4):
            optimizer.backward(model(batch.half()).float().mean())
            optimizer.step()
        """
    report = migrate(tmp_path, train=text)
    after = text_of(report)
    assert after is not None
    assert "from apex.optimizers import FP16_Optimizer, FusedAdam\n" in after
    assert "from ampify_runtime.normalization import FusedLayerNorm\n" in after
    assert "install apex" in after
    assert ("AMP503", 3, True) in codes(report)


def test_a_message_in_an_f_string_stays(tmp_path: Path) -> None:
    text = """\
        import warnings
        import torch
        try:
            from apex.normalization import FusedLayerNorm
        except ImportError:
            warnings.warn(f"Please install apex to be faster")
            FusedLayerNorm = None
        """
    after = text_of(migrate(tmp_path, train=text))
    assert after is not None
    assert "from ampify_runtime.normalization import" in after
    assert 'warnings.warn(f"Please install apex to be faster")' in after
