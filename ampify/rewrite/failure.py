"""The one way in which a rewrite fails."""

from __future__ import annotations


class RewriteFailed(Exception):
    """Edits that cannot be made in this file; the message says why, the file stays as it is."""

    @property
    def reason(self) -> str:
        """Why the edits cannot be made."""
        return str(self)


class NestsDeeply(RewriteFailed):
    """The code is so deep that reading it might take the process down: it is to be read in one of its own."""
