"""The migrated code imports the runtime, and the repository does not say that it needs it.

What it does
------------
Looks upward from each migrated file for the nearest folder with a `requirements*.txt`, `pyproject.toml`, `setup.py`,
`setup.cfg` or `environment.yml` that lists torch, and adds `ampify>=0.1` there. It only reports if there is none (at
the line where the script imports torch), and if the file pins hashes or is laid out in a way that cannot be extended
safely.

Why it matters
--------------
On the next machine the script would stop at `from ampify_runtime import amp`.

Hint
----
Where the code is to run, install ampify: `pip install 'ampify>=0.1'` from a package index that has it, `pip install .`
in a checkout of ampify. Or let `--vendor DIR` copy the runtime into the repository, which then needs neither.
"""

from __future__ import annotations

CODE = "AMP110"
NAME = "runtime-requirement-missing"
