"""Writes what a report says has changed, and takes it back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ampify.model.plan import Report
from ampify.model.settings import Settings


def write(report: Report, settings: Settings) -> Report:
    raise NotImplementedError


def undo(folder: Path):
    raise NotImplementedError
