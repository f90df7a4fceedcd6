"""The last look at rewritten text before it may be written."""

from ampify.gate.check import check

__all__ = ["check"]
