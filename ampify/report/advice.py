"""What a reviewer should know of a migration, and try: by what was found, in sentences that mark code by backticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Final

from ampify.model.plan import LoopSummary, Report
from ampify.report.standing import ranked
from ampify.report.wording import in_words

_RISKS: Final[Mapping[str, str]] = {
    "AMP110": "The code needs a new package, `ampify_runtime`: every place that trains has to have it.",
    "AMP202": "Gradients are clipped on the parameters that the optimizer steps, once these are unscaled: a bound "
    "means what it meant.",
    "AMP301": "A binary cross entropy takes float32 as before, by a wrapper around the loss.",
    "AMP302": "A sigmoid in half precision saturates sooner than in float32; look at the finding.",
    "AMP401": "Checkpoints get one more entry, for amp's state: code of yours that goes over all entries sees it, too.",
    "AMP403": "Checkpoints from before the migration load as before; the loss scale then starts anew.",
}
_ALWAYS: Final = (
    "On a CUDA device the forward pass runs in reduced precision: losses follow the old ones, but are not the same "
    "numbers. On a CPU nothing changes unless `AMPIFY_DTYPE` asks for it.",
    "The first steps may be skipped while the loss scale finds its height; a scheduler that counts steps is that much "
    "ahead.",
    "ampify has read this code and not run it. Whether your losses bear reduced precision, only a run can tell.",
)


def risks(report: Report) -> tuple[str, ...]:
    """What a change like this can do to a training run; nothing if no loop is migrated."""
    if not _migrated(report):
        return ()
    findings = ranked(report)
    codes = {finding.code for finding in (*findings["applied"], *findings["review"])}
    return (*_ALWAYS, *(sentence for code, sentence in _RISKS.items() if code in codes))


def trials(report: Report) -> tuple[str, ...]:
    """What to try before merging, the cheapest first; nothing if no loop is migrated."""
    return tuple(_trials(report)) if _migrated(report) else ()


def verifying(report: Report) -> tuple[str, ...]:
    """Shell commands that show that the migration is whole, and that it computes what it did."""
    scripts = scripts_of(report)
    if not scripts:
        return ()
    # What is written already is compared with what it was.
    base = "--base HEAD " if report.wrote else ""
    note = " (once this is committed, name the commit before it)" if base else ""
    return (
        f"ampify --check {' '.join(scripts) if len(scripts) <= 3 else '.'}",
        f"# Trains before and after, and compares{note}:",
        *(f"ampify verify {base}{script}" for script in scripts[:3]),
        "# At O0 it prints what it printed before:",
        *(f"AMPIFY_OPT_LEVEL=O0 {_started(script)}" for script in scripts[:3]),
    )


def _started(script: str) -> str:
    """What runs a script, or a notebook, and prints what it prints. `script` is a word of a shell."""
    if script.rstrip("'").endswith(".ipynb"):
        return f"jupyter nbconvert --to notebook --execute --stdout {script}"
    return f"python {script}"


def undoing(report: Report) -> tuple[str, ...]:
    """Shell commands that take the migration back."""
    return ("ampify undo",) if _migrated(report) else ()


def scripts_of(report: Report) -> tuple[str, ...]:
    """The files in which migrated loops are initialized, or else run: mostly the scripts that are started."""
    places = (loop.initialize[0] if loop.initialize else loop.path for loop in _migrated(report))
    return tuple(quote(path) for path in dict.fromkeys(places))


def _migrated(report: Report) -> list[LoopSummary]:
    return [loop for loop in report.loops if loop.state == "migrated"]


def _trials(report: Report) -> Iterator[str]:
    scripts = scripts_of(report)
    told = in_words(f"`{script}`" for script in scripts[:3])
    more = f" and {len(scripts) - 3} more" if len(scripts) > 3 else ""
    started = f"{told}{more} (or what starts them)"
    yield f"Run {started} with `AMPIFY_OPT_LEVEL=O0`: each prints what it printed before, bit for bit."
    yield "Run on the GPU you train on, for some hundred steps: the loss follows the old curve, and the scale settles."
    yield from _by_code(report)
    if any(len(loop.optimizers) > 1 for loop in _migrated(report)):
        yield "Look at the loops with several optimizers: each backward names those that its gradients feed."
    if any(loop.state == "refused" for loop in report.loops):
        yield "Run what was not migrated, too: it is untouched, and has to work beside what was."


def _by_code(report: Report) -> Iterable[str]:
    codes = {entry.code for entry in report.ledger if entry.state == "rewritten"}
    if {"AMP401", "AMP403"} & codes:
        yield "Save a checkpoint and resume from it; resume from one that was saved before the migration."
    if any(entry.site.kind == "wrap" for entry in report.ledger):
        yield "Run on two devices: parallel training is wrapped around the initialized model."
