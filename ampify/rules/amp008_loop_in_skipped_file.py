"""Part of a training loop is in a file that asks to be skipped.

What it does
------------
Reports a training loop of several files, one of which says `# ampify: skip-file`.

Why it matters
--------------
A loop is migrated in all its files or in none. With half of it migrated, gradients would be scaled in one file and
read unscaled in another.

Hint
----
Take the comment out of that file, or put it into all files of the loop.
"""

from __future__ import annotations

CODE = "AMP008"
NAME = "loop-in-skipped-file"
