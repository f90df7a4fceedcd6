"""No rule has anything to say about a training loop that is not migrated.

What it does
------------
Reports a training loop that is neither migrated already, nor to be migrated, nor refused; and one that is known to
be beyond migrating while no rule says so.

Why it matters
--------------
Silence would look like "all is right". It is a fault of ampify and none of your code.

Hint
----
Please report it with the loop.
"""

from __future__ import annotations

CODE = "AMP903"
NAME = "unhandled-loop"
