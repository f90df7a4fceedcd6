"""Repositories whose last commit is a script and whose working tree is that script, migrated, with a fault planted."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ampify import pipeline
from ampify.model.settings import Settings
from ampify.verify.command import Command
from ampify.verify.request import Dtype, Request
from ampify.verify.session import Verification, verify

CASES = Path(__file__).with_name("cases")
TIME_LIMIT = 240.0


def plant(folder: Path, case: str, before: str, after: str) -> str:
    """Makes the repository, with `before` (lines of the migrated script) replaced; gives the script's name."""
    script = folder / f"{case}.py"
    script.write_bytes((CASES / script.name).read_bytes())
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "original")
    settings = Settings(root=str(folder))
    pipeline.write(pipeline.run([script], settings), settings)
    migrated = script.read_text(encoding="utf-8")
    assert migrated.count(before) == 1, migrated
    script.write_text(migrated.replace(before, after), encoding="utf-8")
    return script.name


def line_of(folder: Path, case: str, text: str) -> str:
    """`path:line` of the only line of the script, as it is now, that holds `text`."""
    lines = (folder / f"{case}.py").read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{case}.py:{number}"


def verified(folder: Path, script: str, *arguments: str, dtype: Dtype = "auto", **more: object) -> Verification:
    """The verification of a script that lies in `folder`, which is the project."""
    request = Request(
        command=Command(script, arguments),
        root=folder,
        directory=Path(),
        settings=Settings(),
        timeout=TIME_LIMIT,
        dtype=dtype,
        **{"seeds": 1, **more},  # type: ignore[arg-type]
    )
    return verify(request, print)


def git(folder: Path, *arguments: str) -> None:
    """Runs git in `folder`."""
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)
