"""Shows a change that was made and then put back, for those who look into why."""

from __future__ import annotations

from difflib import unified_diff


def refused_text(path: str, before: str, after: str) -> str:
    """The change as a diff under a line that says what it is; never to be applied, so that it need not be a patch."""
    lines = unified_diff(before.splitlines(), after.splitlines(), path, f"{path} (put back)", lineterm="")
    return "\n".join(("the change that was put back:", *lines))
