"""Tries the checkpoints that the runs saved: compares them, and has both versions go on from them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ampify.verify.command import Command
from ampify.verify.curves import Yardstick, run_distances
from ampify.verify.judging import allowed, judge_plain
from ampify.verify.likely import CHECKPOINT, UNSAVED
from ampify.verify.running import INSIDE, Run
from ampify.verify.verdict import Verdict

_PROBE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that two runs saved under one name, relative to the project, and how the second one compares."""

    name: str
    entries: int
    missing: tuple[str, ...]
    unlike: tuple[str, ...]
    changed: tuple[str, ...]
    extra: tuple[str, ...]
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying the checkpoints came to: sentences for the report, and a verdict if they do not hold up."""

    said: tuple[str, ...] = ()
    verdict: Verdict | None = None


# Goes on from a checkpoint: in which version (`original`, `plain`, `level`), the run that saved it, and its name.
Resume = Callable[[str, Run, str], Run]


def saved_by(run: Run, tree: Path) -> tuple[str, ...]:
    """The names of the checkpoints that a run, which happened at `tree`, left in its copy; the last saved last."""
    paths = [Path(save.path) for process in run.processes for save in process.saves]
    names = [path.relative_to(tree).as_posix() for path in paths if path.is_relative_to(tree)]
    latest = dict.fromkeys(reversed([name for name in names if (run.tree / name).is_file()]))
    return tuple(reversed(latest))


def compare_saved(before: Run, after: Run, tree: Path, python: str) -> tuple[Saved, ...]:
    """The checkpoints that both runs left, compared."""
    others = saved_by(after, tree)
    return tuple(_probe(before, after, name, python) for name in saved_by(before, tree) if name in others)


def _probe(before: Run, after: Run, name: str, python: str) -> Saved:
    words = [
        python or sys.executable,
        str(INSIDE / "checkpoint_probe.py"),
        *(str(run.tree / name) for run in (before, after)),
    ]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_PROBE_SECONDS, check=False, cwd=before.tree.parent)
        found: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired) as problem:
        found = {"unreadable": f"{type(problem).__name__} while it was read"}
    if "unreadable" in found:
        return Saved(name, 0, (), (), (), (), found["unreadable"])
    missing, unlike, changed, extra = (tuple(found[key]) for key in ("missing", "unlike", "changed", "extra"))
    return Saved(name, found["entries"], missing, unlike, changed, extra)


def judge_saved(plain: tuple[Saved, ...], level: tuple[Saved, ...]) -> Trial:
    """Checkpoints at O0 must hold the original's values, and those in reduced precision entries of the same kinds."""
    said = tuple(_described(one) for one in plain)
    for saved in (*plain, *level):
        if saved.missing or saved.unlike:
            what, names = ("lacks", saved.missing) if saved.missing else ("has in another type or shape", saved.unlike)
            reason = f"the migrated version's checkpoint {saved.name} {what}: {_few(names)}"
            return Trial(said, Verdict("fails", reason, rule=UNSAVED))
    for saved in plain:
        if saved.changed:
            reason = f"at O0, the checkpoint {saved.name} differs from the original's in {_few(saved.changed)}"
            return Trial(said, Verdict("fails", reason, rule=UNSAVED))
    return Trial(said)


def _described(saved: Saved) -> str:
    if saved.unreadable:
        return f"checkpoint {saved.name}: it holds more than tensors, and was not compared ({saved.unreadable})"
    more = f", and besides: {_few(saved.extra)}" if saved.extra else ""
    return f"checkpoint {saved.name}: at O0 it has all {saved.entries} entries of the original's, the same{more}"


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def try_resuming(saved: tuple[Run, Run], tree: Path, noise: Yardstick, resume: Resume) -> Trial:
    """Goes on from the last checkpoint of the original in both versions, and from the migrated version's own.

    `saved` are the runs of the original and of the migrated version in reduced precision.
    """
    old, new = (saved_by(run, tree)[-1:] for run in saved)
    if not old or not new:
        return Trial(("--resume was given, but no checkpoint was saved in these steps",))
    original = resume("original", saved[0], old[0])
    if original.failed or not original.steps:
        why = "fails" if original.failed else "takes no step: have it train longer in --resume"
        return Trial((f"the original itself, resumed from {old[0]}, {why}",))
    plain = resume("plain", saved[0], old[0])
    verdict = judge_plain(original, plain)
    if verdict is not None:
        reason = f"resumed from the original's checkpoint {old[0]}: {verdict.reason}"
        return Trial((), replace(verdict, reason=reason, rule=verdict.rule or CHECKPOINT))
    said = [f"old checkpoint {old[0]}: resumed at O0, every bit is the original's"]
    for name, run in (("old", saved[0]), ("new", saved[1])):
        path = old[0] if name == "old" else new[0]
        level = resume("level", run, path)
        verdict = _judge_resumed(original, level, noise, f"the {name} checkpoint {path}")
        if verdict is not None:
            return Trial(tuple(said), verdict)
        said.append(f"{name} checkpoint {path}: resumed in reduced precision, {_apart(original, level)}")
    return Trial(tuple(said))


def with_checkpoint(command: Command, arguments: str, path: str) -> Command:
    """`command` with the arguments that resume from the checkpoint at `path`."""
    words = (word.replace("{checkpoint}", path) for word in shlex.split(arguments))
    return replace(command, arguments=(*command.arguments, *words))


def _judge_resumed(original: Run, level: Run, noise: Yardstick, whence: str) -> Verdict | None:
    if level.failed:
        said = level.raised.message if level.raised else f"exit status {level.status}"
        return Verdict("fails", f"resumed from {whence}, the migrated version ends with: {said}", rule=CHECKPOINT)
    if not level.steps:
        return Verdict("fails", f"resumed from {whence}, the migrated version takes no step", rule=CHECKPOINT)
    for index, distance in enumerate(run_distances(original, level)):
        mean, _ = allowed(noise, index)
        if distance.mean > mean:
            reason = f"resumed from {whence}, losses are {distance.mean:.1%} from the original's (allowed: {mean:.1%})"
            return Verdict("drifts", reason, rule=CHECKPOINT)
    return None


def _apart(original: Run, level: Run) -> str:
    mean = max((distance.mean for distance in run_distances(original, level)), default=0.0)
    return f"losses {mean:.2%} from the original's"
