"""A file is named like Python and holds something else: zero bytes, UTF-16, or merge conflict markers.

What it does
------------
Reports what was found in place of source text.

Why it matters
--------------
Such a file cannot be run. With merge conflict markers it is two files at once.

Hint
----
Resolve the merge conflict, or save the file as UTF-8 text.
"""

from __future__ import annotations

CODE = "AMP006"
NAME = "not-a-source-file"
