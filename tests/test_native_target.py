"""The native target on whole scripts: what it writes, that it trains, and that it trains as the runtime does.

Torch's float16 and its scaler run on a CPU as well, so that nothing is left to belief: what a script would do on a GPU
is had by saying so where the migrated code asks for its device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.pipeline import run
from tests.fixture_run.case import Case, Training, all_cases, load_case
from tests.fixture_run.command import ampify
from tests.fixture_run.training import Losses, Runner
from tests.fixture_run.tree import copy_tree, read_tree
from tests.processor import RECURRENT, needs_cast_lstms
from tests.test_fixtures import follows

CASES = {case.name: case for case in all_cases()}
BY_HAND = [name for name, case in CASES.items() if (case.folder / "after-native").is_dir()]
# Scripts that train, and what the native target refuses of them, with the code that says why.
REFUSED = {
    "gradient_penalty": "AMP230",
    "noam_wrapper": "AMP122",
    "optimizers_in_list": "AMP122",
    "returned_step": "AMP122",
    "semicolons": "AMP231",
}
APEX = {name for name in CASES if name.startswith("apex_")}
TRAINING = [
    name
    for name, case in CASES.items()
    if case.training and case.expect == "migrated" and name not in APEX | {*REFUSED}
]
# The scale of the one scaler that all losses share is another one than that of a scaler a loss.
SHARED_SCALE = {"gan_class", "vector_backward"}
# Parts of the loss are computed where the runtime casts and the block does not reach: alike, and not the same.
AROUND = {
    "adversarial_training",
    "dataparallel_after_optimizer",
    "encoder_decoder_chain",
    "opt_level_flag",
    "policy_gradient",
    "receivers",
    "weight_averaging",
}
# One block around two forwards casts a weight once for both, and sums its gradients before they are float32 again.
CAST_ONCE = {"gan_class", "gradient_reversal"}
# The script itself asks whether there is a GPU, which decides on bfloat16 as well.
ON_GPU_ALONE = {"global_optimizer", "old_clip_spelling", "optimizer_in_branches", "tensor_types"}
_ENABLED = re.compile(r"enabled=.*\)(:?)(\s*)$")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def originals(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Losses]:
    """The losses of a case as people wrote it, each run once."""

    @cache
    def run_once(name: str) -> Losses:
        return losses(runner, CASES[name], copy_tree(CASES[name].before, tmp_path_factory.mktemp(name) / "original"))

    return run_once


def migrated(case: Case, folder: Path, **options: str) -> tuple[Path, Report]:
    """A migrated copy of a case."""
    tree = copy_tree(case.before, folder)
    report = run([tree], Settings(root=str(tree), target="native", **options))  # type: ignore[arg-type]
    for outcome in report.outcomes:
        if outcome.after is not None and outcome.before is not None:
            (tree / outcome.path).write_bytes(outcome.before.encode(outcome.after))
    return tree, report


def forced(tree: Path) -> Path:
    """A tree whose scripts are in float16 on the CPU, where they would be on a GPU."""
    for path in tree.rglob("*.py"):
        lines = path.read_bytes().decode("latin-1").splitlines(keepends=True)
        path.write_bytes("".join(map(_forced, lines)).encode("latin-1"))
    return tree


def _forced(line: str) -> str:
    if not any(name in line for name in ("GradScaler(", "autocast(", "custom_fwd(", "custom_bwd(")):
        return line
    line = line.replace('"cuda"', '"cpu"').replace("'cuda'", "'cpu'")
    return line if "enabled=False" in line else _ENABLED.sub(r"enabled=True)\1\2", line)


def losses(runner: Runner, case: Case, folder: Path, **env: str) -> Losses:
    assert case.training is not None
    return runner.losses(case.training, folder, slice(None), **env)


# What is written


@pytest.mark.parametrize("name", BY_HAND)
def test_the_command_line_writes_what_a_person_would(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = copy_tree(case.before, tmp_path / "migrated")
    answer = ampify(folder, "--target", "native", "--write")
    assert answer.status == int(bool(case.native)), answer.explanation
    assert read_tree(folder) == read_tree(case.folder / "after-native")
    left = {row for row in answer.findings if row.code in {expected.code for expected in case.native}}
    assert all(any(e.place.meets(row.path, row.line) and e.code == row.code for e in case.native) for row in left)
    assert len(left) == len(case.native)
    again = ampify(folder, "--target", "native", "--write")
    assert (again.status, again.paths("changed")) == (answer.status, ())
    assert read_tree(folder) == read_tree(case.folder / "after-native")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_has_no_exact_form_is_refused_whole(name: str, tmp_path: Path) -> None:
    tree, report = migrated(CASES[name], tmp_path / "tree")
    assert {finding.code for finding in report.findings if finding.refuses} == {REFUSED[name]}
    assert [loop.state for loop in report.loops] == ["refused"]
    assert read_tree(tree) == read_tree(CASES[name].before)
    assert all(entry.state in ("refused", "not_training") for entry in report.ledger)


@pytest.mark.parametrize("level", ["O2", "O3", "O5"])
def test_levels_without_an_equal_are_refused(level: str, tmp_path: Path) -> None:
    tree, report = migrated(CASES["module_level_loop"], tmp_path / "tree", opt_level=level)
    assert {finding.code for finding in report.findings} == {"AMP123"}
    assert read_tree(tree) == read_tree(CASES["module_level_loop"].before)


@pytest.mark.parametrize(("required", "codes"), [("torch>=1.7", []), ("torch==2.2.1", ["AMP111"]), ("torch==2.3", [])])
def test_a_torch_without_its_scaler_is_told_of(required: str, codes: list[str], tmp_path: Path) -> None:
    tree = copy_tree(CASES["module_level_loop"].before, tmp_path / "tree")
    (tree / "requirements.txt").write_text(f"{required}\n", encoding="utf-8")
    report = run([tree], Settings(root=str(tree), target="native"))
    assert [finding.code for finding in report.findings if finding.anchor.path.endswith("requirements.txt")] == codes


# That it trains


@pytest.mark.parametrize("name", TRAINING)
def test_off_it_is_the_original_to_the_bit(
    name: str, tmp_path: Path, runner: Runner, originals: Callable[[str], Losses]
) -> None:
    case = CASES[name]
    original = originals(name)
    for level in ("O1", "O0") if name in BY_HAND else ("O1",):
        tree, report = migrated(case, tmp_path / level, opt_level=level)
        assert "migrated" in {loop.state for loop in report.loops}, [f.message for f in report.findings]
        assert losses(runner, case, tree) == original


# On a CPU, LSTMs do not run in float16.
@pytest.mark.parametrize("name", [name for name in TRAINING if name not in RECURRENT])
def test_in_float16_it_trains_as_the_runtime_does(
    name: str, tmp_path: Path, runner: Runner, originals: Callable[[str], Losses]
) -> None:
    case = CASES[name]
    tree, _ = migrated(case, tmp_path / "native")
    native = losses(runner, case, forced(tree))
    with_runtime = losses(runner, case, copy_tree(case.after, tmp_path / "runtime"), AMPIFY_DTYPE="float16")
    original = originals(name)
    assert native != original, "every loss is the same, so nothing was computed in float16"
    if name not in AROUND | SHARED_SCALE | CAST_ONCE:
        assert native == with_runtime


@pytest.mark.parametrize("name", TRAINING)
def test_in_bfloat16_it_trains_as_the_runtime_does(
    name: str, tmp_path: Path, runner: Runner, originals: Callable[[str], Losses]
) -> None:
    case = CASES[name]
    assert case.training is not None
    tree, report = migrated(case, tmp_path / "native", opt_level="O4")
    assert "migrated" in {loop.state for loop in report.loops}
    assert not any(b"GradScaler" in text for text in read_tree(tree).values())
    original = originals(name)
    if name in RECURRENT:
        needs_cast_lstms()
    native = losses(runner, case, tree)
    if name in ON_GPU_ALONE:
        assert native == original
        return
    with_runtime = losses(runner, case, copy_tree(case.after, tmp_path / "runtime"), AMPIFY_DTYPE="bfloat16")
    assert native != original, "every loss is the same, so nothing was computed in bfloat16"
    assert follows(native, original, case.training.tolerance)
    if name in CAST_ONCE:
        for path, text in read_tree(tree).items():
            each = text.replace(b"dtype=torch.bfloat16", b"dtype=torch.bfloat16, cache_enabled=False")
            (tree / path).write_bytes(each)
        assert losses(runner, case, tree) == with_runtime
    elif name not in AROUND - {"opt_level_flag"}:
        assert native == with_runtime


# Checkpoints


RESUMED = """\
import sys

