"""What can stop a bulk run as a whole, or one repository of it."""

from __future__ import annotations


class BulkProblem(Exception):
    """Stops the run before it begins, or at its end; the message says what, where and what to do."""


class RepositoryFailed(Exception):
    """Stops one repository; the message is the reason that the summary shows."""
