"""Two edits that ampify planned do not go together.

What it does
------------
Reports a training loop of which two fixes, or a fix of it and one of an earlier loop, would change the same code in
different ways.

Why it matters
--------------
Either edit alone would leave the loop half migrated, so none is made. It is a fault of ampify and none of your code.

Hint
----
Please report it with the lines around it.
"""

from __future__ import annotations

CODE = "AMP902"
NAME = "conflicting-edits"
