"""A backward, a step or another site of training belongs to no training loop that is known.

What it does
------------
Reports every site that may take part in training, that no loop accounts for, and of which no other rule has anything to
say.

Why it matters
--------------
Every site has to end rewritten, right, no training, or refused. Silence would pass for "right" while nobody knows.

Hint
----
Give the object a name that can be followed to where it is made, and give ampify the files that make it in the same run.
"""

from __future__ import annotations

CODE = "AMP209"
NAME = "unresolved-receiver"
