"""The distribution: what is in it, and that each half of it works alone in a new environment."""

from __future__ import annotations

import email
import email.message
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ampify

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"ampify": ROOT / "ampify", "ampify_runtime": ROOT / "runtime" / "ampify_runtime"}
NOT_SOURCE = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".demo",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "*.pyc",
    "*.egg-info",
    "dist",
    "build",
    "htmlcov",
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip; packages are put in from outside."""

    folder: Path

    @property
    def scripts(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def site_packages(self) -> Path:
        return Path(self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())

    def run(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.execute("python", *args, check=check)

    def execute(self, program: str, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        # In a folder of its own and without PYTHONPATH, so that the checkout cannot be what is imported.
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        done = subprocess.run(
            [str(self.scripts / program), *args],
            cwd=self.folder,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self, *args: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.scripts / "python"), "install", "--quiet"]
        done = subprocess.run([*pip, *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def lacks(self, module: str) -> bool:
        done = self.run("-c", f"import {module}", check=False)
        return f"No module named '{module}'" in done.stderr


def new_environment(folder: Path) -> Environment:
    venv.create(folder, with_pip=False)
    return Environment(folder)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "checkout"
    shutil.copytree(ROOT, source, ignore=NOT_SOURCE, symlinks=True)
    out = tmp_path_factory.mktemp("dist")
    # Without options, `build` makes the source distribution and from that the wheel, as a release does.
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def about(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def package_files() -> Iterator[str]:
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{package}/{path.relative_to(folder).as_posix()}"


def test_wheel_holds_both_packages_and_nothing_else(wheel_names: set[str]) -> None:
    packaged = {name for name in wheel_names if ".dist-info/" not in name}
    assert packaged == set(package_files())


def test_wheel_is_typed_and_licensed(wheel_names: set[str]) -> None:
    assert {"ampify/py.typed", "ampify_runtime/py.typed"} <= wheel_names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


def test_source_distribution_can_be_built_and_tested_from(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "ampify", "runtime", "tests", "examples"} <= top
    assert not {".git", ".venv", ".demo", "dist", "build"} & top


def test_metadata(about: email.message.Message) -> None:
    assert about["Name"] == "ampify"
    assert about["Version"] == ampify.__version__
    assert about["Requires-Python"] == ">=3.10"
    assert about["License-Expression"] == "BSD-3-Clause"


def test_torch_is_asked_for_by_the_runtime_extra_alone(about: email.message.Message) -> None:
    requirements = [Requirement(text) for text in about.get_all("Requires-Dist", [])]
    always = {r.name for r in requirements if r.marker is None or "extra" not in str(r.marker)}
    assert {"click", "libcst"} <= always
    assert not {"torch", "numpy"} & always
    (torch,) = (r for r in requirements if r.name == "torch")
    assert str(torch.marker) == 'extra == "runtime"'


@pytest.fixture(scope="module")
def command_line(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    environment = new_environment(tmp_path_factory.mktemp("command-line"))
    environment.install(str(wheel))
    return environment


def test_command_line_works_without_torch(command_line: Environment) -> None:
    assert command_line.lacks("torch")
    assert command_line.execute("ampify", "--help").stdout.startswith("Usage: ampify")
    assert ampify.__version__ in command_line.execute("ampify", "--version").stdout
    assert ampify.__version__ in command_line.run("-m", "ampify", "--version").stdout


def test_command_line_migrates_without_torch(command_line: Environment) -> None:
    shutil.copy(ROOT / "examples" / "digits" / "train.py", command_line.folder / "train.py")
    done = command_line.execute("ampify", "train.py")
    assert "+from ampify_runtime import amp" in done.stdout
    assert "scaled_loss.backward()" in done.stdout


def requirements_of(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """`name` and all that it requires here, as normalized names."""
    name = canonicalize_name(name)
    if name in seen:
        return seen
    seen |= {name}
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            seen = requirements_of(requirement.name, seen)
    return seen


def expose(names: frozenset[str], target: Path) -> None:
    """Link the installed packages `names`, and only these, into the folder `target`."""
    for name in sorted(names):
        for file in metadata.distribution(name).files or ():
            top = file.parts[0]
            source = Path(str(metadata.distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and source.exists() and not (target / top).exists():
                (target / top).symlink_to(source, target_is_directory=source.is_dir())


TRAIN_A_STEP = """
import torch
from ampify_runtime import amp

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
before = model.weight.detach().clone()
loss = model(torch.ones(3, 4)).square().mean()
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
print("trained" if not torch.equal(before, model.weight) else "unchanged")
"""


def test_runtime_works_with_torch_alone(tmp_path: Path, wheel: Path) -> None:
    # torch is linked in from here: to install it again can mean gigabytes where pip picks a CUDA build.
    environment = new_environment(tmp_path / "runtime")
    environment.install("--no-deps", str(wheel))
    expose(requirements_of("torch"), environment.site_packages)
    assert environment.lacks("click")
    assert environment.lacks("libcst")
    assert environment.run("-W", "ignore", "-c", TRAIN_A_STEP).stdout.endswith("trained\n")
