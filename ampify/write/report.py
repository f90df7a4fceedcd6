"""Writes a report beside a run: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from ampify.write.atomic import replace_content
from ampify.write.failure import NotWritable


def require_place(path: Path) -> None:
    """Raises NotWritable where no report can be put, so that a run need not come to its end to find out."""
    if path.is_dir():
        raise NotWritable(path, "the report cannot be written: it is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise NotWritable(path, "the report cannot be written: its folder does not exist", "make the folder first")


def put_report(path: Path, content: bytes) -> None:
    """Makes `content` the file at `path`, through a link if that is one. Raises WriteError."""
    target = Path(os.path.realpath(path))
    replace_content(target, content, target.with_name(f".{target.name}.{os.getpid()}.ampify"))
