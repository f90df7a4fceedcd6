"""Names the stages in order: discover, source, index, rules, plan, rewrite, gate, and what surrounds the result."""

from ampify.pipeline.problems import PROBLEMS, describe
from ampify.pipeline.running import run, run_text
from ampify.pipeline.writing import uncommitted, undo, write

__all__ = ["PROBLEMS", "describe", "run", "run_text", "uncommitted", "undo", "write"]
