"""A file took the process that read it down, or never came to an end.

What it does
------------
Reports a file that was given up: the worker process that read it died twice, as from a crash or for want of memory, or
was still at it after five minutes. All other files were seen to.

Why it matters
--------------
Nothing of the file was looked at or changed, and a training loop that needs it is followed as far as the other files
tell.

Hint
----
Leave the file out with `--exclude`, or split it if it is huge. If it was out of memory, `--jobs 1` needs least. Please
report the file if it is an ordinary one.
"""

from __future__ import annotations

CODE = "AMP904"
NAME = "process-lost"
