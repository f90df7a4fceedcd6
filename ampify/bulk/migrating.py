"""Migrates one checked-out repository: the pipeline, the reports, the commit."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampify import pipeline
from ampify.bulk.git import check_out, commit_paths
from ampify.bulk.job import CHECKOUT, REPORTS, Job
from ampify.bulk.message import commit_message
from ampify.bulk.problem import RepositoryFailed
from ampify.bulk.state import State, state_of
from ampify.config import read_options
from ampify.model.finding import Finding
from ampify.model.plan import Report
from ampify.report.formats import format_of, rendered
from ampify.report.json import summary
from ampify.report.links import Links
from ampify.report.repository import find_links
from ampify.report.standing import told_once
from ampify.report.status import FAILED, exit_status
from ampify.rules import rule_names
from ampify.write import put_report


@dataclass(frozen=True, slots=True)
class _Migrated:
    """What the pipeline made of a checkout, and the files it wrote, relative to it."""

    report: Report
    paths: list[str]
    commit: str


def migrate_repository(job: Job) -> State:
    """Checks the job's repository out, migrates, commits and reports, all of it in the job's folder.

    Changes the current folder. Raises RepositoryFailed and the problems of the pipeline.
    """
    folder = Path(job.folder)
    checkout = folder / CHECKOUT
    base = check_out(job.source, checkout, job.branch, job.depth)
    os.chdir(checkout)
    links = _links(job, checkout)
    migrated = _migrate(job, checkout)
    for name in REPORTS:
        # Links from the text of a pull request are seen from elsewhere than from this folder.
        wanted = links if name.endswith(".html") or links.base.startswith("https:") else Links()
        put_report(folder / name, rendered(migrated.report, format_of(Path(name)), wanted))
    os.chdir(folder)
    if not migrated.paths:
        shutil.rmtree(checkout)
    return state_of(
        job,
        "migrated" if migrated.paths else "unchanged",
        internal=exit_status(migrated.report, exit_zero=True) == FAILED,
        base=base,
        commit=migrated.commit,
        counts=summary(migrated.report),
        refusals=_refusals(migrated.report),
    )


def _migrate(job: Job, checkout: Path) -> _Migrated:
    # One process: the run spreads over repositories. A checkout that nobody analysed before has no cache.
    given: dict[str, Any] = {**job.options, "jobs": 1, "no-cache": True}
    here = Path()
    settings = read_options(given, [here], None, rule_names()).settings
    report = pipeline.run([here], settings)
    paths = [_inside(checkout, outcome.path) for outcome in report.outcomes if outcome.status == "changed"]
    report = pipeline.write(report, settings)
    if not paths:
        return _Migrated(report, paths, "")
    return _Migrated(report, paths, commit_paths(checkout, paths, commit_message(report, settings)))


def _inside(checkout: Path, path: str) -> str:
    """The real file of an outcome, relative to the checkout; raises RepositoryFailed for a link that leads out of it.

    A repository is a stranger's: a link in it must not have us write to the files of whoever runs this.
    """
    top = checkout.resolve()
    real = (top / path).resolve()
    if not real.is_relative_to(top) or ".git" in real.relative_to(top).parts:
        raise RepositoryFailed(f"{path} leads out of the repository; nothing was written")
    return real.relative_to(top).as_posix()


def _links(job: Job, checkout: Path) -> Links:
    """Where lines can be seen: at the host of the repository, else in the local one, else in the checkout."""
    hosted = find_links(checkout, {})
    if hosted.base:
        return hosted
    local = Path(job.source.location)
    top = str(checkout)
    if local.is_absolute() and (local / ".git").exists():
        return Links(f"{local.as_uri()}/", top, top)
    return Links(f"{CHECKOUT}/", top, top)


def _refusals(report: Report) -> dict[str, tuple[str, int]]:
    refusing: tuple[Finding, ...] = told_once(finding for finding in report.findings if finding.refuses)
    counted = Counter((finding.code, finding.name) for finding in refusing)
    return {code: (name, count) for (code, name), count in sorted(counted.items())}
