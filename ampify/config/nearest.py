"""Says which rule may have been meant by what is no rule."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

# More codes of a family would be a list that nobody reads.
_MOST_NAMED: Final = 12
_FAMILY: Final = len("AMP2")


def nearest_rule(wanted: str, known: Mapping[str, str]) -> str:
    """What to do instead; `known` are the rules' names by their codes, in order."""
    code = wanted.upper() if not wanted.isdigit() else f"AMP{wanted}"
    if code != wanted and any(one.startswith(code) for one in known):
        return f"did you mean {code}?"
    meant = [one for one in known if code.startswith(one)]
    meant += [
        f"{one}, {name}"
        for name in get_close_matches(wanted.lower(), known.values(), n=1)
        for one in known
        if known[one] == name
    ]
    if meant:
        return f"did you mean {meant[0]}?"
    family = [one for one in known if one[:_FAMILY] == code[:_FAMILY]]
    named = (
        f"those that start with {code[:_FAMILY]} are {', '.join(family)}; " if 0 < len(family) <= _MOST_NAMED else ""
    )
    return f"{named}codes look like AMP201, and `ampify rules` lists them"
