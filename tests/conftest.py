"""What all tests share: torch on one thread, so that workers do not fight over cores and sums keep their order."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
