"""The subcommands of `python -m ampify_runtime`, one a module."""
