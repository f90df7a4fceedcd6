"""Owns what a watched run left: the records of its processes, read into data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ampify.verify.origins import Origins

UNMOVED: Final = Origins()


@dataclass(frozen=True, slots=True)
class Loss:
    """A backward: the loss it began from, unscaled; `step` counts the optimizer steps before it."""

    step: int
    place: str
    value: float
    dtype: str


@dataclass(frozen=True, slots=True)
class Step:
    """An optimizer's step. `norm` is the 2-norm of the gradients; `seconds` since the step before, less watching.

    `digest` holds a checksum of each parameter after the step, in the order of `names` of the process.
    """

    number: int
    optimizer: int
    name: str
    place: str
    device: str
    rates: tuple[float, ...]
    norm: float
    skipped: bool
    scale: float
    seconds: float
    digest: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake in the use of amp that the watcher saw happen."""

    kind: str
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Where a value that is not finite was first seen: a module's output, or a parameter's gradient."""

    where: str
    name: str
    dtype: str
    step: int


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point operations of one module in one type, in the sampled step."""

    module: str
    backward: bool
    dtype: str
    flops: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file that was saved or loaded, and where."""

    path: str
    place: str
    step: int


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended a process; `frames` are the lines of the project that it came through."""

    type: str
    message: str
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Process:
    """The record of one process that trained."""

    rank: int
    losses: tuple[Loss, ...]
    steps: tuple[Step, ...]
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    nonfinite: tuple[NonFinite, ...] = ()
    work: tuple[Work, ...] = ()
    saves: tuple[Checkpoint, ...] = ()
    loads: tuple[Checkpoint, ...] = ()
    initialized: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    raised: Raised | None = None
    peak: int = 0
    memory: str = "process"
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """The processes that trained, by rank and then in the order they began; and what was written outside by any."""

    processes: tuple[Process, ...]
    outside: tuple[str, ...]
    raised: Raised | None = None


def read_records(folder: Path, origins: Origins = UNMOVED) -> Records:
    """The records in `folder`, with places as `origins` has them. A last line that was cut off, as of a killed process,
    is left out."""
    files = [[_moved(line, origins) for line in _lines(path)] for path in sorted(folder.glob("*.jsonl"))]
    processes = [_process(lines) for lines in files if any(line["kind"] in ("loss", "step") for line in lines)]
    outside = {line["path"] for lines in files for line in lines if line["kind"] == "write"}
    raised = next((_raised(line) for lines in files for line in lines if line["kind"] == "error"), None)
    return Records(tuple(sorted(processes, key=lambda process: process.rank)), tuple(sorted(outside)), raised)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    # Without its end, a line was cut off.
    whole = (text for text in path.read_text(encoding="utf-8").splitlines(keepends=True) if text.endswith("\n"))
    yield from map(json.loads, whole)


def _moved(line: dict[str, Any], origins: Origins) -> dict[str, Any]:
    if "place" in line:
        line["place"] = origins.place(line["place"])
    if "frames" in line:
        line["frames"] = [origins.place(frame) for frame in line["frames"]]
    return line


def _process(lines: list[dict[str, Any]]) -> Process:
    of: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        of.setdefault(line["kind"], []).append(line)
    end = of.get("end", [{}])[-1]
    return Process(
        rank=of["start"][0]["rank"],
        losses=tuple(Loss(x["step"], x["place"], x["value"], x["dtype"]) for x in of.get("loss", ())),
        steps=tuple(_step(line) for line in of.get("step", ())),
        names={line["optimizer"]: tuple(line["names"]) for line in of.get("names", ())},
        faults=_distinct(Fault(x["fault"], x["place"], x["message"]) for x in of.get("fault", ())),
        nonfinite=tuple(NonFinite(x["where"], x["name"], x["dtype"], x["step"]) for x in of.get("nonfinite", ())),
        work=tuple(Work(*row) for line in of.get("precision", ()) for row in line["rows"]),
        saves=tuple(Checkpoint(x["path"], x["place"], x["step"]) for x in of.get("save", ())),
        loads=tuple(Checkpoint(x["path"], x["place"], x["step"]) for x in of.get("load", ())),
        initialized=tuple(line["place"] for line in of.get("initialize", ())),
        foreign=tuple(name for line in of.get("modules", ()) for name in line["foreign"]),
        raised=next((_raised(line) for line in of.get("error", ())), None),
        peak=end.get("peak", 0),
        memory=end.get("memory", "process"),
        ended=end.get("reason", ""),
    )


def _step(line: dict[str, Any]) -> Step:
    return Step(
        number=line["step"],
        optimizer=line["optimizer"],
        name=line["name"],
        place=line["place"],
        device=line["device"],
        rates=tuple(line["rates"]),
        norm=line["norm"],
        skipped=line["skipped"],
        scale=line["scale"],
        seconds=line["seconds"],
        digest=tuple(line.get("digest", ())),
    )


def _raised(line: dict[str, Any]) -> Raised:
    return Raised(line["type"], line["message"], tuple(line["frames"]))


def _distinct(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(dict.fromkeys(faults))
