"""Cases on NVIDIA apex, which cannot be installed here, run as they are once migrated: for the runtime and for torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ampify.model.settings import Settings
from ampify.pipeline import run

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "fixtures"


def on_cpu(text: str) -> str:
    """A script for torch that does on the CPU what it would on a GPU."""
    return re.sub(r"""(["'])cuda\1""", r"\1cpu\1", text).replace("next(model.parameters()).is_cuda", "True")


def printed(script: Path, *arguments: str, **environment: str) -> list[list[float]]:
    """The numbers of each line with a loss that a script prints, in float16 unless told otherwise."""
    env = {"PYTHONPATH": str(ROOT / "runtime"), "AMPIFY_DTYPE": "float16", "OMP_NUM_THREADS": "1"}
    env["GLOO_SOCKET_IFNAME"] = "lo"
    done = subprocess.run(
        [sys.executable, script.name, *arguments],
        cwd=script.parent,
        env=os.environ | env | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [[float(word) for word in line.split()[1:]] for line in done.stdout.splitlines() if line.startswith("loss")]


def copied(case: str, version: str, folder: Path) -> Path:
    (source,) = (CASES / case / version).glob("*.py")
    text = source.read_text(encoding="utf-8")
    folder.mkdir()
    script = folder / source.name
    # What stays on apex is the runtime's here, which has it under the same names.
    on_torch = on_cpu(text).replace("from apex", "from ampify_runtime")
    script.write_text(on_torch if version == "after-native" else text, encoding="utf-8")
    return script


def as_apex_saves(path: Path) -> None:
    """Rewrites a checkpoint of the runtime to what apex saves: optimizers count steps by group alone."""
    saved = torch.load(path)
    assert any("step" in group for group in saved["optimizer"]["param_groups"])
    for state in saved["optimizer"]["state"].values():
        del state["step"]
    torch.save(saved, path)


def test_fused_parts_train_alike_for_torch_and_on_the_runtime(tmp_path: Path) -> None:
    runtime = printed(copied("apex_fused_parts", "after", tmp_path / "runtime"))
    native = printed(copied("apex_fused_parts", "after-native", tmp_path / "native"))
    assert len(runtime) == 4
    # Apex's layer norm rounds to float16 what torch's leaves in float32.
    for ours, theirs in zip(native, runtime, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
    full = printed(copied("apex_fused_parts", "after", tmp_path / "full"), AMPIFY_OPT_LEVEL="O0")
    assert full != runtime
    assert full != native


@pytest.mark.parametrize("version", ["after", "after-native"])
def test_their_checkpoints_go_on_exactly(version: str, tmp_path: Path) -> None:
    whole = printed(copied("apex_fused_parts", version, tmp_path / "whole"), "--steps", "0", "4")
    script = copied("apex_fused_parts", version, tmp_path / "parted")
    assert printed(script, "--steps", "0", "2") + printed(script, "--steps", "2", "4") == whole
    # The test can fail: a model that is not loaded begins anew.
    assert printed(script, "--steps", "2", "4", "--checkpoint", "none.pt") != whole[2:]


def test_an_apex_checkpoint_is_read_by_what_was_written_for_torch(tmp_path: Path) -> None:
    saved = copied("apex_fused_parts", "after", tmp_path / "runtime")
    printed(saved, "--steps", "0", "2")
    as_apex_saves(saved.parent / "last.pt")
    script = copied("apex_fused_parts", "after-native", tmp_path / "native")
    old = (saved.parent / "last.pt").read_bytes()
    (script.parent / "last.pt").write_bytes(old)
    ours, theirs = printed(script, "--steps", "2", "4"), printed(saved, "--steps", "2", "4")
    assert [a == pytest.approx(b, rel=1e-3) for a, b in zip(ours, theirs, strict=True)] == [True, True]
    # The test can fail: torch's optimizer by itself does not read it.
    text = script.read_text(encoding="utf-8")
    plain = text.replace("{**optimizer_state, 'state': states}", "optimizer_state")
    assert plain != text
    script.write_text(plain, encoding="utf-8")
    (script.parent / "last.pt").write_bytes(old)
    with pytest.raises(AssertionError, match="KeyError: 'step'"):
        printed(script, "--steps", "2", "4")


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("apex_script", ["--fp16"]),
        ("apex_script", []),
        ("apex_script", ["--fp16", "--fp16_opt_level", "O0"]),
        ("apex_distributed", []),
        ("apex_wrapped_first", []),
        ("apex_sync_batchnorm", []),
        ("apex_lamb_and_larc", []),
        ("apex_lamb_and_larc", ["--optimizer", "larc"]),
    ],
)
def test_what_was_written_for_torch_trains_as_on_the_runtime(case: str, arguments: list[str], tmp_path: Path) -> None:
    runtime = printed(copied(case, "after", tmp_path / "runtime"), *arguments)
    assert len(runtime) == 4
    assert printed(copied(case, "after-native", tmp_path / "native"), *arguments) == runtime
    full = printed(copied(case, "after", tmp_path / "full"), *arguments, AMPIFY_OPT_LEVEL="O0")
    off = case == "apex_script" and arguments in ([], ["--fp16", "--fp16_opt_level", "O0"])
    assert (full == runtime) == off


def test_a_forgotten_scale_and_an_unfinished_script_train_on_torch(tmp_path: Path) -> None:
    """The first gets the scale that it lacked on apex; in the second, torch's layer norm leaves float32."""
    for case, tolerance in (("apex_forgotten_scale", 0.0), ("apex_unfinished", 1e-3)):
        runtime = printed(copied(case, "after", tmp_path / f"{case}-runtime"))
        native = printed(copied(case, "after-native", tmp_path / f"{case}-native"))
        assert [a == pytest.approx(b, rel=tolerance) for a, b in zip(native, runtime, strict=True)] == [True] * len(
            runtime
        )


def test_an_unfinished_script_on_torch_reads_a_checkpoint_of_apex_without_a_scale(tmp_path: Path) -> None:
    saved = copied("apex_unfinished", "after", tmp_path / "runtime")
    printed(saved, "--epochs", "1")
    as_apex_saves(saved.parent / "last.pth")
    old = torch.load(saved.parent / "last.pth")
    del old["amp"]
    torch.save(old, saved.parent / "last.pth")
    script = copied("apex_unfinished", "after-native", tmp_path / "native")
    (script.parent / "last.pth").write_bytes((saved.parent / "last.pth").read_bytes())
    arguments = ("--epochs", "2", "--resume", "last.pth")
    ours, theirs = printed(script, *arguments), printed(saved, *arguments)
    assert [a == pytest.approx(b, rel=2e-3) for a, b in zip(ours, theirs, strict=True)] == [True] * 4


RESUMED = {
    "apex_distributed": (["--steps", "2"], ["--steps", "4", "--resume", "last.pt"]),
    "apex_sync_batchnorm": (["--steps", "0", "2"], ["--steps", "2", "4"]),
    "apex_lamb_and_larc": (["--steps", "0", "2"], ["--steps", "2", "4"]),
}


@pytest.mark.parametrize("case", RESUMED)
def test_on_torch_a_checkpoint_goes_on_exactly_and_one_of_apex_is_read(case: str, tmp_path: Path) -> None:
    first, second = RESUMED[case]
    whole = printed(copied(case, "after-native", tmp_path / "whole"))
    script = copied(case, "after-native", tmp_path / "parted")
    assert printed(script, *first) + printed(script, *second) == whole
    saved = copied(case, "after", tmp_path / "runtime")
    printed(saved, *first)
    (script.parent / "last.pt").write_bytes((saved.parent / "last.pt").read_bytes())
    assert "loss_scaler0" in torch.load(script.parent / "last.pt")["amp"]
    assert printed(script, *second) == whole[2:]


def test_a_checkpoint_that_was_saved_without_a_scale_is_read_where_there_is_one(tmp_path: Path) -> None:
    off = copied("apex_sync_batchnorm", "after-native", tmp_path / "off")
    text = off.read_text(encoding="utf-8")
    off.write_text(text.replace("enabled=True", "enabled=False"), encoding="utf-8")
    printed(off, "--steps", "0", "2")
    assert torch.load(off.parent / "last.pt")["amp"] == {}
    on = copied("apex_sync_batchnorm", "after-native", tmp_path / "on")
    (on.parent / "last.pt").write_bytes((off.parent / "last.pt").read_bytes())
    assert len(printed(on, "--steps", "2", "4")) == 2


@pytest.mark.parametrize(
    ("case", "on", "off"), [("apex_fp16_optimizer", ["--fp16"], []), ("apex_handle", [], ["--no-amp"])]
)
def test_older_interfaces_train_on_the_runtime(case: str, on: list[str], off: list[str], tmp_path: Path) -> None:
    script = copied(case, "after", tmp_path / "runtime")
    half, full = printed(script, *on), printed(script, *off)
    assert half != full
    assert [a == pytest.approx(b, rel=2e-2) for a, b in zip(half, full, strict=True)] == [True] * 4


def test_a_handle_is_refused_for_torch() -> None:
    folder = CASES / "apex_handle" / "before"
    report = run([folder], Settings(root=str(folder), target="native", cache=False))
    assert not any(outcome.after for outcome in report.outcomes)
    assert [loop.state for loop in report.loops] == ["refused"]
    told = [f for f in report.findings if f.code == "AMP514" and "torch.amp.GradScaler" in f.message]
    assert ["fp32_from_fp16" in f.hint for f in told] == [False]


def test_without_masters_torch_trains_as_at_the_runtimes_o1(tmp_path: Path) -> None:
    """Parameters stay float32, so that it is O1 with the same static scale, bit for bit; where the flag is not given,
    it is the script as it was."""
    native = copied("apex_fp16_optimizer", "after-native", tmp_path / "native")
    runtime = copied("apex_fp16_optimizer", "after", tmp_path / "runtime")
    assert printed(native) == printed(runtime)
    text = runtime.read_text(encoding="utf-8")
    begun = "model, optimizer = amp.initialize(model, optimizer, opt_level='O1', loss_scale=args.static_loss_scale)\n"
    scaled = "with amp.scale_loss(loss, optimizer) as scaled:\n            scaled.backward()"
    clipped = "torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)"
    start, end = text.index("if args.fp16:\n    optimizer"), text.index("\nfor step")
    by_hand = (
        f"{text[:start]}{begun}{text[end:]}".replace("    model = network_to_half(model)", "    pass")
        .replace(
            "from ampify_runtime.fp16_utils import FP16_Optimizer, network_to_half", "from ampify_runtime import amp"
        )
        .replace("optimizer.backward(loss)", scaled)
        .replace("optimizer.clip_master_grads(1.0)", clipped)
    )
    runtime.write_text(by_hand, encoding="utf-8")
    o1, masters = printed(runtime, "--fp16"), printed(copied("apex_fp16_optimizer", "after", tmp_path / "o2"), "--fp16")
    ours = printed(native, "--fp16")
    assert ours == o1
    assert ours != printed(native)
    assert [a == pytest.approx(b, rel=1e-3) for a, b in zip(ours, masters, strict=True)] == [True] * 4


def test_without_masters_the_scale_moves_as_it_did_and_a_checkpoint_goes_on_exactly(tmp_path: Path) -> None:
    case = "apex_fp16_resumed"
    script = copied(case, "after-native", tmp_path / "parted")
    whole = printed(copied(case, "after-native", tmp_path / "whole"))
    masters = printed(copied(case, "after", tmp_path / "runtime"))
    assert [scale for _, scale in whole] == [scale for _, scale in masters] == [4096.0, 8192.0, 8192.0, 16384.0]
    assert [a == pytest.approx(b, rel=1e-3) for a, b in zip(whole, masters, strict=True)] == [True] * 4
    assert printed(script, "--steps", "0", "2") + printed(script, "--steps", "2", "4") == whole
    # The test can fail: without the scaler's state the scale begins anew.
    printed(script, "--steps", "0", "2")
    saved = torch.load(script.parent / "last.pt")
    del saved["scaler"]
    torch.save(saved, script.parent / "last.pt")
    assert [scale for _, scale in printed(script, "--steps", "2", "4")] == [4096.0, 8192.0]
