"""Prints the cast lists, per device type."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator

from .._core.cast_lists import LISTS, CastList, read_lists

_MEANINGS = (
    ("allow", "in float16 or bfloat16"),
    ("deny", "in float32"),
    ("promote", "in the widest type given"),
    ("banned", "refused on reduced precision"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--lists", choices=sorted(LISTS), help="whose lists; default: AMPIFY_CAST_LISTS, or torch")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="only for this type of device")


def run(arguments: argparse.Namespace) -> int:
    """Print the lists that `arguments` ask for."""
    name = read_lists(arguments.lists)
    for device_type, lists in LISTS[name].items():
        if arguments.device in (None, device_type):
            sys.stdout.write("\n".join([f"{device_type} ({name})", *_lines(lists)]) + "\n")
    return 0


def _lines(lists: CastList) -> Iterator[str]:
    operators_of = dict(lists.kinds())
    for kind, meaning in _MEANINGS:
        operators = operators_of[kind]
        yield f"  {kind}: {meaning}"
        words = " ".join(sorted(operators)) or "none"
        yield textwrap.fill(words, 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
