"""A framework is given a setting of precision that its versions of today do not take.

What it does
------------
Points to settings that chose NVIDIA apex or its levels, and to those that were renamed: `amp_backend`, `amp_level` and
`use_amp` of Lightning, `fp16_backend`, `half_precision_backend` and `fp16_opt_level` of Transformers, `fp16` of
Accelerate. Where the value is a literal it takes the setting away, or puts the one of today in its place.

Why it matters
--------------
Versions without the setting stop at it, and versions with it want apex, which has to be built from its source.

Before
------
    from transformers import TrainingArguments

    arguments = TrainingArguments(output_dir="out", fp16=True, fp16_backend="apex", fp16_opt_level="O1")

After
-----
    from transformers import TrainingArguments

    arguments = TrainingArguments(output_dir="out", fp16=True)

Fix safety
----------
Unsafe: apex gives way to torch's autocast, which is what its level O1 did; higher levels cast the model as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ampify import catalog
from ampify.model import facts as f
from ampify.model.edit import Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import alone, calls, resettled

CODE = "AMP617"
NAME = "obsolete-precision-setting"
HINT = "take it away where its value comes from, and choose the precision by the setting of today"
# By framework: the packages, what is called there, and for each obsolete keyword what a value becomes ("" for gone).
OBSOLETE: tuple[tuple[tuple[str, ...], frozenset[str], Mapping[str, Mapping[object, str]]], ...] = (
    (
        *catalog.FRAMEWORK_SETTINGS["lightning-loop"],
        {
            "amp_backend": dict.fromkeys(("apex", "native"), ""),
            "amp_level": dict.fromkeys((None, "O0", "O1", "O2", "O3"), ""),
            "use_amp": {True: "precision=16", False: ""},
        },
    ),
    (
        *catalog.FRAMEWORK_SETTINGS["trainer-loop"],
        {
            "fp16_backend": dict.fromkeys(("apex", "amp", "auto"), ""),
            "half_precision_backend": dict.fromkeys(("apex",), ""),
            "fp16_opt_level": dict.fromkeys(("O0", "O1", "O2", "O3"), ""),
        },
    ),
    (
        ("accelerate",),
        frozenset({"Accelerator"}),
        {"fp16": {True: 'mixed_precision="fp16"', False: 'mixed_precision="no"'}},
    ),
)


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every call with obsolete settings."""
    for roots, names, obsolete in OBSOLETE:
        for facts, call, _ in calls(project, roots, names):
            found = [(name, value) for name, value in call.keywords if name in obsolete and not _of_today(name, value)]
            if found:
                yield _finding(facts, call, found, obsolete)


def _of_today(name: str | None, value: f.Expr) -> bool:
    """Whether a setting that is still there is given a value that is still taken, or may be."""
    return name == "half_precision_backend" and not (isinstance(value, f.Constant) and value.value == "apex")


def _finding(
    facts: f.FileFacts,
    call: f.Call,
    found: list[tuple[str | None, f.Expr]],
    obsolete: Mapping[str, Mapping[object, str]],
) -> Finding:
    anchor = facts.anchor(call)
    named = ", ".join(str(name) for name, _ in found)
    message = f"the versions of today do not take this setting: {named}"
    texts: dict[str, str] = {}
    for name, value in found:
        meanings = obsolete[str(name)]
        if not isinstance(value, f.Constant) or value.value not in meanings:
            return Finding(CODE, NAME, anchor, message, HINT)
        texts[str(name)] = meanings[value.value].replace('"', facts.quote)
    # Where the precision is missing as well, another rule adds it to the same call.
    chosen = any(name in ("precision", "use_amp") for name, _ in call.keywords) or "amp_backend" not in obsolete
    code = resettled(facts, call, texts) if chosen else None
    if code is None:
        return Finding(CODE, NAME, anchor, message, HINT)
    return Finding(CODE, NAME, anchor, message, fix=alone(anchor, (Replace(anchor, code),), "unsafe"))
