"""The judgement itself, on records made up to be told apart: which difference comes first, how far is too far."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ampify.verify.curves import Curve, Yardstick, distance, relative, run_distances, smooth, yardstick
from ampify.verify.identity import first_difference
from ampify.verify.judging import Compared, judge_level, judge_original, judge_plain
from ampify.verify.likely import device_lacks
from ampify.verify.metrics import compare_metrics, printed
from ampify.verify.record import Fault, Loss, NonFinite, Process, Raised, Records, Step, Work
from ampify.verify.running import Run

HALF = (Work("Net", False, "float16", 100),)


def step(number: int, **changed: object) -> Step:
    values = {"norm": 1.0, "rates": (0.1,), "skipped": False, "scale": 1.0, "digest": (number, 7)} | changed
    return Step(number, 0, "SGD", "train.py:9", "cpu", seconds=0.01, **values)  # type: ignore[arg-type]


def process(losses: list[float], **changed: object) -> Process:
    values = {
        "losses": tuple(Loss(index, "train.py:8", value, "float32") for index, value in enumerate(losses)),
        "steps": tuple(step(index + 1) for index in range(len(losses))),
        "names": {0: ("Net.weight", "Net.bias")},
        "work": HALF,
    } | changed
    return Process(rank=0, **values)  # type: ignore[arg-type]


def run(*processes: Process, status: int = 0, raised: Raised | None = None, name: str = "run", output: str = "") -> Run:
    return Run(name, status, 1.0, False, output, "", Records(processes, (), raised), Path())


def falling(factor: float = 1.0, count: int = 60) -> list[float]:
    return [factor * (0.2 + math.exp(-index / 15)) for index in range(count)]


def compared(original: Run, level: Run, *seeds: Run) -> Compared:
    return Compared(run_distances(original, level), yardstick([original, *seeds]), ())


# The first difference


def test_the_loss_comes_before_the_step_after_it() -> None:
    one, other = process([1.0, 0.5, 0.25]), process([1.0, 0.5000001, 0.25])
    found = first_difference(run(one), run(other))
    assert found is not None
    assert (found.kind, found.step, found.before, found.after) == ("loss", 2, "0.5", "0.5000001")


@pytest.mark.parametrize(
    ("changed", "kind", "what"),
    [
        ({"rates": (0.11,)}, "rate", "the learning rate of SGD"),
        ({"norm": 2.0}, "norm", "the norm of the gradients"),
        ({"digest": (2, 8)}, "weights", "Net.bias after the step"),
    ],
)
def test_what_differs_in_a_step_is_named(changed: dict[str, object], kind: str, what: str) -> None:
    losses = [1.0, 0.5, 0.25]
    steps = (step(1), step(2, **changed), step(3))
    found = first_difference(run(process(losses)), run(process(losses, steps=steps)))
    assert found is not None
    assert (found.kind, found.step, found.what) == (kind, 2, what)


def test_nan_is_the_same_as_nan_and_a_run_cut_short_is_not_the_same() -> None:
    assert first_difference(run(process([1.0, math.nan])), run(process([1.0, math.nan]))) is None
    found = first_difference(run(process([1.0, 0.5])), run(process([1.0])))
    assert found is not None
    assert found.kind == "loss"
    assert first_difference(run(process([1.0])), run()) is not None


# Distances


def test_smoothing_keeps_a_level_and_follows_a_change() -> None:
    assert smooth([2.0] * 9) == pytest.approx([2.0] * 9)
    assert smooth([1.0, math.nan, 1.0]) == pytest.approx([1.0, 1.0, 1.0])
    risen = smooth([0.0] * 50 + [1.0] * 50)
    assert 0.0 < risen[52] < 0.6
    assert risen[-1] > 0.99


def test_distances_are_relative_to_the_larger() -> None:
    assert relative(1.0, 2.0) == 0.5
    assert relative(0.001, 0.002, floor=0.1) == pytest.approx(0.01)
    assert relative(math.nan, 1.0) == 1.0
    one = Curve("a", tuple(falling()), tuple(range(60)))
    other = Curve("a", tuple(falling(1.1)), tuple(range(60)))
    assert distance(one, one).mean == 0.0
    assert distance(one, other).mean == pytest.approx(1 - 1 / 1.1)


# Verdicts


def test_the_same_and_within_noise_and_drifting() -> None:
    original = run(process(falling()))
    near, off = run(process(falling(1.003))), run(process(falling(1.2)))
    assert judge_level(original, near, compared(original, near)).judgement == "same"
    noisy = run(process(falling(1.3)))
    assert judge_level(original, off, compared(original, off, noisy)).judgement == "within noise"
    verdict = judge_level(original, off, compared(original, off))
    assert verdict.judgement == "drifts"
    assert verdict.places == ("train.py:8",)
    assert "from step 1 on: by 16.7% on average" in verdict.reason


def test_a_drift_that_begins_late_is_dated() -> None:
    original = run(process([1.0] * 60))
    late = run(process([1.0] * 30 + [2.0] * 30))
    verdict = judge_level(original, late, compared(original, late))
    assert verdict.judgement == "drifts"
    assert "from step 31 on" in verdict.reason


def test_gradients_of_another_size() -> None:
    original = run(process(falling()))
    small = run(process(falling(), steps=tuple(step(index + 1, norm=1e-4) for index in range(60))))
    verdict = judge_level(original, small, compared(original, small))
    assert verdict.judgement == "drifts"
    assert "0.0001 times the original's" in verdict.reason


def test_steps_skipped_at_the_start_are_a_search_and_later_a_fault() -> None:
    original = run(process(falling()))

    def skipping(*numbers: int) -> Run:
        steps = (step(n, skipped=n in numbers, norm=math.inf if n in numbers else 1.0) for n in range(1, 61))
        return run(process(falling(), steps=tuple(steps)))

    early, late = skipping(1, 2, 3, 4), skipping(*range(25, 55))
    assert judge_level(original, early, compared(original, early)).good
    verdict = judge_level(original, late, compared(original, late))
    assert verdict.judgement == "drifts"
    assert "30 of the 40 steps after the first 20 are skipped" in verdict.reason


def test_what_is_not_finite_is_placed_in_its_module() -> None:
    original = run(process(falling()))
    level = run(process([*falling()[:20], math.inf, *falling()[21:]]))
    found = (NonFinite("output", "Net.norm", "float16", 20),)
    verdict = judge_level(original, level, compared(original, level), found)
    assert verdict.judgement == "fails"
    assert verdict.reason.endswith("first seen in the output of Net.norm (float16), step 21")
    both = run(process([*falling()[:20], math.inf, *falling()[21:]]))
    assert judge_level(both, level, compared(both, level)).good


def test_a_fault_that_was_seen_goes_before_statistics() -> None:
    original = run(process(falling()))
    fault = Fault("clip-in-block", "train.py:5", "gradients are clipped while they are scaled")
    level = run(process(falling(), faults=(fault, Fault("unscaled-backward", "train.py:7", "a backward"))))
    verdict = judge_level(original, level, compared(original, level))
    assert (verdict.judgement, verdict.places, verdict.rule) == ("fails", ("train.py:5",), "AMP202")
    assert verdict.details == ("also train.py:7: a backward",)


def test_a_run_in_full_precision_verifies_nothing() -> None:
    original = run(process(falling()))
    full = run(process(falling(), work=(Work("Net", False, "float32", 9),)))
    verdict = judge_level(original, full, compared(original, full))
    assert verdict.judgement == "cannot verify"
    assert "amp.initialize is never called" in verdict.reason
    assert verdict.reason.endswith("(torch's own mixed precision is off without a GPU)")
    on_gpu = [replace(step(index + 1), device="cuda:0") for index in range(60)]
    full = run(process(falling(), work=(Work("Net", False, "float32", 9),), steps=tuple(on_gpu)))
    verdict = judge_level(original, full, compared(original, full))
    assert verdict.reason.endswith(
        "amp.initialize is never called in this run; is this the script whose loop was migrated?"
    )


def test_what_o0_cannot_put_off_is_not_judged_by_it() -> None:
    """On a GPU torch's own autocast casts whatever the opt level is; on a CPU it does not, and has to compute the same."""
    losses = [1.0, 0.5]
    original, other = run(process(losses)), run(process([1.0, 0.25]))
    assert judge_plain(original, other).judgement == "fails"  # type: ignore[union-attr]
    on_gpu = tuple(replace(step(index + 1), device="cuda:0") for index in range(2))
    verdict = judge_plain(original, run(process([1.0, 0.25], steps=on_gpu)))
    assert verdict is not None
    assert verdict.judgement == "cannot verify"
    assert "torch's own mixed precision knows no O0" in verdict.reason
    initialized = judge_plain(original, run(process([1.0, 0.25], steps=on_gpu, initialized=("train.py:3",))))
    assert initialized is not None
    assert initialized.judgement == "fails"


