"""Makes one opt level and one type of two options that say nearly the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ampify.config.options import InvalidOption

_DTYPE_OF: Final[Mapping[str, str]] = {
    "O1": "float16",
    "O2": "float16",
    "O3": "float16",
    "O4": "bfloat16",
    "O5": "bfloat16",
}
# The level that leaves the model as it is, by the type that it casts to.
_LEVEL_OF: Final[Mapping[str, str]] = {"float16": "O1", "bfloat16": "O4"}
_KEYS: Final = ("opt-level", "dtype")


def level_and_dtype(flags: Mapping[str, object], preset: Mapping[str, object]) -> tuple[str, str]:
    """The opt level, and what it casts to; one that is given as a flag decides over a preset other.

    Raises InvalidOption where both are asked for and do not go together.
    """
    asked = {key: values[key] for values in (preset, flags) for key in _KEYS if key in values}
    given = [key for key in _KEYS if key in flags]
    if len(given) == 1 and not _agree(asked):
        asked = {given[0]: flags[given[0]]}
    if not _agree(asked):
        level, dtype = (asked[key] for key in _KEYS)
        raise InvalidOption(
            f"opt-level {level} and dtype {dtype} do not go together: O1 to O3 cast to float16, O4 and O5 to bfloat16; "
            "give one of the two"
        )
    dtype = str(asked.get("dtype", _DTYPE_OF.get(str(asked.get("opt-level")), "float16")))
    return str(asked.get("opt-level", _LEVEL_OF[dtype])), dtype


def _agree(asked: Mapping[str, object]) -> bool:
    """Whether the level, if there is one, casts to the type, if there is one; O0 casts to none, and goes with each."""
    dtype = asked.get("dtype")
    return dtype is None or _DTYPE_OF.get(str(asked.get("opt-level")), dtype) == dtype
