"""Runs a training script before and after migration, side by side, and judges whether both train alike."""

from ampify.verify.base import UnknownRevision
from ampify.verify.command import Command, UnclearCommand, parse_command
from ampify.verify.notebook import DamagedNotebook
from ampify.verify.reports import FORMS, UnknownReport, report_form, written
from ampify.verify.session import Verification, verify
from ampify.verify.start import NoSuchScript, request_for, request_of_line

# Each says what, where and what to do.
VERIFY_PROBLEMS: tuple[type[Exception], ...] = (
    DamagedNotebook,
    NoSuchScript,
    UnclearCommand,
    UnknownReport,
    UnknownRevision,
)

__all__ = [
    "FORMS",
    "VERIFY_PROBLEMS",
    "Command",
    "Verification",
    "parse_command",
    "report_form",
    "request_for",
    "request_of_line",
    "verify",
    "written",
]