def test_a_run_that_is_the_original_bit_for_bit_was_not_cast() -> None:
    original, same = run(process(falling(), work=())), run(process(falling(), work=()))
    assert judge_level(original, same, compared(original, same)).judgement == "cannot verify"
    other = run(process(falling(1.001), work=()))
    assert judge_level(original, other, compared(original, other)).judgement == "same"


def test_a_run_that_ends_early_is_not_the_same() -> None:
    original, short = run(process(falling())), run(process(falling(1.001)[:40]))
    verdict = judge_level(original, short, compared(original, short))
    assert verdict.judgement == "drifts"
    assert verdict.reason == "it takes 40 optimizer steps, and the original 60"
    # A script that stops when it is good enough stops elsewhere with every seed.
    early = Compared(run_distances(original, short), yardstick([original]), (), (38,))
    assert judge_level(original, short, early).good
    alone = run(process(falling()), process(falling()))
    assert judge_level(alone, original, compared(alone, original)).judgement == "drifts"


def test_an_operation_that_the_device_lacks_is_no_failure() -> None:
    lacking = Raised("RuntimeError", "\"cdist\" not implemented for 'Half'", ("net.py:3",))
    broken = Raised("RuntimeError", "expected scalar type Float but found Half", ("net.py:3",))
    original = run(process(falling()))
    verdict = judge_plain(original, run(status=1, raised=lacking))
    assert verdict is not None
    assert verdict.judgement == "cannot verify"
    verdict = judge_plain(original, run(status=1, raised=broken))
    assert verdict is not None
    assert (verdict.judgement, verdict.places, verdict.rule) == ("fails", ("net.py:3",), "")
    assert not device_lacks("no such file")


