"""Decides on bytes alone which files hold a place that the ledger lists, though nothing trains there."""

from __future__ import annotations

import re
from typing import Final

# A word, and the pattern that must fit somewhere: searching for plain bytes is many times faster than for a pattern.
_SITES: Final[tuple[tuple[bytes, re.Pattern[bytes]], ...]] = (
    (b"torch.save", re.compile(rb"\btorch\.save\b")),
    (b"torch.load", re.compile(rb"\btorch\.load\b")),
    (b"zero_grad", re.compile(rb"\.[\s\\]*zero_grad\b")),
    (b"clip_grad", re.compile(rb"\bclip_grad_")),
)
# An attribute of other libraries as well, so that the file must name torch.
_GRADIENT: Final = re.compile(rb"\.grad\b")
# Much has a `step`: a scheduler, an environment. The ledger lists that of what is named like an optimizer, or comes
# from what is, or is the base of one: that name stands so many bytes before, at most.
_STEP: Final = re.compile(rb"\.[\s\\]*step\b")
_BEFORE: Final = 200


def names_sites(content: bytes) -> bool:
    """Whether a file may hold a site: a save, load, step, clearing, clip or read of gradients by its name."""
    if any(word in content and pattern.search(content) for word, pattern in _SITES):
        return True
    if b".grad" in content and b"torch" in content and _GRADIENT.search(content):
        return True
    return b".step" in content and any(_of_optimizer(content, found.start()) for found in _STEP.finditer(content))


def _of_optimizer(content: bytes, place: int) -> bool:
    before = content[max(0, place - _BEFORE) : place].lower()
    return b"opt" in before or b"super" in before
