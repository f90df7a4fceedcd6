"""A file that would have to change may not be written.

What it does
------------
Reports, when `--write` is given, a file that is read-only, lies in a read-only folder, or has several names (hard
links). Every training loop that the file is a part of is left as it is; all others are written.

Why it matters
--------------
A training loop is migrated in all its files or in none. Replacing a file of several names would leave the other names
with the old content.

Hint
----
Give yourself permission to write the file, or leave it out with `--exclude`.
"""

from __future__ import annotations

CODE = "AMP007"
NAME = "unwritable-file"