def test_an_original_that_is_not_the_copy_is_found_out() -> None:
    verdict = judge_original(run(process([1.0], foreign=("lab.net",))), None, 10)
    assert verdict is not None
    assert verdict.judgement == "cannot verify"
    assert "lab.net" in verdict.reason


# Metrics


def test_metrics_are_read_by_their_names() -> None:
    text = "Epoch 3 loss: 0.5000, acc = 91.5%\nTest set: Average loss: 0.25, Accuracy: 97/100 (97.00%)\ntime: 3.2s\n"
    found = printed(text)
    assert found["Epoch 3 loss" if "Epoch 3 loss" in found else "loss"] == (0.5,)
    assert found["acc"] == (91.5,)
    assert found["Average loss"] == (0.25,)
    assert "time" not in found


def test_metrics_are_compared_where_the_original_repeats_itself() -> None:
    original, again = "loss: 1.0\nspeed: 10\nwidth: 64\n", "loss: 1.0\nspeed: 12\nwidth: 64\n"
    (metric,) = compare_metrics(
        original, again, ["loss: 1.2\nspeed: 9\nwidth: 64\n"], "loss: 1.1\nspeed: 11\nwidth: 64\n"
    )
    assert (metric.name, metric.before, metric.after) == ("loss", 1.0, 1.1)
    assert metric.distance == pytest.approx(0.1 / 1.1)
    assert metric.noise == pytest.approx(0.2 / 1.2)


def test_a_yardstick_of_one_run_measures_nothing() -> None:
    assert yardstick([run(process([1.0]))]) == Yardstick((), (), 0)
