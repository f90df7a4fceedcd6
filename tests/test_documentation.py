"""What the README and the pages in docs/ say is so: links lead somewhere, the diff is the one ampify makes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT, ROOT, command

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("changelog.d/*.md")])
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Fragments that a page's headings can be linked to by, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith("https://"):
            continue
        name, _, fragment = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (fragment and fragment not in headings(target)):
            dead.append(link)
    assert not dead


def test_make_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"^make ([a-z]+)|`make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert {a or b for a, b in named} <= targets, page


def ampify(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args),
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )


def shown_in_readme(command: str) -> str:
    """What the README shows below a command, to the end of its block."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```\w*\n\$ {re.escape(command)}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    return str(block)


def test_readme_shows_the_diff_that_ampify_makes(tmp_path: Path) -> None:
    for name in ("train.py", "requirements.txt"):
        shutil.copy(ROOT / "examples" / "digits" / name, tmp_path)
    done = ampify(tmp_path, "train.py")
    assert shown_in_readme("ampify train.py") in done.stdout, done.stdout + done.stderr


FIT = """\
import torch
import torch.nn as nn

model = nn.Linear(8, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5)
criterion = nn.MSELoss()
x, y = torch.randn(64, 8), torch.randn(64, 1)

for step in range(20):
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
"""


def test_readme_shows_a_refusal_as_ampify_says_it(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(FIT, encoding="utf-8")
    done = ampify(tmp_path, "fit.py")
    assert done.returncode == 1
    assert done.stderr == shown_in_readme("ampify fit.py")
