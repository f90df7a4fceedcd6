"""What an earlier run found out, so that a run over the same files need not find it out again."""

from ampify.cache.folder import cache_folder
from ampify.cache.form import Malformed, read_value, written_value
from ampify.cache.store import Entries

__all__ = ["Entries", "Malformed", "cache_folder", "read_value", "written_value"]
