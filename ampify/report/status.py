"""The exit status of a run."""

from __future__ import annotations

from ampify.model.plan import Report

DONE = 0
LEFT_FOR_A_PERSON = 1
FAILED = 2
INTERRUPTED = 130


def exit_status(report: Report, *, check: bool = False, exit_zero: bool = False) -> int:
    """2 if ampify itself failed somewhere, 1 if something is left for a person (not with `exit_zero`), else 0."""
    if any(finding.code.startswith("AMP9") for finding in report.findings):
        return FAILED
    if exit_zero:
        return DONE
    refused = any(finding.refuses for finding in report.findings)
    changing = any(outcome.status == "changed" for outcome in report.outcomes)
    return LEFT_FOR_A_PERSON if refused or (check and (changing or report.findings)) else DONE
