"""The command line: commands and options, and what each prints where."""

from __future__ import annotations

import functools
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource

import ampify
from ampify import bulk_command, pipeline, verify_command
from ampify.config import OPTIONS, RUN_FLAGS, SITES, Options, nearest_rule, read_options
from ampify.model.plan import Outcome, Report
from ampify.nameless import CommandsFirst, NamelessCommand
from ampify.report.colour import wants_colour
from ampify.report.diff import painted, unified
from ampify.report.formats import format_of, links_wanted, rendered
from ampify.report.json import rules_json
from ampify.report.links import Links
from ampify.report.progress import progress_line
from ampify.report.status import DONE, FAILED, INTERRUPTED, LEFT_FOR_A_PERSON, exit_status
from ampify.report.text import Style, text_report
from ampify.report.undone import undone_lines
from ampify.rules import Rule, all_rules, find_rule, rule_names

DASH = Path("-")
FILE = click.Path(path_type=Path)
# Parameters of `migrate` that are for this module alone, and options that take several values in one.
OWN = ("paths", *RUN_FLAGS)
LISTS = ("select", "ignore")


class Problem(click.ClickException):
    """Something a person can put right, told in one line."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the line on standard error."""
        click.echo(f"ampify: {self.format_message()}", file=file, err=file is None)


class LeftUnwritten(Problem):
    """A migration that was not written, or not taken back, for a person to look at."""

    exit_code = LEFT_FOR_A_PERSON


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turns what a command raises into one line and an exit status; a traceback is for the log alone."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            click.echo("ampify: interrupted; no file is half written", err=True)
            sys.exit(INTERRUPTED)
        except (*pipeline.PROBLEMS, *verify_command.PROBLEMS, *bulk_command.PROBLEMS) as problem:
            raise Problem(str(problem)) from problem
        except Exception as failure:
            logging.getLogger("ampify").debug("internal failure", exc_info=True)
            raise Problem(
                f"internal failure, nothing was written: {pipeline.describe(failure)}; "
                "please report it; --verbose shows where"
            ) from failure

    return run


