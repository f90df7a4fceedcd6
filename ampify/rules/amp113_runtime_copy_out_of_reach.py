"""A migrated script would not find the copy of the runtime when it is run by its path.

What it does
------------
With `--vendor DIR`, reports a script whose own folder is not the one that the import of the copy starts from.

Why it matters
--------------
`python scripts/train.py` searches `scripts/` for imports, not the folder you are in. The script would stop at the
import.

Hint
----
Run it as `python -m scripts.train`, set `PYTHONPATH`, or give `--vendor` a folder next to the script.
"""

from __future__ import annotations

CODE = "AMP113"
NAME = "runtime-copy-out-of-reach"
