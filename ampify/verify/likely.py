"""Tells which rule is likely behind what went wrong, from what was seen to go wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What the watcher saw, and the rule that speaks of it.
FAULTS: Mapping[str, str] = {
    "unscaled-backward": "AMP201",
    "wrong-optimizer": "AMP201",
    "clip-in-block": "AMP202",
    "clip-before-unscale": "AMP220",
}
# What is said by the exception that ended a run.
_RAISED = (
    (re.compile(r"unsafe to autocast|binary_cross_entropy"), "AMP301"),
    (re.compile(r"amp\.(scale_loss|initialize).*(was not given|has not been called)", re.DOTALL), "AMP101"),
    (re.compile(r"no amp\.scale_loss block|unscaled backward|outside of .*scale_loss"), "AMP201"),
    (re.compile(r"amp\.load_state_dict|loss_scaler|Missing key|Unexpected key"), "AMP403"),
    (re.compile(r"No module named '[\w.]*ampify_runtime"), "AMP110"),
)
# An operation that a device does not have in a type is no fault of the migration.
_LACKS = re.compile(
    r"not (?:implemented|supported) (?:for|on) '?(?:Half|BFloat16|CPU)|does not support (?:half|float16|bfloat16)",
    re.IGNORECASE,
)
# A checkpoint that is loaded wrong, and one that is saved wrong.
CHECKPOINT = "AMP403"
UNSAVED = "AMP401"


def likely_rule(message: str) -> str:
    """The code of the rule that speaks of what this exception says; empty if none is likely."""
    return next((code for pattern, code in _RAISED if pattern.search(message)), "")


def device_lacks(message: str) -> bool:
    """Whether an exception says that the device has no such operation in reduced precision."""
    return bool(_LACKS.search(message))