import torch

torch.manual_seed(3)
device = torch.device("cpu")
model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
first, last = int(sys.argv[1]), int(sys.argv[2])
if first:
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
for step in range(first, last):
    torch.manual_seed(step)
    inputs = torch.randn(8, 6)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), 10 * inputs[:, :1])
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
"""


def resumable(folder: Path, script: str) -> Case:
    (folder / "before").mkdir(parents=True)
    (folder / "before" / "train.py").write_text(script, encoding="utf-8")
    (folder / "case.toml").write_text(
        'title = ""\nshows = ""\nexpect = "migrated"\n[run]\nscript = "train.py"\nargs = [["0", "6"]]\n',
        encoding="utf-8",
    )
    return load_case(folder)


def part(runner: Runner, tree: Path, first: int, last: int) -> list[str]:
    return list(runner.losses(Training("train.py", ((str(first), str(last)),)), tree).printed)


def test_a_resumed_run_goes_on_exactly(tmp_path: Path, runner: Runner) -> None:
    case = resumable(tmp_path / "case", RESUMED)
    straight = forced(migrated(case, tmp_path / "straight")[0])
    parted = forced(migrated(case, tmp_path / "parted")[0])
    whole = part(runner, straight, 0, 6)
    assert part(runner, parted, 0, 3) + part(runner, parted, 3, 6) == whole
    # The test can fail: without the scaler's state the scale is found anew, and steps are left out.
    text = (parted / "train.py").read_text(encoding="utf-8")
    kept = re.sub(r"    if checkpoint\.get.*\n.*\n", "", text)
    assert kept != text
    (parted / "train.py").write_text(kept, encoding="utf-8")
    assert part(runner, parted, 0, 3) + part(runner, parted, 3, 6) != whole


def test_a_checkpoint_of_the_original_and_one_written_where_it_is_off_are_read(tmp_path: Path, runner: Runner) -> None:
    case = resumable(tmp_path / "case", RESUMED)
    original = copy_tree(case.before, tmp_path / "original")
    off, _ = migrated(case, tmp_path / "off")
    on = forced(migrated(case, tmp_path / "on")[0])
    for writer in (original, off):
        part(runner, writer, 0, 3)
        (on / "last.pt").write_bytes((writer / "last.pt").read_bytes())
        assert len(part(runner, on, 3, 6)) == 3
    part(runner, on, 0, 3)
    (off / "last.pt").write_bytes((on / "last.pt").read_bytes())
    assert len(part(runner, off, 3, 6)) == 3


# Ways past the step


SKIPPING = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.ones(4, 2, 4):
    optimizer.zero_grad()
    loss = model(batch).mean()
    loss.backward()
    norm = 0.0
    for p in model.parameters():
        norm += p.grad.norm().item()
    if norm > 100:
        {jump}
    optimizer.step()
"""


@pytest.mark.parametrize(("jump", "state"), [("continue", "refused"), ("break", "refused"), ("raise", "migrated")])
def test_gradients_are_not_unscaled_where_a_way_leads_past_the_step(jump: str, state: str, tmp_path: Path) -> None:
    """In the next round the scaler would refuse to unscale again."""
    text = SKIPPING.format(jump=jump)
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    assert [loop.state for loop in report.loops] == [state]
    assert ("AMP231" in {finding.code for finding in report.findings if finding.refuses}) == (state == "refused")
