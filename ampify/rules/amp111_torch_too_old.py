"""The repository allows no torch of 2.4 or later.

What it does
------------
Reports a requirement such as `torch==1.7` or `torch<2` in the files that list torch for a migrated script.

Why it matters
--------------
The runtime is built on `torch.amp.GradScaler`, which came with torch 2.4. With the older torch the script would stop
at the import.

Hint
----
Raise the requirement to `torch>=2.4`, and see that the rest of the code runs there before you compare losses.
"""

from __future__ import annotations

CODE = "AMP111"
NAME = "torch-too-old"
