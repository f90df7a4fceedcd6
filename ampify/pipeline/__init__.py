"""Names the stages in order: discover, source, index, rules, plan, rewrite, gate, and what surrounds the result."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ampify.pipeline.running import run, run_text

if TYPE_CHECKING:
    from ampify.pipeline.problems import PROBLEMS, describe
    from ampify.pipeline.writing import uncommitted, undo, write

__all__ = ["PROBLEMS", "describe", "run", "run_text", "uncommitted", "undo", "write"]

# Most runs write nothing and meet no problem: what only those need is loaded when it is asked for.
_LATER: Final = {
    "PROBLEMS": "problems",
    "describe": "problems",
    "uncommitted": "writing",
    "undo": "writing",
    "write": "writing",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
