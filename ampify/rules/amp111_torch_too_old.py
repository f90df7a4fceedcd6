"""The repository allows no torch that is recent enough for the migrated code.

What it does
------------
Reports a requirement such as `torch==1.7` or `torch<2` in the files that list torch for a migrated script.

Why it matters
--------------
The runtime needs torch 2.4. Code that `--target native` wrote needs `torch.amp.GradScaler`, which came with torch 2.3.
With an older torch the script would stop.

Hint
----
Raise the requirement to `torch>=2.4` (2.3 for `--target native`), and see that the rest of the code runs there before
you compare losses.
"""

from __future__ import annotations

CODE = "AMP111"
NAME = "torch-too-old"
