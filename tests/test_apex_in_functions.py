"""Scripts that import NVIDIA apex in a function and train without it, too: amp's state goes where the optimizer's does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ampify.model.settings import Settings
from ampify.pipeline import run

LOCAL = """\
import argparse
import torch


def save(model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


def main(args):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.resume:
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    if args.fp16:
        from apex import amp
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        optimizer.step()
    save(model, optimizer)


parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--resume", action="store_true")
main(parser.parse_args())
"""


def migrated(folder: Path, text: str) -> str | None:
    (folder / "train.py").write_text(text)
    (outcome,) = run([folder], Settings(root=str(folder))).outcomes
    return outcome.after


def test_state_is_kept_where_a_function_imports_amp_for_itself(tmp_path: Path) -> None:
    after = migrated(tmp_path, LOCAL)
    expected = (
        LOCAL.replace("from apex", "from ampify_runtime")
        .replace("import torch\n", "import torch\nfrom ampify_runtime import amp as ampify_amp\n", 1)
        .replace(
            'optimizer.state_dict()}, "last.pt"', 'optimizer.state_dict(), "amp": ampify_amp.state_dict()}, "last.pt"'
        )
        .replace(
            '(checkpoint["optimizer"])\n',
            '(checkpoint["optimizer"])\n'
            '        if "amp" in checkpoint:\n            ampify_amp.load_state_dict(checkpoint["amp"])\n',
        )
    )
    assert after == expected
    assert migrated(tmp_path, expected) is None
    for options in ([], ["--fp16", "--resume"], ["--resume"]):
        (tmp_path / "train.py").write_text(expected)
        done = subprocess.run(
            [sys.executable, "train.py", *options],
            cwd=tmp_path,
            env={**os.environ, "AMPIFY_DTYPE": "bfloat16"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_state_is_left_to_the_author_where_apex_stays(tmp_path: Path) -> None:
    text = LOCAL.replace("import argparse\n", "import argparse\nfrom apex.amp.wrap import cached_cast\n")
    (tmp_path / "train.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path)))
    assert all(outcome.after is None for outcome in report.outcomes)
    told = [
        (f.code, f.fix is None, "do it by hand" in f.hint) for f in report.findings if f.code in ("AMP401", "AMP403")
    ]
    assert told == [("AMP401", True, True), ("AMP403", True, True)]
