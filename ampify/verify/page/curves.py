"""The curves of a verification: losses, gradient norms, learning rates and loss scales over the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ampify.report.html.element import element, text
from ampify.verify.curves import Curve, curves_of
from ampify.verify.judging import allowed, drift_start
from ampify.verify.page.chart import Line, chart
from ampify.verify.record import Process
from ampify.verify.running import Run
from ampify.verify.session import Verification

# What the second curve is: the furthest that the verification came.
_SECOND = {"level": "migrated, in reduced precision", "plain": "migrated, at O0", "again": "original, again"}


def curves_section(verification: Verification) -> str:
    """The section; empty where there is nothing to compare."""
    original = verification.run("original")
    other = verification.run("level") or verification.run("plain") or verification.run("again")
    if original is None or other is None or not original.processes or not other.processes:
        return ""
    seeds = [run for run in verification.runs if run.name.startswith("seed ")]
    figures = [
        *_losses(verification, original, other, seeds),
        element("div", *_small_ones(original.processes[0], other.processes[0]), class_="pair"),
    ]
    heading = element("h2", "Curves", id="curves-title")
    return element(
        "section",
        heading,
        *figures,
        _key(_SECOND[other.name], bool(seeds)),
        id="curves",
        aria_labelledby="curves-title",
    )


def _losses(verification: Verification, original: Run, other: Run, seeds: Sequence[Run]) -> Iterator[str]:
    index = 0
    for rank, (one, two) in enumerate(zip(original.processes, other.processes, strict=False)):
        for number, (before, after) in enumerate(zip(curves_of(one), curves_of(two), strict=False)):
            said, marked = _distance(verification, index, after)
            name = f"Loss of {after.name}" + (f", rank {one.rank}" if len(original.processes) > 1 else "")
            lines = [
                *_of_seeds(seeds, rank, number),
                _raw(before, "original"),
                _raw(after, "migrated"),
                _smooth(before, "original"),
                _smooth(after, "migrated"),
            ]
            yield _figure(name, said, chart(lines, name, marked))
            index += 1


def _of_seeds(seeds: Sequence[Run], rank: int, number: int) -> Iterator[Line]:
    for run in seeds:
        curves = curves_of(run.processes[rank]) if rank < len(run.processes) else ()
        if number < len(curves):
            yield _smooth(curves[number], "seed")


def _distance(verification: Verification, index: int, after: Curve) -> tuple[str, int | None]:
    distances = verification.compared.distances
    if index >= len(distances):
        return "", None
    mean, final = allowed(verification.compared.noise, index)
    distance = distances[index]
    average = f"{distance.mean:.2%} apart on average (allowed {mean:.2%})"
    said = f"{average}, {distance.final:.2%} at the end (allowed {final:.2%})"
    apart = distance.mean > mean or distance.final > final
    return said, drift_start(distance, after, max(mean, final)) if apart else None


def _small_ones(before: Process, after: Process) -> Iterator[str]:
    yield from _of_steps(
        "Norm of the gradients", before, after, [[step.norm for step in p.steps] for p in (before, after)]
    )
    rates = [[step.rates[0] if step.rates else 0.0 for step in p.steps] for p in (before, after)]
    yield from _of_steps("Learning rate", before, after, rates)
    if any(step.scale != 1.0 for step in after.steps):
        scales = [[], [step.scale for step in after.steps]]
        yield from _of_steps("Loss scale", before, after, scales)


def _of_steps(name: str, before: Process, after: Process, values: Sequence[Sequence[float]]) -> Iterator[str]:
    if not before.steps or not after.steps:
        return
    lines = [
        Line(style, [step.number for step in process.steps][: len(own)], own)
        for style, process, own in zip(("original", "migrated"), (before, after), values, strict=True)
    ]
    yield _figure(name, "", chart(lines, name))


def _raw(curve: Curve, style: str) -> Line:
    return Line(f"raw {style}", curve.steps, curve.values)


def _smooth(curve: Curve, style: str) -> Line:
    return Line(style, curve.steps, curve.smoothed)


def _figure(name: str, said: str, drawn: str) -> str:
    if not drawn:
        return ""
    caption = element("figcaption", element("h3", text(name)), element("span", text(said)))
    return element("figure", caption, drawn, class_="panel")


def _key(second: str, seeded: bool) -> str:
    shown = [("original", "original"), ("migrated", second), *([("seed", "original, other seeds")] if seeded else [])]
    rows = (element("li", _sample(style), text(said)) for style, said in shown)
    smoothing = element("li", "Losses are smoothed over a twentieth of the run; as they are, they are drawn thin.")
    return element("ul", *rows, smoothing, class_="key")


def _sample(style: str) -> str:
    line = element("polyline", points="0,5 30,5", class_=f"curve {style}")
    return element("svg", line, viewBox="0 0 30 10", aria_hidden="true")
