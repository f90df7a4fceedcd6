"""Writes a verification as JSON: a versioned document that `docs/verify.md` describes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TypeAlias

import ampify
from ampify.verify.curves import Distance, curves_of
from ampify.verify.figures import figures_of, median_step
from ampify.verify.judging import allowed
from ampify.verify.record import Process
from ampify.verify.running import Run
from ampify.verify.session import Verification

SCHEMA = 1

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


def json_verification(verification: Verification) -> str:
    """The whole verification, as one JSON document that ends in a newline. Numbers that are not finite become null."""
    verdict = verification.verdict
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "version": ampify.__version__,
        "command": verification.command.shown,
        "opt_level": verification.request.settings.opt_level,
        "dtype": verification.dtype or None,
        "verdict": {
            "judgement": verdict.judgement,
            "good": verdict.good,
            "reason": verdict.reason,
            "places": list(verdict.places),
            "rule": verdict.rule or None,
            "details": list(verdict.details),
        },
        "migration": _migration(verification),
        "runs": [_run(run) for run in verification.runs],
        "comparison": _comparison(verification),
        "precision": _precision(verification),
        "checkpoints": list(verification.checkpoints),
        "written_outside": list(verification.outside),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _migration(verification: Verification) -> Json:
    migration = verification.migration
    if migration is None:
        return None
    return {"changed": list(migration.changed), "refused": list(migration.refused)}


def _run(run: Run) -> Json:
    raised = run.raised
    return {
        "name": run.name,
        "status": run.status,
        "seconds": round(run.seconds, 3),
        "timed_out": run.timed_out,
        "raised": None if raised is None else {"type": raised.type, "message": raised.message},
        "processes": [_process(process) for process in run.processes],
    }


def _process(process: Process) -> Json:
    return {
        "rank": process.rank,
        "steps": len(process.steps),
        "skipped": sum(step.skipped for step in process.steps),
        "median_step_seconds": median_step(process),
        "peak_bytes": process.peak,
        "memory": process.memory,
        "losses": [
            {"place": curve.name, "steps": list(curve.steps), "values": _finite(curve.values)}
            for curve in curves_of(process)
        ],
        "gradient_norms": _finite(step.norm for step in process.steps),
        "loss_scales": _finite(step.scale for step in process.steps),
        "learning_rates": [_finite(step.rates) for step in process.steps],
    }


def _comparison(verification: Verification) -> Json:
    compared = verification.compared
    return {
        "curves": [_distance(distance, *allowed(compared.noise, i)) for i, distance in enumerate(compared.distances)],
        "metrics": [
            {
                "name": metric.name,
                "before": metric.before,
                "after": metric.after,
                "distance": metric.distance,
                "noise": metric.noise,
            }
            for metric in compared.metrics
        ],
    }


def _distance(distance: Distance, mean: float, final: float) -> Json:
    return {
        "mean": distance.mean,
        "final": distance.final,
        "allowed_mean": mean,
        "allowed_final": final,
    }


def _precision(verification: Verification) -> Json:
    shares = figures_of(verification).precision
    return [{"module": share.module, "flops": share.flops, "reduced": share.reduced} for share in shares]


def _finite(values: Iterable[float]) -> list[Json]:
    return [value if math.isfinite(value) else None for value in values]
