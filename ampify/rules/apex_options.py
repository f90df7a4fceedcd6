"""What the arguments of apex's `amp.initialize` are to a GradScaler and autocast."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ampify.model.apex import ApexMention
from ampify.model.edit import Applicability

_PARAMETERS = (
    """models optimizers enabled opt_level cast_model_type patch_torch_functions keep_batchnorm_fp32 master_weights
    loss_scale cast_model_outputs num_losses verbosity min_loss_scale max_loss_scale"""
).split()
_STRING = re.compile(r"""(["'])(?P<text>[^"'\\]*)\1""")
# A scale that never grows, as far as any training goes.
_NEVER = "2**31 - 1"
_TOLD = {
    "num_losses": "All losses share one scale from now on.",
    "min_loss_scale": "torch has no lower bound of the scale.",
    "max_loss_scale": "torch has no upper bound of the scale.",
    "cast_model_type": "Parameters stay in float32.",
    "cast_model_outputs": "Outputs stay in the type that they are computed in.",
}
_O2 = "The parameters stay in float32, which O2 had in float16."
_O3 = "O3 trained in float16 alone; this keeps parameters in float32."
_STATIC = "The static scale is halved where gradients overflow, and such a step is left out."


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of the scaler, what must hold for it to be on, and what the change means for the training."""

    arguments: tuple[str, ...]
    enabled: tuple[str, ...]
    remarks: tuple[str, ...]
    applicability: Applicability


def options(mention: ApexMention, quote: str) -> Options | str:
    """The options of a call; in words why there are none, if they cannot be known."""
    if mention.arguments is None:
        return "the arguments of amp.initialize are spread from elsewhere"
    given: dict[str, str] = {}
    positions = iter(_PARAMETERS)
    for argument in mention.arguments:
        given[argument.name or next(positions, "")] = argument.text
    if not given.keys() <= set(_PARAMETERS):
        return "amp.initialize has no such arguments"
    level = _literal(given.get("opt_level", '"O1"'))
    enabled, remarks = [], []
    if given.get("enabled", "True") != "True":
        enabled.append(given["enabled"])
    if level is None:
        enabled.append(f"{given['opt_level']} != {quote}O0{quote}")
        remarks.append("At O2 or O3 parameters were in float16; they stay in float32.")
    elif level == "O0":
        enabled.append("False")
    elif level != "O1":
        remarks.append(_O2 if level == "O2" else _O3)
    arguments, static = _scale(given.get("loss_scale", "None"), quote)
    remarks += [_STATIC] if static else []
    remarks += [text for name, text in _TOLD.items() if given.get(name, "None") not in ("None", "1")]
    return Options(tuple(arguments), tuple(enabled), tuple(remarks), "unsafe" if level == "O3" else "safe")


def _literal(text: str) -> str | float | None:
    """The value of a literal string or number; None if a text is neither."""
    quoted = _STRING.fullmatch(text)
    if quoted is not None:
        return quoted["text"]
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def _scale(text: str, quote: str) -> tuple[list[str], bool]:
    """The scaler's arguments for a loss scale, and whether it surely is a static one."""
    value = _literal(text)
    if text == "None" or value == "dynamic":
        return [], False
    if value is not None:
        try:
            return [f"init_scale={float(value)}", f"growth_interval={_NEVER}"], True
        except ValueError:
            pass
    dynamic = f"{text} in (None, {quote}dynamic{quote})"
    scale = f"init_scale=2.0**16 if {dynamic} else float({text})"
    return [scale, f"growth_interval=2000 if {dynamic} else {_NEVER}"], False
