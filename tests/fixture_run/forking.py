"""A process that has imported torch once and runs each script it is told of in a fork of itself.

Reads a JSON object a line from standard input (`folder`, `script`, `args`, `env`, `output`, `limit`) and answers each
with the script's exit status on a line of its own. A fork starts as clean as a new interpreter does, without the
seconds that importing torch takes.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

# The second is imported by the first optimizer that is built, and takes longer than the scripts do.
PRELOADED = ("torch", "torch._dynamo")


def main() -> None:
    """Serves requests until standard input ends."""
    for module in PRELOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        print(_status(_fork(json.loads(line))), flush=True)


def _fork(request: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        os._exit(_play(request))
    return child


def _status(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _play(request: dict[str, Any]) -> int:
    """Runs the script as `python script args` would, with its output in a file."""
    signal.alarm(request["limit"])
    os.chdir(request["folder"])
    os.environ.update(request["env"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    # Absolute, as the interpreter makes it: processes that the script spawns look for it.
    script = Path(request["folder"], request["script"])
    sys.argv = [request["script"], *request["args"]]
    sys.path[0] = str(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
        return 0
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - whatever the script raises is for the test to show
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
