"""A file is no valid Python.

What it does
------------
Reports the line and the reason of the syntax error.

Why it matters
--------------
What does not parse cannot be followed. Loops of other files that need it are followed as far as the text allows.

Hint
----
Correct the syntax error, or leave the file out with `--exclude`. `# ampify: skip-file` works even here.
"""

from __future__ import annotations

CODE = "AMP003"
NAME = "syntax-error"
