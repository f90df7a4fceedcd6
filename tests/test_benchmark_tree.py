"""The benchmark's tree is the same every time, is valid Python, and has the mixture it claims."""

from __future__ import annotations

import ast
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from tree import contents, write_tree

ROOT = Path(__file__).resolve().parents[1]
FILES = 400


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(contents(FILES))


def test_same_arguments_give_the_same_tree(files: dict[str, str]) -> None:
    assert dict(contents(FILES)) == files
    assert dict(contents(FILES, seed=1)) != files


def test_same_tree_in_another_process(tmp_path: Path, files: dict[str, str]) -> None:
    # Another hash seed: an iteration over a set would show.
    command = [sys.executable, str(ROOT / "benchmarks" / "tree.py"), str(tmp_path), "--files", str(FILES)]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "12345"}, check=True, capture_output=True)
    written = {p.relative_to(tmp_path).as_posix(): p.read_text(encoding="utf-8") for p in tmp_path.rglob("*.py")}
    assert written == files


def test_every_file_is_python(files: dict[str, str]) -> None:
    for path, text in files.items():
        ast.parse(text, path)


def test_mixture(tmp_path: Path, files: dict[str, str]) -> None:
    tree = write_tree(tmp_path, FILES)
    assert tree.files == len(files) == FILES
    assert len(tree.training) == FILES // 100
    assert {path for path, text in files.items() if "loss.backward()" in text} == set(tree.training)
    lengths = [text.count("\n") for text in files.values()]
    assert 200 <= statistics.mean(lengths) <= 300
    assert max(lengths) > 4 * statistics.median(lengths)


def test_benchmark_prints_the_ratio() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "check_tree.py"), "--files", "60", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {line[:17].strip(): line[17:].split() for line in done.stdout.splitlines()}
    check, parse, ratio = (float(figures[name][0]) for name in ("ampify --check", "LibCST parse", "ratio"))
    assert figures["tree"][0] == "60"
    assert check > 0
    # The printed figures are rounded to hundredths, the ratio to tenths.
    assert ratio == pytest.approx(parse / check, rel=0.05, abs=0.1)
