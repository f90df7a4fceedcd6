"""Which files there are, and which of them can matter."""

from ampify.discover.relevance import Relevance, relevant
from ampify.discover.site_words import names_sites
from ampify.discover.walk import Discovery, discover

__all__ = ["Discovery", "Relevance", "discover", "names_sites", "relevant"]
