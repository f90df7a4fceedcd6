"""A file cannot be read from disk.

What it does
------------
Reports a file that could not be opened or read: no permission, gone since it was listed, a device that failed.

Why it matters
--------------
Nobody can say whether training code is in it. A training loop elsewhere may depend on it.

Hint
----
Give yourself permission to read the file, or leave it out with `--exclude`.
"""

from __future__ import annotations

CODE = "AMP001"
NAME = "unreadable-file"
