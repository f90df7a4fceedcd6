"""Compiles the fused kernels ahead, so that no training run waits for it."""

from __future__ import annotations

import argparse
import sys

from ..kernels.diagnosis import Built, warm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--arch", metavar="sm_90", help="for this architecture; default: the devices that are here")


def run(arguments: argparse.Namespace) -> int:
    """Compile into the cache; 1 if a kernel could not be compiled, or none could be tried."""
    failed = False
    try:
        for built in warm(arguments.arch):
            failed |= bool(built.error)
            sys.stdout.write(line(built) + "\n")
            sys.stdout.flush()
    except LookupError as problem:
        sys.stderr.write(f"warmup: {' '.join(map(str, problem.args))}\n")
        return 1
    return int(failed)


def line(built: Built) -> str:
    """What became of one kernel."""
    if built.error:
        return f"{built.name}  failed: {built.error}"
    return f"{built.name}  {'was in the cache' if built.cached else f'compiled in {built.seconds:.2f} s'}"
