"""The copy of the runtime: whole, made once, never over an edited one, and importable from where it lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ampify
from ampify import vendor
from ampify.model.plan import Outcome
from ampify.vendor import VendorConflict, runtime_files, vendor_outcomes

RUNTIME = Path(ampify.__file__).parent.parent / "runtime" / "ampify_runtime"


def copy(root: Path, outcomes: tuple[Outcome, ...]) -> None:
    for outcome in outcomes:
        assert outcome.new_bytes is not None
        path = root / outcome.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(outcome.new_bytes)


def test_the_whole_package_is_taken_and_nothing_that_running_it_left() -> None:
    files = runtime_files()
    assert list(files) == sorted(files)
    assert {"__init__.py", "amp/__init__.py"} <= files.keys()
    on_disk = {path.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*.py")}
    assert on_disk <= files.keys()
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]
    assert files["amp/__init__.py"] == (RUNTIME / "amp" / "__init__.py").read_bytes()


@pytest.mark.parametrize(("folder", "target"), [("lib/deep", "lib/deep/ampify_runtime"), (".", "ampify_runtime")])
def test_a_second_copy_changes_nothing(tmp_path: Path, folder: str, target: str) -> None:
    outcomes = vendor_outcomes(tmp_path, folder, runtime_files())
    assert {outcome.status for outcome in outcomes} == {"changed"}
    assert all(outcome.path.startswith(f"{target}/") for outcome in outcomes)
    copy(tmp_path, outcomes)
    assert vendor_outcomes(tmp_path, folder, runtime_files()) == ()
    (tmp_path / outcomes[-1].path).unlink()
    assert vendor_outcomes(tmp_path, folder, runtime_files()) == outcomes[-1:]


@pytest.mark.parametrize("edit", [lambda path: path.write_bytes(b"edited"), lambda path: (path.unlink(), path.mkdir())])
def test_a_copy_that_was_edited_is_not_overwritten(tmp_path: Path, edit: object) -> None:
    outcomes = vendor_outcomes(tmp_path, "lib", runtime_files())
    copy(tmp_path, outcomes)
    edit(tmp_path / outcomes[0].path)  # type: ignore[operator]
    with pytest.raises(VendorConflict) as conflict:
        vendor_outcomes(tmp_path, "lib", runtime_files())
    assert outcomes[0].path in str(conflict.value)
    assert "move lib/ampify_runtime away" in str(conflict.value)


def test_the_copy_is_imported_from_its_new_place_without_the_original(tmp_path: Path) -> None:
    copy(tmp_path, vendor_outcomes(tmp_path, "third_party", runtime_files()))
    script = "import sys, third_party.ampify_runtime.amp as amp; print(amp.__file__, 'ampify_runtime' in sys.modules)"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "third_party/ampify_runtime/amp/__init__.py"), "False"]


def test_where_the_runtime_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages"
    (installed / "ampify").mkdir(parents=True)
    monkeypatch.setattr(vendor.ampify, "__file__", str(installed / "ampify" / "__init__.py"))
    elsewhere = tmp_path / "elsewhere" / "ampify_runtime"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").write_bytes(b"elsewhere")
    monkeypatch.setattr(sys, "path", [str(elsewhere.parent)])
    # Another test may have imported the real one; what is imported is found there, whatever the path.
    monkeypatch.delitem(sys.modules, "ampify_runtime", raising=False)
    assert runtime_files() == {"__init__.py": b"elsewhere"}
    assert "ampify_runtime" not in sys.modules or sys.modules["ampify_runtime"].__file__ != str(elsewhere)
    beside = installed / "ampify_runtime"
    beside.mkdir()
    (beside / "__init__.py").write_bytes(b"beside")
    assert runtime_files() == {"__init__.py": b"beside"}


def test_a_runtime_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor.ampify, "__file__", str(tmp_path / "ampify" / "__init__.py"))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "ampify_runtime", raising=False)
    with pytest.raises(VendorConflict, match="install ampify anew"):
        runtime_files()
