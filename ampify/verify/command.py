"""Owns what is run: a script or a module, its arguments, and the launcher before it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath

from ampify.verify.problem import VerifyProblem

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
# Options of torchrun and of python that stand alone; the others take a value, here or after "=".
_FLAGS_OF_TORCHRUN = frozenset({"--standalone", "--no-python", "--no_python", "--run-path", "--run_path"})
_FLAGS_OF_PYTHON = re.compile(r"-[bBdEiIOPqsSuvx]+")


class UnclearCommand(VerifyProblem):
    """A command line that names no Python script; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Command:
    """A Python program to run.

    `launcher` are arguments of the interpreter that come before it (`-m torch.distributed.run --nproc-per-node 2`),
    `environment` what the command sets before its start. `module` says that `target` follows `-m`.
    """

    target: str
    arguments: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    module: bool = False

    @property
    def interpreter_arguments(self) -> tuple[str, ...]:
        """All that follows the name of the interpreter."""
        # Under torchrun, "-m" is an option of its own, and has to stand before the target as well.
        return (*self.launcher, *(("-m",) if self.module else ()), self.target, *self.arguments)

    @property
    def shown(self) -> str:
        """The command as a person would type it."""
        words = ["python", *self.interpreter_arguments]
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.environment), *map(shlex.quote, words)])


def launched(command: Command, processes: int) -> Command:
    """`command` under torchrun with so many processes; as it is for 1."""
    if processes == 1:
        return command
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")
    return Command(command.target, command.arguments, launcher, command.environment, command.module)


def parse_command(text: str) -> Command:
    """The command in a line such as `python train.py --epochs 1` or `torchrun --nproc-per-node 2 train.py`.

    Raises UnclearCommand.
    """
    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise UnclearCommand(f"{text!r}: {problem}; quote it as a shell would have it") from problem
    environment = []
    while words and _ASSIGNMENT.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        environment.append((name, value))
    if not words:
        raise UnclearCommand(f"{text!r} names no program; give `python SCRIPT ARGS` or `torchrun OPTIONS SCRIPT ARGS`")
    program = PurePath(words[0]).name
    if program == "torchrun":
        return _torchrun(words[1:], tuple(environment), text)
    if _PYTHON.fullmatch(program):
        return _python(words[1:], tuple(environment), text)
    if words[0].endswith((".py", ".ipynb")):
        return Command(words[0], tuple(words[1:]), (), tuple(environment))
    raise UnclearCommand(f"{text!r} runs {words[0]!r}; give `python SCRIPT ARGS` or `torchrun OPTIONS SCRIPT ARGS`")


def _python(words: list[str], environment: tuple[tuple[str, str], ...], text: str) -> Command:
    while words and _FLAGS_OF_PYTHON.fullmatch(words[0]):
        words = words[1:]
    if words[:2] in (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"]):
        return _torchrun(words[2:], environment, text)
    module = words[:1] == ["-m"]
    words = words[1:] if module else words
    if not words or words[0].startswith("-"):
        raise UnclearCommand(f"{text!r} names no script; give `python SCRIPT ARGS`")
    return Command(words[0], tuple(words[1:]), (), environment, module)


def _torchrun(words: list[str], environment: tuple[tuple[str, str], ...], text: str) -> Command:
    launcher = ["-m", "torch.distributed.run"]
    module = False
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-m", "--module"):
            module = True
            continue
        launcher.append(word)
        if "=" not in word and word not in _FLAGS_OF_TORCHRUN and words:
            launcher.append(words.pop(0))
    if not words:
        raise UnclearCommand(f"{text!r} names no script; give `torchrun OPTIONS SCRIPT ARGS`")
    return Command(words[0], tuple(words[1:]), tuple(launcher), environment, module)
