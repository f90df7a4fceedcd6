"""Carries out a verification: makes the copies, runs them one after the other, and has them judged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp

from ampify.vendor import PACKAGE, package_folder
from ampify.verify.base import put_revision
from ampify.verify.checkpoints import Resume, Trial, compare_saved, judge_saved, try_resuming, with_checkpoint
from ampify.verify.command import Command
from ampify.verify.copies import Copied, copy_copy, copy_project
from ampify.verify.curves import Yardstick, run_distances, yardstick
from ampify.verify.judging import Compared, first_not_finite, judge_level, judge_original, judge_plain
from ampify.verify.metrics import compare_metrics
from ampify.verify.migrating import Migration, migrate_copy
from ampify.verify.notebook import notebook_script
from ampify.verify.origins import Origins, line_origins
from ampify.verify.record import NonFinite
from ampify.verify.request import Request
from ampify.verify.running import Plan, Run, Workplace, run_watched
from ampify.verify.verdict import Verdict

# Far from one another, and from what people add to a seed of their own.
_SEED_STRIDE = 1_000_003
# Late enough that buffers are made and casts cached, early enough for short runs.
_SAMPLED_STEP = 3
# The original twice, and the migrated version at O0 and at its level.
_RUNS = 4
# Seconds that are not told in minutes.
_SHORT = 90
_NOTHING_COMPARED = Compared((), Yardstick((), ()), ())

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verification:
    """All that a verification found."""

    request: Request
    command: Command
    dtype: str
    verdict: Verdict
    migration: Migration | None
    copied: Copied
    runs: tuple[Run, ...]
    compared: Compared = _NOTHING_COMPARED
    found: tuple[NonFinite, ...] = ()
    checkpoints: tuple[str, ...] = ()

    def run(self, name: str) -> Run | None:
        """The run of this name: `original`, `again`, `plain`, `level`, `seed 1`, …"""
        return next((run for run in self.runs if run.name == name), None)

    @property
    def outside(self) -> tuple[str, ...]:
        """What any run wrote outside of its copy."""
        return tuple(sorted({path for run in self.runs for path in run.records.outside}))


@dataclass(slots=True)
class _Session:
    """Runs in the order they are asked for; `origins` are those of the migrated version's lines."""

    request: Request
    place: Workplace
    command: Command
    tell: Tell
    origins: Origins
    runs: list[Run] = field(default_factory=list)

    def run(self, plan: Plan, said: str, command: Command | None = None) -> Run:
        self.tell(f"{self._standing()}{said}")
        asked = self.request
        run = run_watched(plan, command or self.command, self.place, asked.directory, asked.python, asked.timeout)
        self.runs.append(run)
        return run

    def _standing(self) -> str:
        """Which run of how many begins, and for how long they go on if all take as long as those before."""
        done, planned = len(self.runs), planned_runs(self.request)
        if done >= planned:
            return ""
        each = sum(run.seconds for run in self.runs) / max(done, 1)
        left = f", about {_duration(each * (planned - done))} to go" if done else ""
        return f"run {done + 1} of {planned}{left}: "

    def original(self, name: str, said: str, *, shift: int = 0, digest: bool = True) -> Run:
        plan = Plan(name, self.place.original, (), self.request.steps, self.request.seed, shift, digest)
        return self.run(plan, said)

    def plain(self) -> Run:
        environment = (("AMPIFY_OPT_LEVEL", "O0"),)
        plan = Plan("plain", self.place.migrated, environment, self.request.steps, self.request.seed)
        return self.run(
            replace(plan, plain=True, digest=True, origins=self.origins), "running the migrated version at O0"
        )

    def level(self, name: str, said: str, dtype: str, *, find: bool = False) -> Run:
        environment = (("AMPIFY_DTYPE", dtype),) if dtype else ()
        plan = Plan(name, self.place.migrated, environment, self.request.steps, self.request.seed, origins=self.origins)
        return self.run(replace(plan, find=True) if find else replace(plan, sample=_SAMPLED_STEP), said)

    def resume(self, dtype: str) -> Resume:
        """Runs from a checkpoint that an earlier run left."""

        def resumed(version: str, saved: Run, name: str) -> Run:
            path = os.path.relpath(name, self.request.directory)
            command = with_checkpoint(self.command, self.request.resume or "", path)
            pristine = self.place.folder / f"resumed-{len(self.runs)}"
            copy_copy(self.place.original if version == "original" else self.place.migrated, pristine)
            (pristine / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(saved.tree / name, pristine / name)
            environment = {"plain": (("AMPIFY_OPT_LEVEL", "O0"),), "level": (("AMPIFY_DTYPE", dtype),) if dtype else ()}
            plan = Plan(f"resumed {len(self.runs)}", pristine, environment.get(version, ()), self.request.steps)
            plan = replace(plan, seed=self.request.seed, digest=version != "level", plain=version == "plain")
            plan = plan if version == "original" else replace(plan, origins=self.origins)
            said = {"original": "the original", "plain": "the migrated version at O0", "level": "the migrated version"}
            return self.run(plan, f"resuming {said[version]} from {name} of run {saved.name!r}", command)

        return resumed


def planned_runs(request: Request) -> int:
    """How many runs a verification takes if all goes well; finding what is not finite and resuming take more."""
    return _RUNS + request.seeds


def _length(request: Request) -> str:
    ends = f"to {request.steps} optimizer steps" if request.steps else "to the end of the script"
    return f"each {ends} or {_duration(request.timeout)} (--steps, --timeout, --seeds)"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _SHORT else f"{seconds / 60:.0f} min"


def verify(request: Request, tell: Tell) -> Verification:
    """Runs the original and the migrated version and judges them. The user's files stay as they are.

    `tell` is given a line before each stage. Raises UnknownRevision, DamagedNotebook, and what migrating raises.
    """
    with _workplace(request) as place:
        command = _as_script(request.command)
        tell(f"copying the project, for {planned_runs(request)} runs, {_length(request)}")
        copied, migration = _prepare(request, place)
        changed = migration.changed if migration else ()
        session = _Session(request, place, command, tell, line_origins(place.original, place.migrated, changed))
        blank = Verification(request, command, "", Verdict("cannot verify", ""), migration, copied, ())
        if migration is not None and not migration.changed:
            return replace(blank, verdict=_nothing_changed(migration))
        return _runs(session, blank)


def _runs(session: _Session, blank: Verification) -> Verification:
    def ended(verdict: Verdict, **more: object) -> Verification:
        return replace(blank, verdict=verdict, runs=tuple(session.runs), **more)  # type: ignore[arg-type]

    steps = session.request.steps
    original = session.original("original", "running the original")
    verdict = judge_original(original, None, steps)
    if verdict is not None:
        return ended(verdict)
    again = session.original("again", "running the original again")
    verdict = judge_original(original, again, steps)
    if verdict is not None:
        return ended(verdict)
    plain = session.plain()
    verdict = judge_plain(original, plain)
    if verdict is not None:
        return ended(verdict)
    dtype = _dtype(session.request, original)
    level = session.level("level", f"running the migrated version{f' in {dtype}' if dtype else ''}", dtype)
    found = _find(session, level, dtype)
    seeded = (
        []
        if level.failed
        else [
            session.original(f"seed {k}", f"running the original with seed {k}", shift=k * _SEED_STRIDE, digest=False)
            for k in range(1, session.request.seeds + 1)
        ]
    )
    compared = _compare(original, again, level, seeded)
    verdict = judge_level(original, level, compared, found)
    trial = _try_checkpoints(session, plain, level, dtype, compared) if verdict.good else Trial()
    return ended(trial.verdict or verdict, dtype=dtype, compared=compared, found=found, checkpoints=trial.said)


def _try_checkpoints(session: _Session, plain: Run, level: Run, dtype: str, compared: Compared) -> Trial:
    original, asked, tree = session.runs[0], session.request, session.place.tree
    session.tell("comparing checkpoints")
    trial = judge_saved(*(compare_saved(original, run, tree, asked.python) for run in (plain, level)))
    if trial.verdict is not None or asked.resume is None:
        return trial
    resumed = try_resuming((original, level), tree, compared.noise, session.resume(dtype))
    return Trial((*trial.said, *resumed.said), resumed.verdict)


def _compare(original: Run, again: Run, level: Run, seeded: list[Run]) -> Compared:
    usable = [run for run in seeded if not run.failed and not run.timed_out]
    return Compared(
        distances=run_distances(original, level),
        noise=yardstick([original, *usable]),
        metrics=compare_metrics(original.output, again.output, [run.output for run in usable], level.output),
        lengths=tuple(run.steps for run in usable),
    )


def _find(session: _Session, level: Run, dtype: str) -> tuple[NonFinite, ...]:
    """Where a value that is not finite first appears, from a run of its own: looking for it takes time."""
    if not any(first_not_finite(process) for process in level.processes):
        return ()
    finding = session.level("finding", "looking for where values stop being finite", dtype, find=True)
    found = [item for process in finding.processes for item in process.nonfinite]
    return tuple(sorted(found, key=lambda item: (item.step, item.where != "output")))


def _dtype(request: Request, original: Run) -> str:
    """What to ask the runtime for: nothing where it chooses a type by itself, as on CUDA."""
    asked = dict(request.command.environment).get("AMPIFY_DTYPE")
    if asked or request.dtype != "auto":
        return asked or request.dtype
    devices = {step.device for process in original.processes for step in process.steps}
    return "bfloat16" if devices <= {"cpu"} else ""


def _prepare(request: Request, place: Workplace) -> tuple[Copied, Migration | None]:
    """The two versions that runs are copied from. Without a base, the second one is the first one, migrated."""
    copied = copy_project(request.root, place.original)
    copy_copy(place.original, place.migrated)
    if request.base is not None:
        put_revision(request.root, request.base, place.original)
    for tree in (place.original, place.migrated):
        _write_notebook(request.command, tree / request.directory)
    place.support.mkdir()
    runtime = package_folder()
    if runtime is not None:
        (place.support / PACKAGE).symlink_to(runtime.resolve(), target_is_directory=True)
    if request.base is not None:
        return copied, None
    return copied, migrate_copy(place.migrated, request.migrate, request.settings)


def _nothing_changed(migration: Migration) -> Verdict:
    if migration.refused:
        return Verdict(
            "cannot verify", "nothing was migrated: every training loop is refused", details=migration.refused
        )
    return Verdict(
        "cannot verify",
        "there is nothing to migrate here; if it is migrated already, compare with before by --base HEAD",
    )


def _as_script(command: Command) -> Command:
    """A notebook is run as the script that is written beside it."""
    if not command.target.endswith(".ipynb"):
        return command
    return replace(command, target=command.target.removesuffix(".ipynb") + "_as_script.py")


def _write_notebook(command: Command, directory: Path) -> None:
    if command.target.endswith(".ipynb"):
        script = directory / _as_script(command).target
        script.write_text(notebook_script(directory / command.target), encoding="utf-8")


@contextmanager
def _workplace(request: Request) -> Iterator[Workplace]:
    """The folder that all copies are in; removed at the end, unless it was named to be kept."""
    if request.keep is not None:
        request.keep.mkdir(parents=True, exist_ok=True)
        yield Workplace(request.keep.resolve(), request.root.resolve())
        return
    folder = Path(mkdtemp(prefix="ampify-verify-"))
    try:
        yield Workplace(folder.resolve(), request.root.resolve())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
