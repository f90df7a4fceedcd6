"""Runs the script of a case as it stands and as it is migrated, each in a fork of this process, under a witness."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # imported by the first optimizer that is built; here it is done once for all forks

from tests.index.witness import Witness

TIME_LIMIT = 30


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a run printed, which backward passes (file, line) a step consumed, and all that was wrong."""

    printed: str
    consumed: tuple[tuple[str, int], ...]
    wrong: tuple[str, ...]
    failure: str


def rehearse(files: Mapping[str, str], script: str, folder: Path) -> Rehearsal:
    """Runs `script` of a project of these texts, in `folder`, at O0: what it computes is what it computed before."""
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    child = os.fork()
    if child == 0:
        os._exit(_play(folder, script))
    os.waitpid(child, 0)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    printed = (folder / "printed.txt").read_text(encoding="utf-8")
    places = tuple((path, line) for path, line in report["consumed"])
    return Rehearsal(printed, places, tuple(report["wrong"]), report["failure"])


def _play(folder: Path, script: str) -> int:
    """In the fork: runs the script and leaves what was seen in files."""
    signal.alarm(TIME_LIMIT)
    os.chdir(folder)
    os.environ["AMPIFY_OPT_LEVEL"] = "O0"
    output = os.open("printed.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    errors = os.open(os.devnull, os.O_WRONLY)
    os.dup2(errors, 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.argv = [script]
    sys.path.insert(0, str((folder / script).parent))
    torch.manual_seed(0)
    witness = Witness(folder)
    witness.install()
    failure = ""
    try:
        runpy.run_path(str(folder / script), run_name="__main__")
    except BaseException:  # noqa: BLE001 - whatever the script raises is for the test to show
        failure = traceback.format_exc()
    sys.stdout.flush()
    report = {"consumed": sorted(witness.consumed), "wrong": list(witness.wrong), "failure": failure}
    Path("report.json").write_text(json.dumps(report), encoding="utf-8")
    return 0
