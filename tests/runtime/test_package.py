"""The package as others meet it: imported with torch alone, without side effects, and copied below another package."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ampify_runtime
import pytest

PACKAGE = Path(ampify_runtime.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def run(code: str, folder: Path, search: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMPIFY_")}
    environment["PYTHONPATH"] = str(search)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORT = """
import sys, torch
before = set(sys.modules)
casts = torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()
hooks = len(torch.nn.modules.module._global_forward_pre_hooks)
from ampify_runtime import amp
assert casts == (torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled())
assert hooks == len(torch.nn.modules.module._global_forward_pre_hooks)
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""


def test_importing_needs_nothing_but_torch_and_changes_nothing(tmp_path: Path) -> None:
    assert run(IMPORT, tmp_path, PACKAGE.parent).split() == ["ampify_runtime"]


VENDORED = """
import sys, torch
from lab.third_party.ampify_runtime import amp
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
amp.initialize(model, optimizer, opt_level="O4")
with amp.scale_loss(model(torch.ones(1, 4)).float().sum(), optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
assert "ampify_runtime" not in sys.modules
print(model(torch.ones(1, 4)).dtype)
"""


def test_works_as_a_copy_below_another_package(tmp_path: Path) -> None:
    folder = tmp_path / "lab" / "third_party"
    shutil.copytree(PACKAGE, folder / "ampify_runtime", ignore=shutil.ignore_patterns("__pycache__"))
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    assert run(VENDORED, tmp_path, tmp_path) == "torch.bfloat16\n"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_modules_are_short_and_say_what_they_own(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert (ast.get_docstring(tree) or "").endswith(".")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] in {"torch", *sys.stdlib_module_names}
