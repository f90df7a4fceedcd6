"""Words the commit that a migration ends in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

import ampify
from ampify.model.plan import Report
from ampify.model.settings import Settings
from ampify.report.wording import counted, in_words

_SUBJECT = "Train in mixed precision"
_OFF_APEX = "Train without NVIDIA apex"
_WIDTH = 72


def commit_message(report: Report, settings: Settings) -> str:
    """What was done and what was not, and how to compare and take back."""
    changed = sum(outcome.status == "changed" for outcome in report.outcomes)
    had_amp = [loop.had_amp for loop in report.loops if loop.state == "migrated"]
    paragraphs = [
        _SUBJECT if not all(had_amp) or not had_amp else _OFF_APEX,
        f"Made by ampify {ampify.__version__}: {in_words(_done(had_amp, settings))}; "
        f"{counted(changed, 'file')} changed.",
        *_left(report),
        *_comparing(settings, new=False in had_amp),
    ]
    return "\n\n".join(fill(paragraph, _WIDTH, break_long_words=False) for paragraph in paragraphs) + "\n"


def _done(had_amp: Sequence[bool], settings: Settings) -> Iterator[str]:
    new, old = had_amp.count(False), had_amp.count(True)
    if new or not old:
        yield f"{counted(new, 'training loop')} rewritten for mixed precision ({_level(settings)})"
    if old:
        where = "the runtime's amp" if settings.target == "runtime" else "torch.amp"
        yield f"{counted(old, 'training loop')} moved from NVIDIA apex's amp to {where}"


def _level(settings: Settings) -> str:
    return f"opt level {settings.opt_level}" if settings.target == "runtime" else "torch.amp"


def _left(report: Report) -> list[str]:
    refused = sum(loop.state == "refused" for loop in report.loops)
    if not refused:
        return []
    loops = {loop.id for loop in report.loops if loop.state == "refused"}
    codes = sorted({f"{f.code} {f.name}" for f in report.findings if f.refuses and f.loop in loops})
    reasons = f": {in_words(codes)}" if codes else ""
    return [f"Left as it was, for a person to look at: {counted(refused, 'training loop')}{reasons}."]


def _comparing(settings: Settings, *, new: bool) -> list[str]:
    if settings.target != "runtime" or not new:
        return ["To compare with the original, train both: `ampify verify SCRIPT -- ARGS`."]
    return [
        "To compare with the original, train both: `ampify verify SCRIPT -- ARGS`. With AMPIFY_OPT_LEVEL=O0 in the "
        "environment the new version computes what the old one did."
    ]
