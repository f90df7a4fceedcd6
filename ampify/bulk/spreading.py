"""Spreads jobs over processes or the workers of a cluster, through joblib; what loses its worker is done again once."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ampify.bulk.job import Job
from ampify.bulk.problem import BulkProblem
from ampify.bulk.state import state_of, write_state
from ampify.bulk.worker import Done, carry_out

Backend: TypeAlias = Literal["processes", "dask", "ray"]
BACKENDS: Final[tuple[Backend, ...]] = ("processes", "dask", "ray")
_EXTRAS: Final = {"processes": "bulk", "dask": "dask", "ray": "ray"}
# How often a job may lose its worker, and the pool break with no job to blame, before that is final.
_LOSSES: Final = 2


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where jobs are done: `scheduler` is the address of a dask scheduler or ray head; `jobs` of them at once, at
    most, -1 for as many as there are workers."""

    backend: Backend = "processes"
    scheduler: str | None = None
    jobs: int = 1


def spread(jobs: Sequence[Job], cluster: Cluster) -> Iterator[Done]:
    """The results, as they come. Raises BulkProblem if the backend is not there, or no worker can do anything."""
    with _backend(cluster) as broken:
        waiting = {job.name: job for job in jobs}
        losses: Counter[str] = Counter()
        while waiting:
            try:
                for done in _results(waiting.values(), cluster):
                    del waiting[done.name]
                    yield done
            except broken as failure:  # noqa: PERF203 (each round goes on where a lost worker broke the last one off)
                yield from _lost(waiting, losses, failure)


def _lost(waiting: dict[str, Job], losses: Counter[str], failure: BaseException) -> Iterator[Done]:
    """Counts what was under way when workers were lost; what lost its worker too often has failed."""
    begun = [name for name, job in waiting.items() if list(Path(job.folder).glob(f".work-{job.run}-*"))]
    losses.update(begun or [""])
    if losses[""] >= _LOSSES:
        raise BulkProblem(f"the workers cannot be used: {type(failure).__name__}: {failure}") from failure
    for name in begun:
        if losses[name] >= _LOSSES:
            job = waiting.pop(name)
            state = state_of(job, "failed", reason=f"its worker was lost {_LOSSES} times", internal=True)
            write_state(Path(job.folder), state)
            yield Done(name, state)


def _results(jobs: Iterable[Job], cluster: Cluster) -> Iterator[Done]:
    joblib = _load("joblib", cluster.backend)
    # Its pool gives no result before the last.
    how = "list" if cluster.backend == "ray" else "generator_unordered"
    parallel = joblib.Parallel(n_jobs=cluster.jobs, return_as=how, batch_size=1)
    yield from parallel(joblib.delayed(carry_out)(job) for job in list(jobs))


@contextlib.contextmanager
def _backend(cluster: Cluster) -> Iterator[tuple[type[BaseException], ...]]:
    """Has joblib use the backend meanwhile; gives what it raises when a worker is lost."""
    joblib = _load("joblib", cluster.backend)
    if cluster.backend == "processes":
        # Workers only wait for processes that they start; one that waits long is not to be given up.
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            yield (import_module("concurrent.futures").BrokenExecutor,)
    elif cluster.backend == "dask":
        distributed = _load("distributed", "dask")
        with _connected(cluster, distributed) as client, joblib.parallel_config("dask", client=client):
            yield (distributed.scheduler.KilledWorker, import_module("concurrent.futures").CancelledError)
    else:
        ray = _load("ray", "ray")
        _load("ray.util.joblib", "ray").register_ray()
        ray.init(address=cluster.scheduler, log_to_driver=False, include_dashboard=False)
        try:
            with joblib.parallel_config("ray"):
                yield (ray.exceptions.RayError,)
        finally:
            ray.shutdown()


def _connected(cluster: Cluster, distributed: Any) -> Any:
    try:
        return distributed.Client(cluster.scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BulkProblem(f"--scheduler {cluster.scheduler}: no dask scheduler answers there: {error}") from error


def _load(module: str, backend: Backend) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        extra = _EXTRAS[backend]
        remedy = f"pip install {error.name}, or '.[{extra}]' in ampify's checkout"
        raise BulkProblem(f"--backend {backend} needs {error.name}: {remedy}") from error
