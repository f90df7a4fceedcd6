"""A file uses syntax that the running Python does not read.

What it does
------------
Names the construct and the first Python version that has it, such as type parameters (3.12).

Why it matters
--------------
ampify reads code with the parser of the Python it runs on, so that it agrees with Python on what the code means.

Hint
----
Install ampify under the Python that the file needs.
"""

from __future__ import annotations

CODE = "AMP004"
NAME = "newer-syntax"
