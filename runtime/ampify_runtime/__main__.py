"""Owns `python -m ampify_runtime`: a table of subcommands, each a module of its own."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

# A subcommand is a module in `_commands` with `add_arguments(parser)` and `run(arguments) -> exit status`.
SUBCOMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "casts": "print which functions run in which type under automatic casting",
        "doctor": "print what the fused kernels find on this machine, and which of them are used",
        "warmup": "compile the fused kernels ahead",
    }
)


def main(words: Sequence[str] | None = None) -> int:
    """Run the subcommand that `words` (None: the command line) name; its exit status, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m ampify_runtime", description="The runtime of migrated scripts.")
    choices = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    modules = {name: importlib.import_module(f"._commands.{name}", __package__) for name in SUBCOMMANDS}
    for name, summary in SUBCOMMANDS.items():
        modules[name].add_arguments(choices.add_parser(name, help=summary, description=summary))
    arguments = parser.parse_args(words)
    return int(modules[arguments.subcommand].run(arguments))


if __name__ == "__main__":
    sys.exit(main())
