"""Turns a notebook into a script that does what running all its cells does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ampify.verify.problem import VerifyProblem

_NOT_PYTHON = ("!", "%", "?")


class DamagedNotebook(VerifyProblem):
    """A file that is no notebook; the message says which and what to do."""


def notebook_script(path: Path) -> str:
    """The code of all cells in their order. Magics and shell lines become comments, for they are not Python.

    Raises DamagedNotebook.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        cells = [_source(cell) for cell in document["cells"] if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedNotebook(
            f"{path} is no notebook of format 4 ({type(problem).__name__}: {problem}); save it anew with Jupyter"
        ) from problem
    return "\n\n".join(_as_python(cell) for cell in cells if not cell.lstrip().startswith("%%")) + "\n"


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _as_python(cell: str) -> str:
    return "\n".join(_line(line) for line in cell.splitlines())


def _line(line: str) -> str:
    code = line.lstrip()
    if not code.startswith(_NOT_PYTHON):
        return line
    indent = line[: len(line) - len(code)]
    return f"{indent}pass  # {code}"
