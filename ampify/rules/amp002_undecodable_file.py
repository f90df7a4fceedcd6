"""The bytes of a file are no text in the encoding it declares.

What it does
------------
Reports a file whose coding line names an encoding that is unknown, or that its bytes do not fit. Without a coding
line the encoding is UTF-8, as for Python itself.

Why it matters
--------------
Python refuses such a file as well, so it cannot be run as it is, and its text cannot be changed without damage.

Hint
----
Save the file as UTF-8, or correct its coding line (`# -*- coding: latin-1 -*-`).
"""

from __future__ import annotations

CODE = "AMP002"
NAME = "undecodable-file"
