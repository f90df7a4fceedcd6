"""The options of `ampify bulk`, and what it prints where."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ampify.bulk.problem import BulkProblem
from ampify.config import read_options
from ampify.rules import rule_names

PROBLEMS: tuple[type[Exception], ...] = (BulkProblem,)
FILE = click.Path(path_type=Path)
# Those of `ampify migrate` that say how to migrate, as its `--help` explains them.
_MIGRATION: Final = ("target", "opt-level", "dtype", "vendor", "select", "ignore", "exclude", "add-flag", "unsafe")
_SEVERAL: Final = ("select", "ignore", "exclude")
_FLAGS: Final = ("add-flag", "unsafe")

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OWN = (
    click.argument("repositories", metavar="REPOS.txt", type=FILE),
    click.option("--out", metavar="DIR", type=FILE, required=True, help="Where clones, reports and the summary go."),
    click.option("--branch", default="ampify/mixed-precision", help="The branch of the commit.", show_default=True),
    click.option("--depth", type=click.IntRange(0), default=1, help="Commits to fetch; 0: all.  [default: 1]"),
    click.option("--timeout", type=click.FloatRange(0), default=900.0, help="Seconds a repository.  [default: 900]"),
    click.option("--memory", type=click.IntRange(0), default=4096, help="MiB a repository; 0: any.  [default: 4096]"),
    click.option("--retry-failed", is_flag=True, help="Try those again, too, that failed in an earlier run."),
    click.option(
        "--backend",
        type=click.Choice(["processes", "dask", "ray"]),
        default="processes",
        help="What joblib spreads the repositories with.  [default: processes]",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="Where the dask scheduler or the ray head listens."),
    click.option("-j", "--jobs", type=click.IntRange(1), help="Repositories at once.  [default: one a core or worker]"),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 where 1 would say that something is left to a person."),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing of single repositories."),
)


def _migration_option(key: str) -> Callable[[_Function], _Function]:
    words = "As in `ampify migrate`."
    if key in _FLAGS:
        return click.option(f"--{key}", is_flag=True, help=words)
    return click.option(f"--{key}", multiple=key in _SEVERAL, help=words)


def options(function: _Function) -> _Function:
    """Gives a command the arguments and options of `ampify bulk`."""
    for option in reversed((*_OWN, *(_migration_option(key) for key in _MIGRATION))):
        function = option(function)
    return function


def run(given: Mapping[str, Any]) -> int:
    """Sees to all repositories, prints what became of them; the exit status. Raises `PROBLEMS` and those of options."""
    # Imported where needed: every run of ampify would wait for it.
    from ampify.bulk.session import Request
    from ampify.bulk.session import run as run_bulk
    from ampify.bulk.sources import read_sources
    from ampify.bulk.spreading import Cluster
    from ampify.bulk.summary import listed

    migration = _migration(given)
    backend, scheduler = given["backend"], given["scheduler"]
    if backend == "processes" and scheduler is not None:
        raise BulkProblem("--scheduler is for --backend dask or ray; give that, too")
    if backend == "dask" and scheduler is None:
        raise BulkProblem("--backend dask needs --scheduler ADDRESS, such as tcp://host:8786")
    jobs = given["jobs"] or (os.cpu_count() or 1 if backend == "processes" else -1)
    kept = ("out", "branch", "depth", "timeout", "memory", "retry_failed")
    request = Request(
        read_sources(given["repositories"]),
        options=migration,
        cluster=Cluster(backend, scheduler, jobs),
        **{key: given[key] for key in kept},
    )
    summary = run_bulk(request, _silent if given["quiet"] else say)
    say(f"{listed(summary.states)}; see {given['out'] / 'index.html'}")
    return summary.exit_status(exit_zero=given["exit_zero"])


def say(line: str) -> None:
    """Prints a line on standard error."""
    click.echo(f"ampify bulk: {line}", err=True)


def _silent(_: str) -> None:
    pass


def _migration(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the migration that were given, by flag; raises InvalidOption here, not once a repository."""
    values = {key: given[key.replace("-", "_")] for key in _MIGRATION}
    chosen = {key: value for key, value in values.items() if value not in (None, (), False)}
    for key in ("select", "ignore"):
        if key in chosen:
            chosen[key] = tuple(part.strip() for text in chosen[key] for part in text.split(","))
    read_options(chosen, [], None, rule_names())
    return chosen
