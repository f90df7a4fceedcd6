"""Which files there are, and which of them can matter."""

from ampify.discover.relevance import Relevance, relevant
from ampify.discover.walk import Discovery, discover

__all__ = ["Discovery", "Relevance", "discover", "relevant"]
