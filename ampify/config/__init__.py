"""The options of a run: what each may be, and the `[tool.ampify]` table that presets them."""

from ampify.config.nearest import nearest_rule
from ampify.config.options import OPTIONS, RUN_FLAGS, InvalidOption
from ampify.config.settings import SITES, Options, import_folder, read_options

__all__ = ["OPTIONS", "RUN_FLAGS", "SITES", "InvalidOption", "Options", "import_folder", "nearest_rule", "read_options"]
