"""The repository allows no Python of 3.10 or later.

What it does
------------
Reports `requires-python`, `python_requires`, or the Python of a conda environment or of Poetry, if no Python from 3.10
on fits.

Why it matters
--------------
The runtime needs Python 3.10, and pip would refuse to install it.

Hint
----
Allow Python 3.10 or later, and see that the rest of the code runs there.
"""

from __future__ import annotations

CODE = "AMP112"
NAME = "python-too-old"
