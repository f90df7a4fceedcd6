"""What the README and the pages in docs/ say is so: links lead somewhere, the diff is the one ampify makes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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


def test_readme_shows_the_diff_that_ampify_makes(tmp_path: Path) -> None:
    for name in ("train.py", "requirements.txt"):
        shutil.copy(ROOT / "examples" / "digits" / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "ampify", "train.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])},
        capture_output=True,
        text=True,
        check=False,
    )
    (shown,) = re.findall(
        r"```diff\n\$ ampify train\.py\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown in done.stdout, done.stdout + done.stderr
