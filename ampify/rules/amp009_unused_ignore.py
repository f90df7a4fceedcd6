"""A comment for ampify has no effect.

What it does
------------
Reports an `# ampify: ignore` on a line without findings, an `# ampify: ignore[CODE]` whose code is not found on its
line, and any other `# ampify:` comment that is not understood.

Why it matters
--------------
Somebody believes that something is silenced there. It may have moved to another line and be silenced no more.

Hint
----
Take the comment away, move it to the line of the finding, or correct the code.
"""

from __future__ import annotations

CODE = "AMP009"
NAME = "unused-ignore"
