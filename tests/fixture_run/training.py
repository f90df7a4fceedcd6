"""Runs a case's script in a folder and reads the losses it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixture_run.case import Training
from tests.fixture_run.command import python_environment

TIME_LIMIT = 90
OUTPUT = "printed.txt"
FORKS = hasattr(os, "fork") and sys.platform == "linux"


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of one or more runs, as the scripts printed them."""

    printed: tuple[str, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """As numbers."""
        return tuple(float(text) for text in self.printed)


@dataclass(slots=True, eq=False)
class Runner:
    """Runs scripts one after another; keeps the forking process that serves them. Close it at the end."""

    _server: subprocess.Popen[str] | None = field(default=None)

    def losses(self, training: Training, folder: Path, runs: slice = slice(None), **env: str) -> Losses:
        """The losses that the chosen runs print in `folder`, with `env` set; a run that fails fails the test."""
        variables = dict(training.env) | env
        printed = [self._run(training, folder, args, variables) for args in training.args[runs]]
        return Losses(tuple(loss for output in printed for loss in _losses(output)))

    def close(self) -> None:
        """Ends the forking process."""
        if self._server is not None:
            self._server.communicate(timeout=TIME_LIMIT)

    def _run(self, training: Training, folder: Path, args: tuple[str, ...], env: dict[str, str]) -> str:
        run = self._forked if FORKS else _spawned
        status, output = run(training.script, folder, args, env)
        if status != 0:
            raise AssertionError(f"{training.script} {' '.join(args)} ended with {status}\n{env}\n{output[-4000:]}")
        return output

    def _forked(self, script: str, folder: Path, args: tuple[str, ...], env: dict[str, str]) -> tuple[int, str]:
        if self._server is None:
            self._server = _start_server()
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        output = folder / OUTPUT
        request = {"folder": str(folder), "script": script, "args": args, "env": env}
        self._server.stdin.write(json.dumps(request | {"output": str(output), "limit": TIME_LIMIT}) + "\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        return status, output.read_text(encoding="utf-8")


def _start_server() -> subprocess.Popen[str]:
    script = Path(__file__).with_name("forking.py")
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=python_environment() | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _spawned(script: str, folder: Path, args: tuple[str, ...], env: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, script, *args],
        cwd=folder,
        env=python_environment() | {"OMP_NUM_THREADS": "1"} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIME_LIMIT,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _losses(output: str) -> tuple[str, ...]:
    rows = (line.split() for line in output.splitlines() if line.startswith("loss "))
    return tuple(row[1] for row in rows)
