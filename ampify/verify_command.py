"""The options of `ampify verify`, and what it prints where."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ampify.config import read_options
from ampify.model.settings import Settings
from ampify.report.colour import wants_colour
from ampify.report.status import DONE, LEFT_FOR_A_PERSON
from ampify.rules import rule_names
from ampify.verify.command import Command
from ampify.verify.forms import FORMS, report_form
from ampify.verify.problem import VerifyProblem

PROBLEMS: tuple[type[Exception], ...] = (VerifyProblem,)
FILE = click.Path(path_type=Path)
_COUNT = click.IntRange(0)
_DTYPES = click.Choice(["auto", "bfloat16", "float16"])


class VerifyCommand(click.Command):
    """A command that runs another, whose options are easily taken for its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Says of an unknown option where those of the script go."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            message = f"{unknown.format_message()} What is meant for the script goes after `--`: SCRIPT -- ARGS."
            raise click.NoSuchOption(unknown.option_name, message, ctx=ctx) from unknown


_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("script"),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
    click.option("-m", "module", is_flag=True, help="SCRIPT is a module, run as `python -m` does."),
    click.option("--steps", type=_COUNT, default=200, help="Optimizer steps to run; 0: to the end.  [default: 200]"),
    click.option(
        "--seeds", type=_COUNT, default=2, help="Runs with other seeds, for a measure of noise.  [default: 2]"
    ),
    click.option("--seed", type=_COUNT, default=0, help="The seed of all other runs.  [default: 0]"),
    click.option("--timeout", type=float, default=600.0, help="Seconds for each run.  [default: 600]"),
    click.option("--dtype", type=_DTYPES, default="auto", help="The reduced precision.  [default: auto]"),
    click.option("--opt-level", metavar="O1|O4", help="The level to migrate to.  [default: O1]"),
    click.option("--base", metavar="GITREF", help="Compare this revision with the files as they are; migrate nothing."),
    click.option("--nproc", type=click.IntRange(1), default=1, help="Processes, started by torchrun.  [default: 1]"),
    click.option("--resume", metavar="ARGS", help="Arguments that go on from a {checkpoint}, to try those."),
    click.option("--project", metavar="DIR", type=FILE, help="The folder to copy.  [default: the script's repository]"),
    click.option("--python", metavar="PYTHON", default="", help="What runs the script.  [default: this Python]"),
    click.option("--keep", metavar="DIR", type=FILE, help="Keep copies, records and output of all runs there."),
    click.option("--format", "form", type=click.Choice(FORMS), default="text", help="What to print.  [default: text]"),
    click.option("--report", metavar="FILE", multiple=True, type=FILE, help="Write a report, too: .json, .md, .html."),
    click.option("-v", "--verbose", is_flag=True, help="Show where ampify itself failed."),
)


def options(function: _Function) -> _Function:
    """Gives a command the arguments and options of `ampify verify`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def run(script: str, arguments: tuple[str, ...], given: Mapping[str, Any]) -> int:
    """Verifies, prints and writes what was found; the exit status. Raises `PROBLEMS` and those of the pipeline."""
    # Imported where needed: every run of ampify would wait for it.
    from ampify.verify.reports import written
    from ampify.verify.session import verify
    from ampify.verify.start import request_for
    from ampify.write import put_report, require_place

    if given["verbose"]:
        logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.DEBUG)
    forms = {path: report_form(path) for path in given["report"]}
    for path in forms:
        require_place(path)
    level = {"opt-level": given["opt_level"]} if given["opt_level"] else {}
    settings = read_options(level, [Path(script)], None, rule_names()).settings
    request = request_for(Command(script, arguments, module=given["module"]), given, settings)
    verification = verify(request, say)
    for path, form in forms.items():
        put_report(path, written(verification, form).encode())
    colour = wants_colour(os.environ, terminal=sys.stdout.isatty())
    click.echo(written(verification, given["form"], colour=colour), nl=False)
    return DONE if verification.verdict.good else LEFT_FOR_A_PERSON


def allows(line: str, settings: Settings, paths: Sequence[Path]) -> bool:
    """Whether what migrating `paths` changes may be written, by a verification of the command in `line`.

    What was found goes to standard error. Where nothing would change, there is nothing to forbid.
    """
    from ampify.verify.reports import written
    from ampify.verify.session import verify
    from ampify.verify.start import request_of_line

    verification = verify(request_of_line(line, settings, paths), say)
    colour = wants_colour(os.environ, terminal=sys.stderr.isatty())
    click.echo(written(verification, "text", colour=colour), nl=False, err=True)
    changes = verification.migration is not None and bool(verification.migration.changed)
    return verification.verdict.good or not changes


def say(stage: str) -> None:
    """Tells which stage has begun, for runs take minutes."""
    click.echo(f"ampify verify: {stage}", err=True)
