"""Runs what may take its process along, as a bug in a kernel or the sanitizer does, in a process of its own."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
from collections.abc import Callable

CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
_SECONDS = 300


def _run(work: Callable[[], int]) -> None:
    faulthandler.disable()
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    os._exit(work())


def status_of(work: Callable[[], int]) -> int | None:
    """What `work` returns, from a forked process: torch is imported there already. Else the signal's number, negative."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(work,))
    process.start()
    process.join(_SECONDS)
    return process.exitcode