def choosing(option: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the value of an option that has a few choices."""
    choices = OPTIONS[option].choices
    return lambda _context, _parameter, incomplete: [choice for choice in choices if choice.startswith(incomplete)]


@click.group(cls=CommandsFirst, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ampify.__version__, prog_name="ampify")
def main() -> None:
    """Rewrites PyTorch training scripts into mixed-precision ones.

    PATH is a Python file, a notebook, a folder (with options and no PATH, the current one), or - for standard input.
    Without --write nothing is written: the changes are shown as a diff on standard output, what is refused and why on
    standard error.
    """


@main.command(cls=NamelessCommand, short_help="Migrate training scripts; the name can be left out.")
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=FILE)
@click.option("--write", is_flag=True, help="Write the changes, atomically; `ampify undo` takes them back.")
@click.option("--allow-dirty", is_flag=True, help="Do not warn when --write changes files with uncommitted changes.")
@click.option("--check", is_flag=True, help="Show no diff; exit with 1 if anything would change or was found.")
@click.option("--unsafe", is_flag=True, help="Make changes, too, that a person has to review.")
@click.option(
    "--target",
    shell_complete=choosing("target"),
    metavar="[runtime|native]",
    help="What the migrated code is written for: the bundled runtime, or torch.amp alone.  [default: runtime]",
)
@click.option(
    "--opt-level",
    shell_complete=choosing("opt-level"),
    metavar="O0|O1|O2|O3|O4|O5",
    help="The level that `amp.initialize` is given.  [default: O1]",
)
@click.option(
    "--dtype",
    shell_complete=choosing("dtype"),
    metavar="float16|bfloat16",
    help="What is cast to: float16 (O1 to O3) or bfloat16 (O4, O5).  [default: that of the level]",
)
@click.option("--vendor", metavar="DIR", help="Copy the runtime into DIR instead of adding a requirement.")
@click.option("--add-flag", is_flag=True, help="Give the script's argparse an --opt-level option.")
@click.option("--select", metavar="CODES", multiple=True, help="Heed these rules alone; AMP2 stands for all of AMP2xx.")
@click.option("--ignore", metavar="CODES", multiple=True, help="Do not heed these rules.")
@click.option(
    "--format",
    metavar="FORMAT",
    shell_complete=choosing("format"),
    help="What is printed: text, json, github, sarif or markdown.  [default: text]",
)
@click.option(
    "--report",
    metavar="FILE",
    multiple=True,
    help="Write the report to FILE, too; its ending (.md .html .json .sarif) tells the format. Can be repeated.",
)
@click.option("-j", "--jobs", type=int, metavar="N", help="Processes to rewrite in.  [default: one a core]")
@click.option(
    "--config", metavar="FILE", type=FILE, help="Read [tool.ampify] there, not in the nearest pyproject.toml."
)
@click.option("--exclude", metavar="GLOB", multiple=True, help="Leave these files out.")
@click.option("--no-cache", is_flag=True, help="Analyse every file anew.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where 1 would say that something is left for a person.")
@click.option("--verify", metavar="COMMAND", help="Write only if `python train.py ...` trains alike, migrated.")
@click.option("-q", "--quiet", is_flag=True, help="Show the diff, what failed and what is refused, and nothing else.")
@click.option("-v", "--verbose", is_flag=True, help="Show every loop with all its sites, and where ampify failed.")
@click.option("--statistics", is_flag=True, help="Show how often each rule had something to say.")
@click.option("--explain-sites", is_flag=True, help="Print every site, what became of it, and the evidence; no diff.")
@click.pass_context
@guarded
def migrate(
    ctx: click.Context,
    paths: tuple[Path, ...],
    write: bool,
    check: bool,
    verbose: bool,
    quiet: bool,
    statistics: bool,
    explain_sites: bool,
    verify: str | None,
    config: Path | None,
    **_: Any,
) -> None:
    """Migrate the training scripts that PATH names or holds; the default, so that its name can be left out.

    Without a PATH it is the current folder.
    """
    paths = paths or (Path(),)
    if verbose:
        logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.DEBUG)
    if write and check:
        raise Problem("--check writes nothing; give --write or --check, not both")
    if quiet and verbose:
        raise Problem("--quiet and --verbose ask for opposite things; give one of them")
    if explain_sites and (write or check or ctx.get_parameter_source("format") is ParameterSource.COMMANDLINE):
        raise Problem("--explain-sites prints the ledger alone; leave out --write, --check and --format")
    if verify is not None and (not write or DASH in paths):
        raise Problem("--verify decides whether --write writes; to verify alone, run `ampify verify SCRIPT -- ARGS`")
    options = read_options(_given(ctx), [p for p in paths if p != DASH], config, rule_names())
    options = options.explaining() if explain_sites else options
    _require_places(options.reports)
    if verify is not None and not verify_command.allows(verify, options.settings, paths):
        raise LeftUnwritten("the migrated version does not hold up, so that nothing was written")
    style = Style(check, _coloured(sys.stderr), quiet, verbose, statistics)
    if DASH in paths:
        report = _migrate_stdin(paths, options, style, write=write)
    else:
        report = _migrate_paths(paths, options, style, write=write)
    _put_reports(report, options.reports)
    ctx.exit(exit_status(report, check=check, exit_zero=options.exit_zero))


@main.command()
@click.argument("code")
@guarded
def explain(code: str) -> None:
    """Explain one rule: what, why, before, after."""
    rule = find_rule(code)
    if rule is None:
        raise Problem(f"no rule is called {code!r}; {nearest_rule(code, rule_names())}")
    from ampify.rules.documentation import explanation  # only here and for the list of all rules

    click.echo(explanation(rule), nl=False)


@main.command()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="The format to print.")
@guarded
def rules(form: str) -> None:
    """List all rules."""
    rows = [(rule.code, rule.name, _summary(rule)) for rule in all_rules()]
    if form == "json":
        _write_bytes(rules_json(rows).encode())
        return
    width = max((len(name) for _, name, _ in rows), default=0)
    for code, name, summary in rows:
        click.echo(f"{code}  {name:<{width}}  {summary}")


@main.command(short_help="Put back what the last --write changed.")
@click.argument("folder", default=".", type=FILE)
@click.option("--keep-edited", is_flag=True, help="Put back all but the files that were edited since.")
@click.option("--force", is_flag=True, help="Put back files that were edited since, too: the edits are lost.")
@click.pass_context
@guarded
def undo(ctx: click.Context, folder: Path, keep_edited: bool, force: bool) -> None:
    """Put back what the last --write in this tree (or in that of FOLDER) changed.

    Where one of the files was edited since, nothing is put back, so that the tree is never half migrated unasked.
    """
    if keep_edited and force:
        raise Problem("--keep-edited and --force ask for opposite things; give one of them")
    undone = pipeline.undo(folder, "overwrite" if force else "keep" if keep_edited else "refuse")
    fates = (undone.restored, undone.removed, undone.edited, [(kept.folder, kept.users) for kept in undone.kept])
    for line in undone_lines(*fates, refused=undone.refused, here=Path.cwd()):
        click.echo(line, err=True)
    if undone.refused:
        raise LeftUnwritten("nothing was put back; --keep-edited puts back the others, --force all: edits are lost")
    ctx.exit(LEFT_FOR_A_PERSON if undone.edited else DONE)


@main.command(
    name="verify", cls=verify_command.VerifyCommand, short_help="Run a script before and after migration, and compare."
)
@verify_command.options
@click.pass_context
@guarded
def verify(ctx: click.Context, script: str, arguments: tuple[str, ...], **options: Any) -> None:
    """Run SCRIPT before and after migration with the same arguments and seeds, and compare how it trains.

    Copies of the project are run; your files are only read. Exit status 0: the migrated version may be kept.
    """
    ctx.exit(verify_command.run(script, arguments, options))


@main.command(short_help="Migrate many repositories, on one machine or many.")
@bulk_command.options
@click.pass_context
@guarded
def bulk(ctx: click.Context, **options: Any) -> None:
    """Clone, migrate and commit every repository that REPOS.txt names, with a report of each and a summary of all.

    One local path or git address a line, with @REF for a branch, tag or commit. Yours are cloned, too, never changed.
    """
    ctx.exit(bulk_command.run(options))


def _summary(rule: Rule) -> str:
    from ampify.rules.documentation import read_documentation

    return read_documentation(rule.documentation).summary


def _given(ctx: click.Context) -> dict[str, object]:
    """The options that stand on the command line, by flag; lists also split at commas."""
    given: dict[str, object] = {}
    for name, value in ctx.params.items():
        key = name.replace("_", "-")
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE or key in OWN:
            continue
        given[key] = tuple(part.strip() for text in value for part in text.split(",")) if key in LISTS else value
    return given


def _migrate_paths(paths: tuple[Path, ...], options: Options, style: Style, *, write: bool) -> Report:
    # A run makes millions of small objects, nearly all of them trees: looking for cycles among them so often would
    # cost a third of its time. The process ends soon after.
    gc.set_threshold(1_000_000, 20, 20)
    with progress_line(sys.stderr, os.environ, quiet=style.quiet) as told:
        report = pipeline.run(paths, options.settings, prove=write or not style.check, writing=write, told=told)
    if write:
        if not options.allow_dirty:
            _warn_of_uncommitted(report, options)
        report = pipeline.write(report, options.settings)
    if options.format != "text":
        _write_report(report, options.format)
        return report
    if not write and not style.check:
        for outcome in report.outcomes:
            _write_diff(outcome)
    _write_text(report, style)
    return report


def _warn_of_uncommitted(report: Report, options: Options) -> None:
    """Changes that are in no commit can be told from ampify's own no more, once both are in the file."""
    for path in pipeline.uncommitted(report, options.settings):
        click.echo(f"ampify: warning: {path} has changes that are not committed (--allow-dirty: no warning)", err=True)


def _migrate_stdin(paths: tuple[Path, ...], options: Options, style: Style, *, write: bool) -> Report:
    if len(paths) > 1:
        raise Problem("standard input (-) goes alone; name files and folders in another run")
    if options.settings.vendor is not None:
        raise Problem("--vendor needs a folder to copy to; it does not go with standard input (-)")
    if write and options.format != "text":
        raise Problem("with - and --write standard output takes the code; put the report elsewhere: --report FILE")
    raw = sys.stdin.buffer.read()
    report = pipeline.run_text(raw, options.settings)
    (outcome,) = report.outcomes
    if options.format != "text":
        _write_report(report, options.format)
        return report
    if write:
        _write_bytes(raw if outcome.before is None or outcome.after is None else outcome.before.encode(outcome.after))
        report = replace(report, wrote=True)
    elif not style.check:
        _write_diff(outcome)
    _write_text(report, style)
    return report


def _require_places(paths: Sequence[Path]) -> None:
    if paths:
        from ampify.write import require_place  # what writes takes long to load

        for path in paths:
            require_place(path)


def _put_reports(report: Report, paths: Sequence[Path]) -> None:
    if paths:
        from ampify.write import put_report

        for path in paths:
            put_report(path, rendered(report, format_of(path), _links(format_of(path))))


def _write_report(report: Report, form: str) -> None:
    if form == SITES:
        from ampify.report.sites import sites_report  # as the other forms are: imported when asked for

        coloured = _coloured(sys.stdout)
        click.echo(sites_report(report, colour=coloured).encode("utf-8", "backslashreplace"), nl=False, color=coloured)
    else:
        _write_bytes(rendered(report, form, _links(form)))


def _links(form: str) -> Links:
    if not links_wanted(form):
        return Links()
    from ampify.report.repository import find_links  # starts git, which most runs need not

    return find_links(Path.cwd(), os.environ)


def _write_diff(outcome: Outcome) -> None:
    diff = unified(outcome)
    if _coloured(sys.stdout) and outcome.before is not None:
        click.echo(painted(diff.decode(outcome.before.encoding, "replace")), nl=False, color=True)
    else:
        _write_bytes(diff)


def _write_text(report: Report, style: Style) -> None:
    # What is coloured was decided already: click would take colours out again where it sees no terminal.
    click.echo(text_report(report, style), nl=False, err=True, color=style.colour)


def _write_bytes(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _coloured(stream: IO[str]) -> bool:
    return wants_colour(os.environ, terminal=stream.isatty())
