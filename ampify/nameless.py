"""A group of commands of which one, `migrate`, can go without its name."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ampify.habits import command_advice, option_advice

# Where a context keeps that `migrate` was not typed.
NAMELESS = "ampify.nameless"


class NamelessContext(click.Context):
    """The context of a command that goes by the program's name where its own was left out."""

    @property
    def command_path(self) -> str:
        """What was typed to get here, as usage lines show it."""
        if self.parent is not None and self.meta.get(NAMELESS):
            return self.parent.command_path
        return super().command_path


class NamelessCommand(click.Command):
    """A command whose name can be left out."""

    context_class = NamelessContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Knows the options of other tools, where click would name those that look alike."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            advice = option_advice(unknown.option_name)
            if advice is None:
                raise
            raise click.NoSuchOption(
                unknown.option_name, f"No such option {unknown.option_name!r}: {advice}.", ctx=ctx
            ) from unknown


class CommandsFirst(click.Group):
    """A group whose first argument is a command's name, or else the start of what `migrate` takes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `migrate` where no command is named."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names, "--version"):
            self._require_path(ctx, args[0])
            args = ["migrate", *args]
            ctx.meta[NAMELESS] = True
        return super().parse_args(ctx, args)

    def _require_path(self, ctx: click.Context, word: str) -> None:
        """Stops at a first word that is close to a command and names no file."""
        advice = command_advice(word, self.commands)
        if advice is not None and not Path(word).exists():
            ctx.fail(f"No command, file or folder is called {word!r}; {advice}")

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Shows both forms."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] [PATH...]")
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Shows the options of `migrate`, since they need no command, before the commands."""
        migrate = self.commands["migrate"]
        options = (parameter for parameter in migrate.get_params(ctx) if isinstance(parameter, click.Option))
        rows = [row for option in options if (row := option.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl([("--version", "Show the version and exit."), *rows])
        self.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offers commands, and what `migrate` takes: its options and files."""
        items = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            migrate = self.commands["migrate"]
            known = {item.value for item in items}
            return items + [item for item in migrate.shell_complete(ctx, incomplete) if item.value not in known]
        # The file first: at one, click's script for bash forgets what came before.
        return [CompletionItem(incomplete, type="file"), *items]
