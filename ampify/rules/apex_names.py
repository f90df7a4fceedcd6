"""What the rules on apex share: its install message, told of the runtime instead."""

from __future__ import annotations

from ampify.index.apex_uses import INSTALL


def with_install_message(code: str) -> str:
    """A string's source text that asks to install ampify where it asked to install apex."""
    return INSTALL.sub("ampify", code)
