"""Comes to a verdict on the runs of a verification, the gravest thing first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from ampify.verify.curves import Curve, Distance, Yardstick, curves_of
from ampify.verify.identity import first_difference
from ampify.verify.likely import FAULTS, device_lacks, likely_rule
from ampify.verify.metrics import Metric
from ampify.verify.record import Fault, Loss, NonFinite, Process, Step
from ampify.verify.running import Run
from ampify.verify.verdict import Verdict

# Smoothed losses that are this near on average, and at the end, are the same: bfloat16 keeps 8 bits, a step in 256.
SAME_MEAN = 0.01
SAME_FINAL = 0.02
# Some seeds measure noise roughly; a distance counts as more than noise from this multiple of theirs on. A single pair
# of runs says less of what is possible than three do.
MARGIN = 1.5
MARGIN_OF_A_PAIR = 2.0
# Metrics are a few printed numbers, often counts of right answers among few.
METRIC_SLACK = 0.05
# Gradients that are so many times smaller or larger, in the median, are not the original's.
GRADIENT_RATIO = 4.0
# Dynamic loss scaling skips steps while it looks for its scale, at the start; later a few in a thousand.
_SEARCH = 20
_MOST_SKIPPED = 0.1
_TRACEBACK_LINES = 12
_ANOTHER_SCRIPT = "is this the script whose loop was migrated?"


@dataclass(frozen=True, slots=True)
class Compared:
    """What the statistics rest on: the distances of the curves, the noise they are held against, and the metrics.

    `lengths` are the numbers of steps of the original with other seeds.
    """

    distances: tuple[Distance, ...]
    noise: Yardstick
    metrics: tuple[Metric, ...]
    lengths: tuple[int, ...] = ()


def judge_original(first: Run, second: Run | None, steps: int) -> Verdict | None:
    """A verdict, if the original alone decides it: it fails, never trains, or differs from itself."""
    if first.timed_out:
        return _cannot(
            "the original did not get there in time",
            f"{first.steps} of {steps or 'all'} steps were done; raise --timeout or lower --steps",
        )
    if first.failed:
        why = f"the original itself ends with {_ending(first)}{_elsewhere(first)}"
        return Verdict("cannot verify", why, details=_traceback(first))
    if not first.steps:
        backwards = any(process.losses for process in first.processes)
        why = (
            "calls backward, but no optimizer of torch ever steps"
            if backwards
            else "never trains: no backward, no step"
        )
        return Verdict("cannot verify", f"the original {why}", details=_traceback(first))
    foreign = sorted({name for process in first.processes for name in process.foreign})
    if foreign:
        return _cannot(
            f"the script imports {', '.join(foreign[:3])} from the project itself, not from the copy",
            "an installed package points there; uninstall it for the time being, or put the project on PYTHONPATH",
        )
    if second is None:
        return None
    difference = first_difference(first, second)
    if difference is None:
        return None
    return Verdict(
        "not reproducible",
        f"two runs of the original differ, first in {difference.sentence}",
        places=_both(difference.places[:1]),
        details=("Seeds and deterministic settings are set already: look for clocks, threads, or unordered sets.",),
    )


def judge_plain(original: Run, plain: Run) -> Verdict | None:
    """A verdict, if the migrated version at O0 is not the original, bit for bit."""
    ended = _judge_ending(plain, "at O0, the migrated version")
    if ended is not None:
        return ended
    difference = first_difference(original, plain)
    if difference is None:
        return None
    if not _initialized(plain) and not _on_cpu(plain):
        return _cannot(
            f"asked for O0, the migrated version is not the original, first in {difference.sentence}, and never calls "
            "amp.initialize, which would obey",
            f"{_ANOTHER_SCRIPT} (torch's own mixed precision knows no O0)",
        )
    return Verdict(
        "fails",
        f"at O0, the migrated version is not the original, first in {difference.sentence}",
        places=_both(difference.places),
        details=("At O0 nothing is cast or scaled, so that the migration itself must have changed this.",),
    )


def judge_level(original: Run, level: Run, compared: Compared, found: Sequence[NonFinite] = ()) -> Verdict:
    """The verdict on the migrated version in reduced precision, given that it is sound at O0."""
    return (
        _judge_ending(level, "the migrated version")
        or _judge_faults(level)
        or _judge_finite(original, level, found)
        or _judge_precision(original, level)
        or _judge_length(original, level, compared)
        or _judge_skips(level)
        or _judge_gradients(original, level)
        or _judge_curves(original, level, compared)
        or _judge_metrics(compared)
        or _sound(compared)
    )


def _judge_ending(run: Run, who: str) -> Verdict | None:
    if run.timed_out:
        return _cannot(f"{who} did not get there in time", f"{run.steps} steps were done; raise --timeout")
    if not run.failed:
        return None
    message = _message(run)
    if device_lacks(message):
        return _cannot(f"this device lacks an operation that {who} needs: {message}", "verify on CUDA, or in bfloat16")
    places = run.raised.frames[-1:] if run.raised else ()
    return Verdict("fails", f"{who} ends with {_ending(run)}", _both(places), likely_rule(message), _traceback(run))


def _judge_faults(level: Run) -> Verdict | None:
    fault = next((fault for process in level.processes for fault in process.faults), None)
    if fault is None:
        return None
    return Verdict("fails", fault.message, _both((fault.place,)), FAULTS.get(fault.kind, ""), _others(level, fault))


def _others(level: Run, first: Fault) -> tuple[str, ...]:
    faults = dict.fromkeys(fault for process in level.processes for fault in process.faults)
    return tuple(f"also {fault.place}: {fault.message}" for fault in faults if fault != first)


def _judge_finite(original: Run, level: Run, found: Sequence[NonFinite]) -> Verdict | None:
    for process, before in zip(level.processes, original.processes, strict=False):
        bad = first_not_finite(process)
        if bad is None or first_not_finite(before) is not None:
            continue
        step, place, what = bad
        reason = f"{what} is not finite from step {step} on, and the original's is"
        return Verdict("fails", f"{reason}; {_first_seen(found, step)}".removesuffix("; "), _both((place,)))
    return None


def _first_seen(found: Sequence[NonFinite], step: int) -> str:
    """Where looking at every module found the first value that is not finite, up to the step in which it shows."""
    before = [item for item in found if item.step < step]
    output = next((item for item in before if item.where == "output"), None)
    if output is not None:
        return f"first seen in the output of {output.name} ({output.dtype}), step {output.step + 1}"
    if before:
        return f"the output of every module is finite, so that it arises after the model; next in {before[0].name}"
    return ""


def first_not_finite(process: Process) -> tuple[int, str, str] | None:
    """The step, the place and the name of the first thing that is not finite where nothing will mend it.

    Gradients that overflow are mended where the loss is scaled: the step is skipped, and the scale lowered.
    """
    loss: Loss | None = next((loss for loss in process.losses if not math.isfinite(loss.value)), None)
    step: Step | None = next(
        (step for step in process.steps if not math.isfinite(step.norm) and not step.skipped), None
    )
    if loss is not None and (step is None or loss.step < step.number):
        return loss.step + 1, loss.place, f"a loss in {loss.dtype}"
    return None if step is None else (step.number, step.place, "a gradient")


def _judge_precision(original: Run, level: Run) -> Verdict | None:
    work = [row for process in level.processes for row in process.work if row.flops]
    if any(row.dtype in ("float16", "bfloat16") for row in work):
        return None
    # No product was counted, so that only the losses can tell.
    if not work and first_difference(_without_digests(original), _without_digests(level)) is not None:
        return None
    if _initialized(level):
        return _cannot("no operation ran in reduced precision: nothing was cast", _ANOTHER_SCRIPT)
    why = "amp.initialize is never called in this run"
    own = " (torch's own mixed precision is off without a GPU)" if _on_cpu(level) else ""
    return _cannot(f"no operation ran in reduced precision: {why}", f"{_ANOTHER_SCRIPT}{own}")


def _without_digests(run: Run) -> Run:
    processes = (replace(p, steps=tuple(replace(step, digest=()) for step in p.steps)) for p in run.processes)
    return replace(run, records=replace(run.records, processes=tuple(processes)))


def _judge_length(original: Run, level: Run, compared: Compared) -> Verdict | None:
    """A run that ends sooner or later is compared over a part alone, unless other seeds end it as differently."""
    shapes = [[len(curves_of(process)) for process in run.processes] for run in (original, level)]
    if shapes[0] != shapes[1]:
        said = f"{len(shapes[0])} processes call backward in {sum(shapes[0])} places in the original"
        return Verdict("drifts", f"{said}, and {len(shapes[1])} in {sum(shapes[1])} in the migrated version")
    lengths = (original.steps, *compared.lengths)
    if min(lengths) <= level.steps <= max(lengths):
        return None
    return Verdict("drifts", f"it takes {level.steps} optimizer steps, and the original {original.steps}")


def _judge_skips(level: Run) -> Verdict | None:
    for process in level.processes:
        late = process.steps[_SEARCH:]
        skipped = [step for step in late if step.skipped]
        if late and len(skipped) > _MOST_SKIPPED * len(late) and len(skipped) > 1:
            reason = (
                f"{len(skipped)} of the {len(late)} steps after the first {_SEARCH} are skipped: gradients overflow"
            )
            return Verdict("drifts", f"{reason} from step {skipped[0].number} on", _both((skipped[0].place,)))
        if not late and process.steps and all(step.skipped for step in process.steps):
            return _cannot("every step was skipped, as the loss scale is still looked for", "raise --steps")
    return None


def _judge_gradients(original: Run, level: Run) -> Verdict | None:
    for before, after in zip(original.processes, level.processes, strict=False):
        for optimizer in sorted({step.optimizer for step in before.steps}):
            one, other = _norms(before, optimizer), _norms(after, optimizer)
            ratios = [b / a for a, b in zip(one, other, strict=False) if a > 0 and math.isfinite(b)]
            ratio = median(ratios) if ratios else 1.0
            if not 1 / GRADIENT_RATIO <= ratio <= GRADIENT_RATIO:
                step = next(step for step in after.steps if step.optimizer == optimizer)
                reason = f"the gradients that {step.name} steps with are {ratio:.3g} times the original's in norm"
                return Verdict("drifts", f"{reason}, from step {step.number} on", _both((step.place,)), "AMP201")
    return None


def _norms(process: Process, optimizer: int) -> list[float]:
    # A skipped step leaves its optimizer a step behind; in the first few steps that is no matter to a norm.
    return [step.norm for step in process.steps if step.optimizer == optimizer and not step.skipped]


def _judge_curves(original: Run, level: Run, compared: Compared) -> Verdict | None:
    names = [curve for process in level.processes for curve in curves_of(process)]
    for index, distance in enumerate(compared.distances):
        allowed_mean, allowed_final = allowed(compared.noise, index)
        if distance.mean <= allowed_mean and distance.final <= allowed_final:
            continue
        curve = names[index]
        start = drift_start(distance, curve, max(allowed_mean, allowed_final))
        reason = (
            f"the loss of {curve.name} leaves the original's from step {start} on: by {distance.mean:.1%} on average "
            f"(allowed: {allowed_mean:.1%}) and {distance.final:.1%} at the end (allowed: {allowed_final:.1%})"
        )
        return Verdict("drifts", reason, _both((curve.name,)))
    return None


def allowed(noise: Yardstick, index: int) -> tuple[float, float]:
    """How far a curve may be from the original's, on average and at the end."""
    mean = noise.means[index] if index < len(noise.means) else 0.0
    final = noise.finals[index] if index < len(noise.finals) else 0.0
    margin = margin_of(noise)
    # At the end, a curve may be as far away as it is on average.
    return max(SAME_MEAN, margin * mean), max(SAME_FINAL, margin * final, margin * mean)


