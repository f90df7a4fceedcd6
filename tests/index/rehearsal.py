"""Runs the script of a case as it stands and then as it is migrated, in a fork of this process, under a witness."""

from __future__ import annotations

import io
import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch._dynamo  # imported by the first optimizer that is built; here it is done once for all forks

from tests.index.witness import Witness

TIME_LIMIT = 30
RESULT = "result.json"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a run printed, which backward passes (file, line) a step consumed, and all that was wrong."""

    printed: str
    consumed: tuple[tuple[str, int], ...]
    wrong: tuple[str, ...]
    failure: str


def rehearse(before: Mapping[str, str], after: Mapping[str, str], script: str, folder: Path) -> list[Rehearsal]:
    """Runs `script` of both texts of a project in folders of `folder`, at O0: it is to compute the same."""
    for name, files in (("before", before), ("after", after)):
        for path, text in files.items():
            target = folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
    child = os.fork()
    if child == 0:
        _play_both(script, folder)
    os.waitpid(child, 0)
    return [
        Rehearsal(run["printed"], tuple(map(tuple, run["consumed"])), tuple(run["wrong"]), run["failure"])
        for run in json.loads((folder / RESULT).read_text(encoding="utf-8"))
    ]


def _play_both(script: str, folder: Path) -> None:
    """In the fork: what came of both runs goes into a file."""
    try:
        signal.alarm(TIME_LIMIT)
        os.environ["AMPIFY_OPT_LEVEL"] = "O0"
        runs = [_play(script, folder / name) for name in ("before", "after")]
        (folder / RESULT).write_text(json.dumps([asdict(run) for run in runs]), encoding="utf-8")
    finally:
        os._exit(0)


def _play(script: str, folder: Path) -> Rehearsal:
    """Runs a script as `python script` would in its folder, with modules of its own."""
    os.chdir(folder)
    modules, path, argv = dict(sys.modules), list(sys.path), sys.argv
    sys.argv = [script]
    sys.path.insert(0, str((folder / script).parent))
    torch.manual_seed(0)
    printed, failure = io.StringIO(), ""
    with Witness(folder).installed() as witness, redirect_stdout(printed), redirect_stderr(io.StringIO()):
        try:
            runpy.run_path(str(folder / script), run_name="__main__")
        except BaseException:  # noqa: BLE001 - whatever the script raises is for the test to show
            failure = traceback.format_exc()
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]
    sys.path[:], sys.argv = path, argv
    return Rehearsal(printed.getvalue(), tuple(sorted(witness.consumed)), tuple(witness.wrong), failure)
