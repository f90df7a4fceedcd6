"""Which files are found, and which are thought to matter."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampify.discover import discover, relevant
from ampify.discover.relevance import MANY_USED, MANY_USERS
from tests.nobody import as_nobody, needs_user_ids, open_to_all


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def lay_out(root: Path, *names: str) -> None:
    """Makes files (a name with `=` has content after it) and folders (a name that ends in `/`)."""
    for name in names:
        path, _, content = name.partition("=")
        if path.endswith("/"):
            (root / path).mkdir(parents=True, exist_ok=True)
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def shown(*paths: str | Path, exclude: tuple[str, ...] = ()) -> list[str]:
    return [display for _, display in discover([Path(path) for path in paths], exclude).files]


def test_a_folder_is_walked_in_a_fixed_order(project: Path) -> None:
    lay_out(project, "b.py", "a/z.py", "a/b/c.py", "a.py", "notes.txt", "a/data.json", "train.ipynb")
    assert shown(".") == ["a/b/c.py", "a/z.py", "a.py", "b.py", "train.ipynb"]
    assert shown("a", "b.py") == ["a/b/c.py", "a/z.py", "b.py"]
    assert shown("./a/../a") == ["a/../a/b/c.py", "a/../a/z.py"]


def test_files_come_with_their_real_path(project: Path) -> None:
    lay_out(project, "a/b.py")
    assert discover([Path("a"), project / "a"], ()).files == ((project / "a/b.py", "a/b.py"),)
    assert shown(project / "a") == [f"{project.as_posix()}/a/b.py"]


@pytest.mark.parametrize(
    "folder",
    [".git", ".hg", ".svn", "node_modules", "__pycache__", "site-packages", "build", "dist", "x.egg-info", ".ampify"],
)
def test_folders_that_hold_no_code_of_the_project_are_passed_by(project: Path, folder: str) -> None:
    lay_out(project, "a.py", f"{folder}/b.py", f"deep/{folder}/sub/c.py")
    assert shown(".") == ["a.py"]
    assert shown(f"{folder}/b.py") == [f"{folder}/b.py"]


def test_environments_and_our_runtime_are_passed_by_and_packages_of_like_names_are_not(project: Path) -> None:
    lay_out(project, "env/pyvenv.cfg", "env/lib/a.py", "conda/conda-meta/", "conda/b.py", "venv/real_code.py")
    lay_out(project, "third_party/ampify_runtime/__init__.py", "third_party/ampify_runtime/amp/__init__.py")
    lay_out(project, "other/ampify_runtime/mine.py", "build/__init__.py", "build/model.py")
    assert shown(".") == ["build/__init__.py", "build/model.py", "other/ampify_runtime/mine.py", "venv/real_code.py"]


def test_missing_paths_are_reported_and_the_rest_is_found(project: Path) -> None:
    lay_out(project, "a.py")
    (project / "dangling.py").symlink_to("nowhere.py")
    (project / "loop.py").symlink_to("loop.py")
    missing = (Path("gone.py"), Path("gone"), Path("dangling.py"), Path("loop.py"))
    found = discover([missing[0], Path("a.py"), *missing[1:]], ())
    assert found.missing == missing
    assert [display for _, display in found.files] == ["a.py"]
    assert shown(".") == ["a.py"]


def test_a_named_file_is_taken_whatever_speaks_against_it(project: Path) -> None:
    lay_out(project, "run", "skip/a.py", ".gitignore=*.py\nrun\n")
    assert shown("run", "skip/a.py", exclude=("skip", "run")) == ["run", "skip/a.py"]
    assert shown(".", exclude=()) == []


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (("tests/",), ["a.py", "src/old/a.py", "src/tests.py"]),
        (("*/old",), ["a.py", "src/tests.py", "tests/b.py"]),
        (("src/old/*.py", "/a.py"), ["src/tests.py", "tests/b.py"]),
        (("a.py", "!src/old/a.py"), ["src/old/a.py", "src/tests.py", "tests/b.py"]),
        (("!", "tests.py"), ["a.py", "src/old/a.py", "tests/b.py"]),
    ],
)
def test_exclude_takes_patterns_in_the_language_of_gitignore(
    project: Path, patterns: tuple[str, ...], left: list[str]
) -> None:
    lay_out(project, "a.py", "src/old/a.py", "src/tests.py", "tests/b.py")
    assert shown(".", exclude=patterns) == left


def test_exclude_fits_the_name_shown_and_the_path_below_the_named_folder(project: Path) -> None:
    lay_out(project, "app/src/a.py", "app/b.py")
    assert shown("app", exclude=("/src",)) == ["app/b.py"]
    assert shown("app", exclude=("/app/src",)) == ["app/b.py"]


def test_nested_ignore_files_overrule_outer_ones(project: Path) -> None:
    lay_out(project, ".gitignore=gen_*.py\nout/\n", "gen_a.py", "a.py", "out/b.py", "sub/gen_b.py", "sub/keep/gen_c.py")
    lay_out(project, "sub/keep/.gitignore=!gen_*.py\n/only_here.py\n", "sub/keep/only_here.py", "sub/only_here.py")
    assert shown(".") == ["a.py", "sub/keep/gen_c.py", "sub/only_here.py"]


def test_ignore_files_above_the_named_folder_hold_up_to_the_top_of_the_repository(project: Path) -> None:
    lay_out(project, ".gitignore=a.py\n", "repo/.git/info/exclude=b.py\n", "repo/.gitignore=c.py\nlocal/\n")
    lay_out(project, *(f"repo/src/{folder}{name}.py" for name in "abcd" for folder in ("", "deep/")))
    lay_out(project, "repo/local/e.py", "repo/src/.gitignore=d.py\n")
    assert shown("repo/src") == ["repo/src/a.py", "repo/src/deep/a.py"]
    assert shown("repo") == ["repo/src/a.py", "repo/src/deep/a.py"]
    # Named although the repository ignores it as a whole: the ignore files above it then have no say.
    assert shown("repo/local") == ["repo/local/e.py"]


def test_links_do_not_lead_astray(project: Path) -> None:
    lay_out(project, "code/a.py", "code/sub/b.py", "outside/c.py", "code/hidden/d.py", "code/.gitignore=hidden/\n")
    (project / "code/sub/up").symlink_to("..")
    (project / "code/loop").symlink_to("loop")
    (project / "code/0_link_to_a.py").symlink_to("a.py")
    (project / "code/link_to_d.py").symlink_to("hidden/d.py")
    (project / "code/link_out.py").symlink_to("../outside/c.py")
    (project / "code/folder.py").symlink_to("sub")
    found = discover([Path("code")], ()).files
    assert [display for _, display in found] == ["code/a.py", "code/sub/b.py", "code/link_to_d.py"]
    assert found[-1][0] == project / "code/hidden/d.py"
    (project / "alias").symlink_to("code")
    assert shown("alias") == ["alias/a.py", "alias/sub/b.py", "alias/link_to_d.py"]
    assert shown("code/link_out.py") == ["code/link_out.py"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_regular_file_is_passed_by(project: Path) -> None:
    os.mkfifo(project / "pipe.py")
    lay_out(project, "folder.py/a.py")
    assert shown(".") == ["folder.py/a.py"]


@needs_user_ids
def test_a_folder_that_cannot_be_listed_is_reported(project: Path) -> None:
    lay_out(project, "a.py", "closed/b.py")
    open_to_all(project)
    (project / "closed").chmod(0)
    with as_nobody():
        found = discover([Path()], ())
        named = discover([project / "closed"], ())
    (project / "closed").chmod(0o755)
    assert found.unlisted == (("closed", "Permission denied"),)
    assert found.files == ((project / "a.py", "a.py"),)
    assert named.unlisted == ((f"{project.as_posix()}/closed", "Permission denied"),)


NAMES = ["a.py", "b.py", "x/a.py", "x/b.py", "x/y/a.py", "x/y/c.py", "z/a.py", "z/x/a.py"]
PATTERNS = ["a.py", "/a.py", "x/", "/x", "x/*", "!x/y/", "!a.py", "**/y", "x/**", "*.py", "!*/", "!/x", "# c", "", "\\#", "z/x", "!z/x/a.py", "[ab].py", "x/?/"]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the reference here")
@settings(derandomize=True, max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=st.lists(st.sampled_from(PATTERNS), max_size=4), inner=st.lists(st.sampled_from(PATTERNS), max_size=2))
def test_gitignore_means_what_it_means_to_git(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], inner: list[str]
) -> None:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", root], check=True)
    lay_out(root, *NAMES)
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    (root / "x/.gitignore").write_text("\n".join(inner) + "\n")
    listing = ["git", "-c", "core.excludesFile=", "ls-files", "--others", "--exclude-standard", "*.py"]
    expected = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(path.relative_to(root).as_posix() for path, _ in discover([root], ()).files) == sorted(expected)


def test_without_a_training_file_nothing_matters() -> None:
    assert relevant({}).files == set()
    assert relevant({"a.py": b"import torch\n", "b.py": b"import a  # going backward (slowly)\n"}).files == set()


@pytest.mark.parametrize(
    "code",
    [
        b"loss.backward()",
        b"(loss\n    .backward)()",
        b"loss.\\\r\n  backward()",
        b"step = loss.backward",
        b"getattr(loss, 'backward')()",
        b"torch.autograd.backward(loss)",
        b"from torch.autograd import (Variable,\n    backward)",
        b"import torch.autograd as ag",
        b"from torch import autograd",
        b"g = torch.autograd.grad(y, x)",
        b"with amp.scale_loss(loss, opt) as s: pass",
        b"with torch.cuda.amp.autocast(): pass",
        b"from ampify_runtime import amp as a",
        b"from apex.optimizers import FusedAdam",
        b"import apex",
        b"from torch.cuda import amp",
        b"from torch import autocast",
        b"from torch.amp import GradScaler as G",
        b"def training_step(self, batch): ...",
        b"import pytorch_lightning as pl",
        b"from lightning import Trainer",
        b"from accelerate import Accelerator",
        b"import deepspeed",
        b"from transformers import Seq2SeqTrainer",
        b"from fastai.vision.all import *",
    ],
)
def test_training_code_and_mixed_precision_code_matter_by_themselves(code: bytes) -> None:
    assert relevant({"a.py": code, "b.py": b"x = 1\n"}).files == {"a.py"}


@pytest.mark.parametrize(
    "code",
    [
        b"# kept for backward compatibility\n",
        b"'''One step backward (or two).'''\n",
        b"def backwards(x): return example.sample, lamp.champ, ramp.x\n",
        b"please accelerate the enlightning trainers\n",
        b"import autograder\n",
    ],
)
def test_like_words_alone_do_not_matter(code: bytes) -> None:
    assert relevant({"a.py": code}).files == set()


SEED = b"def train(loss): loss.backward()\n"


@pytest.mark.parametrize(
    "statement",
    [
        b"import pkg.engine",
        b"import os, pkg.engine as e",
        b"from pkg import engine",
        b"from pkg import (  # the (old) one\n    other,\n    engine as e,\n)",
        b"from pkg import other, \\\n    engine",
        b"from pkg.engine import train",
        b"from pkg.engine import*",
        b"from pkg \\\n    import engine",
        b"from .pkg import engine",
        b"from .pkg.engine import train",
        b"if True: import pkg.engine",
        b"x = 1; from pkg import engine; y = 2",
        b"def f():\n\tfrom pkg import engine",
        b"try:\r\n    from pkg import engine\r\nexcept ImportError: pass",
        b"x = 1\rfrom pkg import engine\r",
        b"importlib.import_module('pkg.engine')",
        b"importlib.import_module(name=f'pkg.{x}')",
        b"importlib.import_module(\n    'pkg.' + x)",
        b"import_module('pkg' + '.' + x)",
        b"__import__('pkg.engine')",
    ],
)
def test_importers_of_a_training_file_matter_however_they_import(statement: bytes) -> None:
    files = {
        "pkg/engine.py": SEED,
        "main.py": statement,
        "start.py": b"import main\n",
        "bystander.py": b"import torch\n",
    }
    assert relevant(files).files == {"pkg/engine.py", "main.py", "start.py"}


@pytest.mark.parametrize(
    "statement",
    [
        b"from . import engine",
        b"from .engine import train",
        b"from .. import deep",
        b"from ..deep import engine",
        b"from ...pkg.deep import engine",
        b"import engine",
        b"from deep import engine",
        b"importlib.import_module('.' + x, __package__)",
        b"import_module('.engine', 'pkg.deep')",
    ],
)
def test_relative_imports_are_followed(statement: bytes) -> None:
    files = {"pkg/deep/engine.py": SEED, "pkg/deep/main.py": statement, "pkg/deep/__init__.py": b"from . import engine"}
    assert "pkg/deep/main.py" in relevant(files).files


def test_imports_past_the_top_of_the_project_lead_nowhere() -> None:
    files = {"engine.py": SEED, "pkg/a.py": b"from ... import engine\nfrom .... import engine", "__init__.py": b""}
    assert relevant(files).files == {"engine.py"}


def test_relative_imports_at_the_top_mean_the_files_there() -> None:
    files = {"engine.py": SEED, "main.py": b"from . import engine", "__init__.py": b"MODEL = 1"}
    assert relevant(files).files == {"engine.py", "main.py", "__init__.py"}


def test_what_training_files_import_matters_if_it_has_to_do_with_training() -> None:
    files = {
        "train.py": SEED + b"import build\nimport texts\n",
        "build.py": b"import registry\nimport far\n",
        "registry.py": b"from nets import *\n",
        "nets/__init__.py": b"from .resnet import Net\n",
        "nets/resnet.py": b"import torch\n",
        "texts.py": b"import words\n",
        "words.py": b"WORDS = ['a']\n",
        "far.py": b"import further\n",
        "further.py": b"X = 1\n",
        "unrelated.py": b"import torch\nimport words\n",
    }
    assert relevant(files).files == {
        "train.py",
        "build.py",
        "registry.py",
        "nets/__init__.py",
        "nets/resnet.py",
        "texts.py",
    }


def test_a_module_is_looked_up_near_the_importing_file_first() -> None:
    files = {
        "one/train.py": SEED + b"from utils import model\n",
        "one/utils.py": b"import torch\n",
        "two/utils.py": b"import torch\n",
        "two/other.py": b"import utils\n",
    }
    assert relevant(files).files == {"one/train.py", "one/utils.py"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_text_that_no_word_can_be_searched_for_in_may_matter(encoding: str) -> None:
    mark = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    assert relevant({"a.py": f"{mark}loss.backward()\n".encode(encoding), "b.py": b"x = 1\n"}).files == {"a.py"}


def test_a_module_elsewhere_is_found_by_the_end_of_its_path() -> None:
    files = {
        "scripts/run.py": b"from engine.loop import train\n",
        "src/engine/loop.py": SEED,
        "lib/other/loop.py": b"import torch\n",
        "../more/engine/loop.py": b"import torch\n",
    }
    assert relevant(files).files == {"scripts/run.py", "src/engine/loop.py", "../more/engine/loop.py"}
    # Shown from inside the package: the name to show is then shorter than the module's.
    assert relevant({"loop.py": SEED, "run.py": b"from engine.loop import train\n"}).files == {"loop.py", "run.py"}


def test_packages_named_dynamically_are_taken_whole() -> None:
    files = {
        "train.py": SEED + b"net = import_module('nets.' + name)\n",
        "nets/a.py": b"",
        "nets/deep/b.py": b"",
        "vendor/nets/c.py": b"",
        "other/d.py": b"",
    }
    assert relevant(files).files == {"train.py", "nets/a.py", "nets/deep/b.py"}
    del files["nets/a.py"], files["nets/deep/b.py"]
    assert relevant(files).files == {"train.py", "vendor/nets/c.py"}
    files["train.py"] += b"import_module('nets.' + other)"
    assert relevant(files).files == {"train.py", "vendor/nets/c.py"}
    assert relevant({"train.py": SEED + b"import_module(name); import_module('')\n", "a.py": b""}).files == {"train.py"}


def test_a_training_file_that_a_whole_library_uses_is_taken_alone() -> None:
    users = {f"use_{number}.py": b"import engine\n" for number in range(MANY_USERS + 1)}
    files = {"engine.py": SEED + b"import build\n", "build.py": b"import torch\n", "main.py": SEED, **users}
    found = relevant(files)
    assert found.files == {"engine.py", "main.py"}
    assert found.crowded == {"engine.py"}
    del files["use_0.py"], files["use_1.py"]
    assert relevant(files).crowded == set()
    assert relevant(files).files == files.keys()


def test_of_a_large_library_only_what_is_near_is_taken() -> None:
    ring = [f"import part_{number}\n" for number in range(MANY_USED)]
    files = {"train.py": SEED + b"import near\n", "near.py": "".join(ring).encode()}
    files |= {f"part_{number}.py": b"import torch\n" for number in range(MANY_USED)}
    assert relevant(files).files == {"train.py", "near.py"}
    del files["part_0.py"], files["part_1.py"]
    assert relevant(files).files == files.keys()
