"""Prints what the fused kernels find on this machine, and which of them are used."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from ..kernels.diagnosis import Diagnosis, diagnose

_UNKNOWN = "not found"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="as JSON, for a bug report")


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis; 0 also where plain torch does the work, which is no failure."""
    diagnosis = diagnose()
    as_json = json.dumps(asdict(diagnosis), indent=2, default=str) if arguments.json else None
    sys.stdout.write((as_json or "\n".join(lines(diagnosis))) + "\n")
    return 0


def lines(diagnosis: Diagnosis) -> Iterator[str]:
    """The report: the machine, what stands in the way, each kernel."""
    yield f"torch          {diagnosis.torch}"
    yield f"CUDA           {diagnosis.cuda or _UNKNOWN}"
    yield f"driver         {diagnosis.driver or _UNKNOWN}"
    yield f"NVRTC          {diagnosis.nvrtc or _UNKNOWN}"
    yield f"architectures  {' '.join(diagnosis.architectures) or 'none: no CUDA device'}"
    yield f"cache folder   {diagnosis.cache_folder}{'' if diagnosis.cache_writable else ' (not writable)'}"
    for problem in diagnosis.problems:
        yield f"problem        {problem}"
    width = max((len(kernel.name) for kernel in diagnosis.kernels), default=0)
    # What stands in the way of all is told above, once.
    shared = "; ".join(diagnosis.problems)
    for kernel in diagnosis.kernels:
        reason = f": {kernel.reason}" if kernel.reason not in ("", shared) else ""
        yield f"  {kernel.name:{width}}  {kernel.state}{reason}"
    yield _verdict(diagnosis)


def _verdict(diagnosis: Diagnosis) -> str:
    states = {kernel.state for kernel in diagnosis.kernels}
    if not states or states == {"fallback"}:
        return "Plain torch does all the work; results are the same."
    if "fallback" in states:
        return "Fused kernels are used, but for those above that fall back to plain torch; results are the same."
    return "Fused kernels are used."
