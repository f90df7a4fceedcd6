"""A file passes `async=True`, which no Python since 3.7 reads.

What it does
------------
Spells the argument of `.cuda(...)`, `.to(...)`, `.copy_(...)` and `.type(...)` as torch has since 0.4, `non_blocking`,
and goes on with the file as with any other. A file with another `async=`, or with more that does not parse, stays as it
is.

Why it matters
--------------
`async` has become a word of the language. The file does not parse, so nothing of it runs, and nothing of it would be
analysed.

Hint
----
Write `non_blocking=True`: it means the same.
"""

from __future__ import annotations

CODE = "AMP505"
NAME = "async-keyword"
