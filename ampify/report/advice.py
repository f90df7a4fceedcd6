"""What a reviewer should know of a migration, and try: by what was found, in sentences that mark code by backticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Final

from ampify.model.plan import LoopSummary, Report
from ampify.model.settings import Target
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
_REDUCED: Final = (
    "On a CUDA device the forward pass runs in reduced precision: losses follow the old ones, but are not the same "
    "numbers.",
    "The first steps may be skipped while the loss scale finds its height; a scheduler that counts steps is that much "
    "ahead.",
)
_ON_CPU: Final[Mapping[Target, str]] = {
    "runtime": " On a CPU nothing changes unless `AMPIFY_DTYPE` asks for it.",
    "native": " On a CPU nothing changes.",
}
# What a loop that had NVIDIA apex's amp trains by now.
_OFF_APEX: Final[Mapping[Target, str]] = {
    "runtime": "What trained by NVIDIA apex's amp trains by the runtime's: the same opt levels, loss scale and "
    "checkpoints. Kernels are others, so losses follow the old ones, but are not the same to the last bit.",
    "native": "What trained by NVIDIA apex's amp trains by torch's: operations that apex cast otherwise than autocast "
    "does make losses follow the old ones, but not to the last bit.",
}
_UNTRIED: Final = "ampify has read this code and not run it. Whether your losses bear {}, only a run can tell."


def risks(report: Report) -> tuple[str, ...]:
    """What a change like this can do to a training run; nothing if no loop is migrated."""
    return tuple(_risks(report)) if _migrated(report) else ()


def _risks(report: Report) -> Iterator[str]:
    if _new_to_amp(report):
        precision, skipped = _REDUCED
        yield from (precision + _ON_CPU[report.target], skipped)
    if _from_apex(report):
        yield _OFF_APEX[report.target]
    yield _UNTRIED.format("reduced precision" if _new_to_amp(report) else "the change")
    findings = ranked(report)
    codes = {finding.code for finding in (*findings["applied"], *findings["review"])}
    yield from (sentence for code, sentence in _RISKS.items() if code in codes)


def trials(report: Report) -> tuple[str, ...]:
    """What to try before merging, the cheapest first; nothing if no loop is migrated."""
    return tuple(_trials(report)) if _migrated(report) else ()


def verifying(report: Report) -> tuple[str, ...]:
    """Shell commands that show that the migration is whole, and that it computes what it did."""
    scripts = scripts_of(report)
    if not scripts:
        return ()
    checked = " ".join(scripts) if len(scripts) <= 3 else "."
    if report.target == "native":
        # No run of what is written for torch can be asked for that casts nothing, or that casts on a CPU.
        return (f"ampify --target native --check {checked}",)
    # What is written already is compared with what it was.
    base = "--base HEAD " if report.wrote else ""
    note = " (once this is committed, name the commit before it)" if base else ""
    off = scripts_of(report, _switched_off(report))[:3]
    return (
        f"ampify --check {checked}",
        f"# Trains before and after, and compares{note}:",
        *(f"ampify verify {base}{script}" for script in scripts[:3]),
        *(("# At O0 it prints what it printed before:",) if off else ()),
        *(f"AMPIFY_OPT_LEVEL=O0 {_started(script)}" for script in off),
    )


def _started(script: str) -> str:
    """What runs a script, or a notebook, and prints what it prints. `script` is a word of a shell."""
    if script.rstrip("'").endswith(".ipynb"):
        return f"jupyter nbconvert --to notebook --execute --stdout {script}"
    return f"python {script}"


def undoing(report: Report) -> tuple[str, ...]:
    """Shell commands that take the migration back."""
    return ("ampify undo",) if _migrated(report) else ()


def scripts_of(report: Report, loops: Iterable[LoopSummary] | None = None) -> tuple[str, ...]:
    """The files in which migrated loops are initialized, or else run: mostly the scripts that are started."""
    chosen = _migrated(report) if loops is None else loops
    places = (loop.initialize[0] if loop.initialize else loop.path for loop in chosen)
    return tuple(quote(path) for path in dict.fromkeys(places))


def _new_to_amp(report: Report) -> list[LoopSummary]:
    """The migrated loops that trained in full precision."""
    return [loop for loop in _migrated(report) if not loop.had_amp]


def _from_apex(report: Report) -> list[LoopSummary]:
    return [loop for loop in _migrated(report) if loop.had_amp]


def _switched_off(report: Report) -> list[LoopSummary]:
    """The loops that at O0 do what they did: the native target has no such switch, and apex's loops were not in full
    precision."""
    return _new_to_amp(report) if report.target == "runtime" else []


def _migrated(report: Report) -> list[LoopSummary]:
    return [loop for loop in report.loops if loop.state == "migrated"]


def _trials(report: Report) -> Iterator[str]:
    off = scripts_of(report, _switched_off(report))
    if off:
        each = "it" if len(off) == 1 else "each"
        yield f"Run {_named(off)} with `AMPIFY_OPT_LEVEL=O0`: {each} prints what it printed before, bit for bit."
    if len(off) < len(scripts_of(report)):
        yield f"Run {_named(scripts_of(report))} without a GPU, or with amp off, if that is a way it is used."
    yield "Run on the GPU you train on, for some hundred steps: the loss follows the old curve, and the scale settles."
    yield from _by_code(report)
    if any(len(loop.optimizers) > 1 for loop in _migrated(report)):
        yield "Look at the loops with several optimizers: each backward names those that its gradients feed."
    if any(loop.state == "refused" for loop in report.loops):
        yield "Run what was not migrated, too: it is untouched, and has to work beside what was."


def _named(scripts: Sequence[str]) -> str:
    told = in_words(f"`{script}`" for script in scripts[:3])
    more = f" and {len(scripts) - 3} more" if len(scripts) > 3 else ""
    return f"{told}{more} (or what starts {'it' if len(scripts) == 1 else 'them'})"


def _by_code(report: Report) -> Iterable[str]:
    codes = {entry.code for entry in report.ledger if entry.state == "rewritten"}
    saved = any(entry.site.kind in ("save", "load") for entry in report.ledger)
    if {"AMP401", "AMP403", "AMP430", "AMP431"} & codes or (_from_apex(report) and saved):
        yield "Save a checkpoint and resume from it; resume from one that was saved before the migration."
    if any(entry.site.kind == "wrap" for entry in report.ledger):
        yield "Run on two devices: parallel training is wrapped around the initialized model."
