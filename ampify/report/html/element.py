"""HTML as text: elements, and text in which nothing of a stranger's file becomes markup or stays unseen."""

from __future__ import annotations

import re
from html import escape
from typing import Final

_CODE: Final = re.compile(r"`([^`\n]+)`")
# Controls, and what reorders or hides text: a reviewer must see them.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)


def element(tag: str, *children: str, **attributes: str | bool | None) -> str:
    """An element. Children are HTML already; values of attributes are text. `class_` is class, `_` in a name is `-`.

    An attribute that is None or False is left out, one that is True stands alone.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items() if value not in (None, False))
    return f"<{tag}{written}>{''.join(children)}</{tag}>"


def text(content: str) -> str:
    """Text as it is, with characters that cannot be seen replaced by their names."""
    return _UNSEEN.sub(lambda match: f'<span class="unseen">U+{ord(match[0]):04X}</span>', escape(content, quote=False))


def sentence(content: str) -> str:
    """A sentence of ours, in which backticks mark code."""
    parts = _CODE.split(content)
    return "".join(element("code", text(part)) if index % 2 else text(part) for index, part in enumerate(parts))


def icon(name: str) -> str:
    """One of the page's own pictures; it says nothing that the text beside it does not."""
    return f'<svg class="icon" aria-hidden="true" focusable="false"><use href="#icon-{name}"/></svg>'


def _attribute(name: str, value: str | bool | None) -> str:
    key = name.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'
