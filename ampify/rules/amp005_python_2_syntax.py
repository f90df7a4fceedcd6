"""A file is written in Python 2.

What it does
------------
Names the construct that only Python 2 reads, such as a print statement or `except X, e`.

Why it matters
--------------
No Python that runs torch 2.4 reads the file. Making it Python 3 is another task than mixed precision.

Hint
----
Convert the file first, for instance with `2to3`, and test it; then run ampify.
"""

from __future__ import annotations

CODE = "AMP005"
NAME = "python-2-syntax"
