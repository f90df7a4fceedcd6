"""Names the stages in order: discover, source, index, rules, plan, rewrite, gate, and what surrounds the result."""

from ampify.pipeline.reading import MissingPath
from ampify.pipeline.running import run, run_text, write

__all__ = ["MissingPath", "run", "run_text", "write"]
