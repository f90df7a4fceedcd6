"""The options of a run: what each may be, and the `[tool.ampify]` table that presets them."""

from ampify.config.options import InvalidOption, Value, load_config, require_available

__all__ = ["InvalidOption", "Value", "load_config", "require_available"]