def margin_of(noise: Yardstick) -> float:
    """What the noise is multiplied by, so that its measure being rough is no false alarm."""
    return MARGIN if noise.pairs > 1 else MARGIN_OF_A_PAIR


def drift_start(distance: Distance, curve: Curve, limit: float) -> int:
    """The step from which on the distance stays above `limit`; the first that is above it if it comes back."""
    start = len(distance.each)
    while start and distance.each[start - 1] > limit:
        start -= 1
    if start == len(distance.each):
        start = next((index for index, value in enumerate(distance.each) if value > limit), 0)
    return curve.steps[start] + 1


def _judge_metrics(compared: Compared) -> Verdict | None:
    # A metric is a few numbers, which measure noise more roughly than the losses of all steps do.
    losses = max(compared.noise.finals, default=0.0)
    for metric in compared.metrics:
        limit = max(METRIC_SLACK, margin_of(compared.noise) * max(metric.noise, losses))
        if metric.distance > limit:
            reason = (
                f"the script prints {metric.name!r} as {metric.after:.6g} instead of {metric.before:.6g}: "
                f"{metric.distance:.1%} off (allowed: {limit:.1%})"
            )
            return Verdict("drifts", reason)
    return None


def _sound(compared: Compared) -> Verdict:
    worst = max((distance.mean for distance in compared.distances), default=0.0)
    final = max((distance.final for distance in compared.distances), default=0.0)
    said = f"losses are {worst:.2%} from the original's on average, {final:.2%} at the end"
    if worst <= SAME_MEAN and final <= SAME_FINAL:
        return Verdict("same", said)
    noise = max(compared.noise.means, default=0.0)
    return Verdict("within noise", f"{said}; other seeds move the original by up to {noise:.2%}")


def _on_cpu(run: Run) -> bool:
    return {step.device for process in run.processes for step in process.steps} <= {"cpu"}


def _initialized(run: Run) -> bool:
    return any(process.initialized for process in run.processes)


def _ending(run: Run) -> str:
    if run.raised is not None:
        return f"{run.raised.type}: {_one_line(run.raised.message)}"
    return f"signal {-run.status}" if run.status < 0 else f"exit status {run.status}"


def _elsewhere(run: Run) -> str:
    """What to do where the script misses a module: often ampify is installed apart from torch."""
    missing = run.raised is not None and run.raised.type == "ModuleNotFoundError"
    return "; if another interpreter has it, name that one with --python" if missing else ""


def _message(run: Run) -> str:
    return run.raised.message if run.raised is not None else "\n".join(_traceback(run))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"


def _traceback(run: Run) -> tuple[str, ...]:
    return tuple((run.errors.strip() or run.output.strip()).splitlines()[-_TRACEBACK_LINES:])


def _both(places: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place for place in places if place))


def _cannot(what: str, remedy: str) -> Verdict:
    return Verdict("cannot verify", f"{what}; {remedy}")
