"""Which files there are, and which of them can matter."""

from ampify.discover.relevance import relevant
from ampify.discover.walk import Discovery, discover

__all__ = ["Discovery", "discover", "relevant"]
