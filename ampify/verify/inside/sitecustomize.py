"""Enters the watcher at the start of a watched interpreter, then runs the start-up module that this one hides."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

from ampify_watch.entry import begin  # type: ignore[import-not-found]

HERE = Path(__file__).resolve().parent


def _run_hidden_one() -> None:
    """Runs the `sitecustomize` that would have been found had this folder not come first."""
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


begin()
_run_hidden_one()
