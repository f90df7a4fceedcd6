"""A file beside the migrated code still installs NVIDIA apex, which nothing imports any more.

What it does
------------
Looks upward from each file whose imports of apex went for requirements, environments, Dockerfiles, scripts and README
files that install apex. A line of a requirements file that does just that is taken away; others are reported.

Why it matters
--------------
Building apex takes minutes where it works, and fails wherever CUDA and torch do not agree.

Hint
----
Take the lines away that install apex. On the runtime, `pip install 'ampify>=0.1'` takes its place, or, from a checkout
of ampify, `pip install .` there.
"""

from __future__ import annotations

CODE = "AMP114"
NAME = "apex-still-required"
