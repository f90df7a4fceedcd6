"""A file could not be changed, through a fault of ampify.

What it does
------------
Reports an edit that could not be made, or whose result did not pass the checks before writing: it has to parse, no
name may be newly unbound or hidden, nothing outside the edits may differ, and a second run must change nothing.

Why it matters
--------------
It is a fault of ampify and none of your code. Nothing of the training loop was changed.

Hint
----
Please report it with the file. `--verbose` shows where ampify failed.
"""

from __future__ import annotations

CODE = "AMP901"
NAME = "internal-failure"
