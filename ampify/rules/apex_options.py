"""What the arguments of apex's `amp.initialize` are to a GradScaler and autocast."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ampify.model.apex import ApexMention
from ampify.model.edit import Applicability

_PARAMETERS = (
    """models optimizers enabled opt_level cast_model_type patch_torch_functions keep_batchnorm_fp32 master_weights
    loss_scale cast_model_outputs num_losses verbosity min_loss_scale max_loss_scale"""
).split()
MASTERS = "FP16_Optimizer"
_OF_MASTERS = ("init_optimizer", "static_loss_scale", "dynamic_loss_scale", "dynamic_loss_args", "verbose")
# What a dynamic scale of such an optimizer starts from, and how a GradScaler names it.
_DYNAMIC = {"init_scale": "2.0**16", "scale_factor": "2.0", "scale_window": "2000"}
_PLACES = re.compile(r"""(["'])(?P<key>\w+)\1\s*:\s*(?P<value>[\w.]+(?:\s*\*\*\s*[\w.]+)?)""")
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
_WIDE = (
    "The parameters, which were in float16, stay in float32, and so does evaluation outside of autocast. A checkpoint "
    "of before has the optimizer's state as optimizer_state_dict, which has to be taken out by hand."
)
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


def masters_options(mention: ApexMention, quote: str) -> Options | str:
    """The options of an `FP16_Optimizer`; in words why there are none, if they cannot be known."""
    given = _by_name(mention, _OF_MASTERS)
    if given is None:
        return f"the arguments of {MASTERS} are spread from elsewhere, or not known"
    dynamic, static = given.get("dynamic_loss_scale", "False"), given.get("static_loss_scale", "1.0")
    moving = _moving(given.get("dynamic_loss_args", "None"))
    if moving is None and dynamic != "False":
        return f"{MASTERS} is given dynamic_loss_args that a GradScaler cannot be told"
    init, factor, window = (moving or _DYNAMIC).values()
    if dynamic == "False":
        value = _literal(static)
        scale = f"init_scale={float(value) if isinstance(value, float) else f'float({static})'}"
        return Options((scale, f"growth_interval={_NEVER}"), (), (_WIDE, _STATIC), "safe")
    factors = (
        () if factor == _DYNAMIC["scale_factor"] else (f"growth_factor={factor}", f"backoff_factor=1 / ({factor})")
    )
    if dynamic == "True":
        known = (("init_scale", init, _DYNAMIC["init_scale"]), ("growth_interval", window, _DYNAMIC["scale_window"]))
        told = (f"{name}={value}" for name, value, usual in known if value != usual)
        return Options((*told, *factors), (), (_WIDE,), "safe")
    scale = f"init_scale={init} if {dynamic} else float({static})"
    return Options((scale, *factors, f"growth_interval={window} if {dynamic} else {_NEVER}"), (), (_WIDE,), "safe")


def _moving(text: str) -> dict[str, str] | None:
    """What a dict with arguments of a dynamic scale sets, by apex's names; None if that cannot be told."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip().removesuffix(",")
    if text == "None" or not inner:
        return _DYNAMIC
    parts = [_PLACES.fullmatch(part.strip()) for part in inner.split(",")]
    found = {part["key"]: part["value"] for part in parts if part is not None}
    known = text.startswith("{") and all(parts) and found.keys() <= _DYNAMIC.keys()
    return {**_DYNAMIC, **found} if known else None


def _by_name(mention: ApexMention, parameters: Sequence[str]) -> dict[str, str] | None:
    """The arguments of a call by their parameters; None if they are spread, or others."""
    if mention.arguments is None:
        return None
    positions = iter(parameters)
    given = {argument.name or next(positions, ""): argument.text for argument in mention.arguments}
    return given if given.keys() <= set(parameters) else None


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
