"""What a repository says it needs: read in every format, extended in its own style, and its old pins reported."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ampify.config.toml import parse_toml
from ampify.dependencies.declaration import Constraint, parse_requirement, specifiers
from ampify.dependencies.findings import declaration_findings
from ampify.dependencies.import_line import import_line
from ampify.dependencies.nearest import nearest_declarations, read_declaration
from ampify.dependencies.pins import python_too_old, torch_too_old
from ampify.model.anchor import Anchor
from ampify.model.edit import AddElement, Edit
from ampify.model.finding import Finding
from ampify.pipeline.rewriting import rewrite_file


def write(folder: Path, name: str, content: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def findings(folder: Path, *, vendored: bool = False, script: str = "train.py") -> tuple[Finding, ...]:
    nearest = nearest_declarations([(folder / script, script)], [folder])
    return declaration_findings(nearest, {script: 1}, vendored=vendored)


def extended(folder: Path, name: str, content: str | bytes) -> bytes | None:
    """The file after the edits that were found for it; None if there are none."""
    write(folder, name, content)
    nearest = nearest_declarations([(folder / "train.py", "train.py")], [folder])
    (declared,) = [declared for declared in nearest.declared if declared.source.path == name]
    edits: tuple[Edit, ...] = declared.declaration.additions
    if not edits:
        return None
    rewritten = rewrite_file((declared.source, edits, ()))
    assert rewritten.text is not None, rewritten
    write(folder, name, declared.source.encode(rewritten.text))
    again = read_declaration(nearest_declarations([(folder / "train.py", "train.py")], [folder]).declared[0].source)
    assert again is not None
    assert again.lists_runtime
    assert again.lists_torch
    assert not again.additions, "a second run would add it again"
    return declared.source.encode(rewritten.text)


def codes(found: tuple[Finding, ...]) -> list[tuple[str, str, int]]:
    return [(finding.code, finding.anchor.path, finding.anchor.line) for finding in found]


REQUIREMENTS = {
    "after torch": ("torch>=1.7\nnumpy\n", "torch>=1.7\nampify>=0.1\nnumpy\n"),
    "after the last line": ("numpy\nzipp\ntorch\n", "numpy\nzipp\ntorch\nampify>=0.1\n"),
    "in its place in a sorted file": ("absl-py\nnumpy\ntorch\n", "absl-py\nampify>=0.1\nnumpy\ntorch\n"),
    "first of a sorted file": ("numpy==1.19\ntorch==1.7\n", "ampify>=0.1\nnumpy==1.19\ntorch==1.7\n"),
    "not between a comment and its requirement": (
        "absl-py\n# arrays\nnumpy\ntorch\n",
        "absl-py\n# arrays\nnumpy\ntorch\nampify>=0.1\n",
    ),
    "comments, options and markers": (
        "# what we need\n--find-links https://download.pytorch.org/whl/torch_stable.html\n-r other.txt\n"
        'torch==1.7.0+cu101 ; python_version < "3.9"  # pinned\nnumpy\n',
        "# what we need\n--find-links https://download.pytorch.org/whl/torch_stable.html\n-r other.txt\n"
        'torch==1.7.0+cu101 ; python_version < "3.9"  # pinned\nampify>=0.1\nnumpy\n',
    ),
    "a continued line": ("torch==1.7 \\\n    ; os_name == 'posix'\nnumpy\n", None),
    "windows": ("torch\r\nnumpy\r\n", "torch\r\nampify>=0.1\r\nnumpy\r\n"),
    "alone": ("torch\n", "torch\nampify>=0.1\n"),
    "extras": ("torch[opt]>=1\nnumpy\n", "torch[opt]>=1\nampify>=0.1\nnumpy\n"),
    "an address": (
        "https://download.pytorch.org/whl/cu101/torch-1.7.1%2Bcu101-cp38-cp38-linux_x86_64.whl\nnumpy\n",
        "https://download.pytorch.org/whl/cu101/torch-1.7.1%2Bcu101-cp38-cp38-linux_x86_64.whl\nampify>=0.1\nnumpy\n",
    ),
}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_requirements_file(tmp_path: Path, name: str) -> None:
    before, after = REQUIREMENTS[name]
    if after is None:
        after = "torch==1.7 \\\n    ; os_name == 'posix'\nampify>=0.1\nnumpy\n"
    assert extended(tmp_path, "requirements.txt", before) == after.encode()


def test_requirements_without_a_final_newline(tmp_path: Path) -> None:
    after = extended(tmp_path, "requirements-gpu.txt", "zipp\ntorch")
    assert after is not None
    assert after.split() == [b"zipp", b"torch", b"ampify>=0.1"]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (b"", "latin-1"),
    ],
)
def test_requirements_in_other_encodings(tmp_path: Path, mark: bytes, encoding: str) -> None:
    before = mark + "torch  # für alle\nnumpy\n".encode(encoding)
    after = mark + "torch  # für alle\nampify>=0.1\nnumpy\n".encode(encoding)
    assert extended(tmp_path, "requirements.txt", before) == after


@pytest.mark.parametrize(
    "content",
    ["torch\nampify\n", "ampify==0.1.0  # here\ntorch\n", "Ampify >= 0.1\ntorch\n"],
)
def test_an_entry_that_is_there_is_respected(tmp_path: Path, content: str) -> None:
    write(tmp_path, "requirements.txt", content)
    assert findings(tmp_path) == ()


def test_hashes_are_not_made_up(tmp_path: Path) -> None:
    content = "torch==2.5.1 \\\n    --hash=sha256:0123 \\\n    --hash=sha256:4567\n"
    assert extended(tmp_path, "requirements.txt", content) is None
    (finding,) = findings(tmp_path)
    assert (finding.code, finding.fix, finding.anchor.line) == ("AMP110", None, 1)
    assert "hashes" in finding.message


PYPROJECT = {
    "one a line": (
        '[project]\nname = "x"\ndependencies = [\n    "numpy",\n    "torch>=1.7",  # the GPU one\n]\n',
        '[project]\nname = "x"\ndependencies = [\n    "numpy",\n    "torch>=1.7",  # the GPU one\n    "ampify>=0.1",\n]\n',
    ),
    "one a line, no comma at the end": (
        "[project]\ndependencies = [\n  'numpy',\n  'torch'  # the GPU one\n]\n[tool.x]\ny = 1\n",
        "[project]\ndependencies = [\n  'numpy',\n  'torch',  # the GPU one\n  'ampify>=0.1'\n]\n[tool.x]\ny = 1\n",
    ),
    "all in one line": (
        '[project]\ndependencies = ["torch[opt]", "numpy"]\n',
        '[project]\ndependencies = ["torch[opt]", "numpy", "ampify>=0.1"]\n',
    ),
    "all in one line, comma at the end": (
        '[project]\ndependencies = ["torch",]  # yes\n',
        '[project]\ndependencies = ["torch", "ampify>=0.1",]  # yes\n',
    ),
    "the last line closes": (
        '[project]\ndependencies = ["numpy",\n                "torch"]\n',
        '[project]\ndependencies = ["numpy",\n                "torch", "ampify>=0.1"]\n',
    ),
    "two in a line": (
        '[project]\ndependencies = [\n\t"numpy", "torch",\n]\n',
        '[project]\ndependencies = [\n\t"numpy", "torch",\n\t"ampify>=0.1",\n]\n',
    ),
    "extras": (
        '[project]\ndependencies = ["numpy"]\n[project.optional-dependencies]\ngpu = ["torch"]\ndocs = ["sphinx"]\ncpu = [\n"torch"]\n',
        '[project]\ndependencies = ["numpy"]\n[project.optional-dependencies]\ngpu = ["torch", "ampify>=0.1"]\ndocs = ["sphinx"]\ncpu = [\n"torch", "ampify>=0.1"]\n',
    ),
    "dependencies before extras": (
        '[project]\ndependencies = ["torch"]\n[project.optional-dependencies]\ngpu = ["torch"]\n',
        '[project]\ndependencies = ["torch", "ampify>=0.1"]\n[project.optional-dependencies]\ngpu = ["torch"]\n',
    ),
    "a group that includes another": (
        '[dependency-groups]\ntrain = [\n    "torch",\n    {include-group = "x"},\n]\nx = ["y"]\n',
        '[dependency-groups]\ntrain = [\n    "torch",\n    "ampify>=0.1",\n    {include-group = "x"},\n]\nx = ["y"]\n',
    ),
    "a group in one line that includes another": (
        "[dependency-groups]\nx = ['y']\ntrain = [{include-group = 'x'}, 'torch', ]\n",
        "[dependency-groups]\nx = ['y']\ntrain = [{include-group = 'x'}, 'torch', 'ampify>=0.1', ]\n",
    ),
    "poetry": (
        '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = {version = "^2.4", source = "gpu"}\nnumpy = "*"\n',
        '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = {version = "^2.4", source = "gpu"}\nampify = ">=0.1"\nnumpy = "*"\n',
    ),
    "a group of poetry": (
        '[tool.poetry.dependencies]\npython = "^3.10"\n\n[tool.poetry.group.gpu.dependencies]\ntorch = "2.4.1"\n',
        '[tool.poetry.dependencies]\npython = "^3.10"\n\n[tool.poetry.group.gpu.dependencies]\ntorch = "2.4.1"\nampify = ">=0.1"\n',
    ),
    "windows": (
        '[project]\r\ndependencies = [\r\n    "torch",\r\n]\r\n',
        '[project]\r\ndependencies = [\r\n    "torch",\r\n    "ampify>=0.1",\r\n]\r\n',
    ),
    "its own table stays": (
        '[tool.ampify]\njobs = 1\n[project]\ndependencies = ["torch"]\n',
        '[tool.ampify]\njobs = 1\n[project]\ndependencies = ["torch", "ampify>=0.1"]\n',
    ),
    "text that looks like code": (
        '[project]\ndescription = """\ndependencies = ["torch"]\n"""\ndependencies = ["torch"]\n',
        None,
    ),
    "text that looks like the start of an array": (
        '[project]\ndescription = """\ndependencies = [\n"""\ndependencies = ["torch"]\n',
        None,
    ),
    "a dotted key": ('project.dependencies = ["torch"]\n', None),
    "a nested table": ('[tool.poetry.dependencies.torch]\nversion = "2.4"\n', None),
    "several values": ('[tool.poetry.dependencies]\ntorch = [\n    {version = "2.4", python = "3.10"},\n]\n', None),
}


@pytest.mark.parametrize("name", PYPROJECT)
def test_pyproject(tmp_path: Path, name: str) -> None:
    before, after = PYPROJECT[name]
    result = extended(tmp_path, "pyproject.toml", before)
    if after is not None:
        assert result == after.encode()
        parse_toml(after)
        return
    assert result is None
    missing = [finding for finding in findings(tmp_path) if finding.code == "AMP110"]
    assert [finding.fix for finding in missing] == [None]
    assert "unusual" in missing[0].message


def test_pyproject_that_is_no_toml_declares_nothing(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[project\ndependencies = ['torch']\n")
    assert codes(findings(tmp_path)) == [("AMP110", "train.py", 1)]


SETUP = {
    "a list": (
        "from setuptools import setup\n\nsetup(\n    name='x',\n    install_requires=[\n        'numpy',\n        'torch>=1.7',\n    ],\n)\n",
        "from setuptools import setup\n\nsetup(\n    name='x',\n    install_requires=[\n        'numpy',\n        'torch>=1.7',\n        'ampify>=0.1',\n    ],\n)\n",
    ),
    "one line": (
        'import setuptools\nsetuptools.setup(install_requires=["torch", "numpy"])\n',
        'import setuptools\nsetuptools.setup(install_requires=["torch", "numpy", "ampify>=0.1"])\n',
    ),
    "through a name": (
        'REQUIRED = ["torch"]\nEXTRA = REQUIRED + ["x"]\nsetup(install_requires=EXTRA, version=v)\n',
        'REQUIRED = ["torch", "ampify>=0.1"]\nEXTRA = REQUIRED + ["x"]\nsetup(install_requires=EXTRA, version=v)\n',
    ),
    "a dict of arguments": (
        'arguments = {"name": "x", "install_requires": ("torch", "numpy"), **more}\nsetup(**arguments)\n',
        'arguments = {"name": "x", "install_requires": ("torch", "numpy", "ampify>=0.1"), **more}\nsetup(**arguments)\n',
    ),
    "extras": (
        "setup(install_requires=['numpy'], extras_require={'gpu': ['torch'], 'docs': ['sphinx']})\n",
        "setup(install_requires=['numpy'], extras_require={'gpu': ['torch', 'ampify>=0.1'], 'docs': ['sphinx']})\n",
    ),
    "a list that is bound again where torch is there already": (
        "needs = ['torch']\nif found:\n    needs = [n for n in needs if n != 'torch']\nsetup(install_requires=needs)\n",
        "needs = ['torch', 'ampify>=0.1']\nif found:\n    needs = [n for n in needs if n != 'torch']\n"
        "setup(install_requires=needs)\n",
    ),
}


@pytest.mark.parametrize("name", SETUP)
def test_setup_script(tmp_path: Path, name: str) -> None:
    before, after = SETUP[name]
    assert extended(tmp_path, "setup.py", before) == after.encode()


def test_setup_script_with_a_name_that_refers_to_itself(tmp_path: Path) -> None:
    write(tmp_path, "setup.py", "deps = ['torch']\ndeps = deps + [f'{x}', *more, 3]\nsetup(install_requires=deps)\n")
    (finding,) = findings(tmp_path)
    assert finding.fix is not None
    (edit,) = finding.fix.edits
    assert edit == AddElement(Anchor("setup.py", 1, 7, 1, 16, "List"), "'ampify>=0.1'")


@pytest.mark.parametrize(
    "content",
    [
        "print 'Python 2'\nsetup(install_requires=['torch'])\n",
        "setup(install_requires=open('requirements.txt').read().split())\n",
        "# -*- coding: no-such -*-\nsetup(install_requires=['torch'])\n",
        "import torch\n",
        "setup(install_requires=['== torch'])\n",
    ],
)
def test_setup_script_that_lists_nothing_readable(tmp_path: Path, content: str) -> None:
    write(tmp_path, "setup.py", content)
    assert codes(findings(tmp_path)) == [("AMP110", "train.py", 1)]


CFG = {
    "one a line": (
        "[metadata]\nname = x\n[options]\ninstall_requires =\n    numpy\n    # the GPU one\n    torch>=1.7\n    scipy\n",
        "[metadata]\nname = x\n[options]\ninstall_requires =\n    numpy\n    # the GPU one\n    torch>=1.7\n    ampify>=0.1\n    scipy\n",
    ),
    "on the line of the key": (
        "[options]\ninstall_requires = torch; numpy\nzip_safe = no\n",
        "[options]\ninstall_requires = torch; numpy; ampify>=0.1\nzip_safe = no\n",
    ),
    "extras": (
        "[options.extras_require]\ngpu =\n\ttorch\ndocs: sphinx\n",
        "[options.extras_require]\ngpu =\n\ttorch\n\tampify>=0.1\ndocs: sphinx\n",
    ),
    "a marker": (
        "[options]\ninstall_requires=\n  torch; python_version>'3'\n",
        "[options]\ninstall_requires=\n  torch; python_version>'3'\n  ampify>=0.1\n",
    ),
}


@pytest.mark.parametrize("name", CFG)
def test_setup_cfg(tmp_path: Path, name: str) -> None:
    before, after = CFG[name]
    assert extended(tmp_path, "setup.cfg", before) == after.encode()


@pytest.mark.parametrize(
    "content", ["no section\n", "[flake8]\nignore = torch\nbare\n", "[options]\ninstall_requires =\n"]
)
def test_setup_cfg_that_lists_nothing(tmp_path: Path, content: str) -> None:
    write(tmp_path, "setup.cfg", content)
    assert codes(findings(tmp_path)) == [("AMP110", "train.py", 1)]


ENVIRONMENT = {
    "beside what pip installs": (
        "name: x\nchannels:\n  - pytorch\ndependencies:\n  - python=3.10\n  - pytorch=2.4\n  - pip\n  - pip:\n    - tqdm  # bars\n    - -r more.txt\nprefix: /x\n",
        "name: x\nchannels:\n  - pytorch\ndependencies:\n  - python=3.10\n  - pytorch=2.4\n  - pip\n  - pip:\n    - tqdm  # bars\n    - -r more.txt\n    - ampify>=0.1\nprefix: /x\n",
    ),
    "torch from pip": (
        "dependencies:\n- pip:\n  - torch\n- numpy\n",
        "dependencies:\n- pip:\n  - torch\n  - ampify>=0.1\n- numpy\n",
    ),
    "no pip yet": (
        "dependencies:\n  # numbers\n  - numpy\n\n  - pytorch::pytorch>=2.4\n",
        "dependencies:\n  # numbers\n  - numpy\n\n  - pytorch::pytorch>=2.4\n  - pip\n  - pip:\n    - ampify>=0.1\n",
    ),
    "pip asked for, with nothing to install": (
        "dependencies:\n  - pip>=21\n  - pytorch\n",
        "dependencies:\n  - pip>=21\n  - pytorch\n  - pip:\n    - ampify>=0.1\n",
    ),
    "an empty list for pip": (
        "dependencies:\n  - pytorch\n  - pip:\n",
        "dependencies:\n  - pytorch\n  - pip:\n    - ampify>=0.1\n",
    ),
}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_conda_environment(tmp_path: Path, name: str) -> None:
    before, after = ENVIRONMENT[name]
    assert extended(tmp_path, "environment.yml", before) == after.encode()


@pytest.mark.parametrize(
    "content", ["dependencies: [pytorch]\n", "channels:\n  - pytorch\n", "dependencies:\n  - '*'\n"]
)
def test_conda_environment_that_lists_nothing(tmp_path: Path, content: str) -> None:
    write(tmp_path, "environment.yaml", content)
    assert codes(findings(tmp_path)) == [("AMP110", "train.py", 1)]


# Which files hold for which script


def test_every_file_of_the_nearest_folder_that_lists_torch(tmp_path: Path) -> None:
    for name in ("requirements.txt", "requirements/gpu.txt", "requirements/gpu.in", "requirements.in"):
        write(tmp_path, name, "torch>=2.4\n")
    write(tmp_path, "requirements-docs.txt", "sphinx\n")
    write(tmp_path, "environment.yml", "dependencies:\n  - pytorch\n")
    write(tmp_path, "setup.py", "setup(install_requires=['torch'])\n")
    found = findings(tmp_path)
    assert {(f.code, f.applicability) for f in found} == {("AMP110", "safe")}
    assert [f.anchor.path for f in found] == [
        "environment.yml",
        "requirements.in",
        "requirements.txt",
        "requirements/gpu.in",
        "requirements/gpu.txt",
        "setup.py",
    ]


def test_nearer_folders_win_and_the_walk_stops_at_the_bound(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch\n")
    write(tmp_path / "repo", "setup.cfg", "[metadata]\nname = x\n")
    write(tmp_path / "repo" / "a", "requirements.txt", "torch\n")
    scripts = [(tmp_path / "repo" / s, f"repo/{s}") for s in ("a/b/train.py", "c/train.py", "c/other.py")]
    nearest = nearest_declarations(scripts, [tmp_path / "repo"])
    assert [declared.source.path for declared in nearest.declared] == ["repo/a/requirements.txt"]
    assert nearest.without == ("repo/c/train.py", "repo/c/other.py")
    outer = nearest_declarations(scripts, [tmp_path / "repo", tmp_path])
    assert [d.source.path for d in outer.declared] == ["repo/a/requirements.txt", "requirements.txt"]
    assert nearest_declarations(scripts, []).without == tuple(display for _, display in scripts)


def test_none_is_found(tmp_path: Path) -> None:
    scripts = [(tmp_path / name, name) for name in ("train.py", "finetune.py")]
    lines = {"train.py": 4, "finetune.py": 2}
    (finding,) = declaration_findings(nearest_declarations(scripts, [tmp_path]), lines, vendored=False)
    assert (finding.code, finding.anchor.path, finding.fix, finding.refuses) == ("AMP110", "train.py", None, False)
    assert finding.anchor.line == 4
    assert "pip install 'ampify>=0.1'" in finding.hint
    assert [(related.anchor.path, related.anchor.line) for related in finding.related] == [("finetune.py", 2)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("#!/usr/bin/env python\n\nimport numpy as np\nimport torch\nfrom torch import nn\n", 4),
        (
            '"""Trains with torch.\n\nimports of torchvision stand below.\n"""\nfrom torch.utils.data import DataLoader\n',
            5,
        ),
        ("import torchvision\nfrom apex import amp\nimport torch\n", 2),
        ("import numpy\r\nimport torch, os\r\n", 2),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", 2),
        ("from models import Net\n", 1),
        ("", 1),
    ],
)
def test_the_lack_is_told_where_torch_is_imported(text: str, line: int) -> None:
    assert import_line(text) == line


def test_a_vendored_runtime_needs_no_requirement_but_the_same_versions(tmp_path: Path) -> None:
    assert findings(tmp_path, vendored=True) == ()
    write(tmp_path, "requirements.txt", "numpy\ntorch==1.7.1\n")
    assert codes(findings(tmp_path, vendored=True)) == [("AMP111", "requirements.txt", 2)]


def test_a_folder_that_cannot_be_read_as_a_file_is_no_declaration(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").mkdir()
    assert codes(findings(tmp_path)) == [("AMP110", "train.py", 1)]


def test_other_names_are_no_declarations(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "torch\n")
    (declared,) = nearest_declarations([(tmp_path / "train.py", "train.py")], [tmp_path]).declared
    assert read_declaration(declared.source) == declared.declaration
    renamed = type(declared.source)("notes.txt", b"torch", "torch", "utf-8", b"", "\n")
    assert read_declaration(renamed) is None


# Versions


TOO_OLD = """
==1.7 ==1.7.1+cu101 <2 <=2.3.1 ~=1.13 ==2.3.* <2.4 >=1.0,<1.9 ===1.7 ==2.3.1.post1
""".split()
NEW_ENOUGH = """
>=1.7 ==2.4 ==2.4.1+cu121 ~=2.0 !=2.4 <3 ==2.* <=2.4 >2.4,<2.5 ==2.6.0.dev20250101 ==2.99.7 >=1.7,<99
""".split()


@pytest.mark.parametrize("text", TOO_OLD)
def test_torch_too_old(text: str) -> None:
    assert torch_too_old(Constraint(f"torch{text}", 1, specifiers(text)))


@pytest.mark.parametrize("text", [*NEW_ENOUGH, ""])
def test_torch_new_enough(text: str) -> None:
    assert not torch_too_old(Constraint(f"torch{text}", 1, specifiers(text)))


def test_one_alternative_that_is_new_enough_will_do() -> None:
    both = (SpecifierSet("<2"), SpecifierSet(">=2.4"))
    assert not torch_too_old(Constraint("torch", 1, both))
    assert torch_too_old(Constraint("torch", 1, both[:1]))
    assert not torch_too_old(Constraint("torch", 1, specifiers("<2", "about 3")))
    assert not torch_too_old(Constraint("torch", 1)), "what is not understood is not called old"


@pytest.mark.parametrize("text", ["<3.10", "==3.8.*", ">=3.6,<3.9", "==3.9.7", "~=3.8.0", "===3.9.weird"])
def test_python_too_old(text: str) -> None:
    assert python_too_old(Constraint(text, 1, specifiers(text)))


@pytest.mark.parametrize("text", [">=3.6", "~=3.8", "<4", "!=3.9", "==3.10.12", "<=3.12", "==3.11.*"])
def test_python_new_enough(text: str) -> None:
    assert not python_too_old(Constraint(text, 1, specifiers(text)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("requirements.txt", "numpy\ntorch<2\n", [("AMP111", 2)]),
        ("requirements.txt", "torch @ https://x.org/torch-1.7.1-cp38-cp38-linux_x86_64.whl\n", [("AMP111", 1)]),
        ("requirements.txt", "torch>=1.0.*\n", []),
        (
            "environment.yml",
            "dependencies:\n  - python=3.8\n  - pytorch=1.7.1=py3.8_cuda10\n",
            [("AMP111", 3), ("AMP112", 2)],
        ),
        (
            "environment.yml",
            "dependencies:\n  - python==3.8.5=build\n  - pytorch ==1.7\n",
            [("AMP111", 3), ("AMP112", 2)],
        ),
        ("environment.yml", "dependencies:\n  - python 3.8.*\n  - pytorch <2|>=2.4\n", [("AMP112", 2)]),
        ("environment.yml", "dependencies:\n  - python >=3.6, <3.9\n  - pytorch=*\n", [("AMP112", 2)]),
        ("environment.yml", "dependencies:\n  - python=3\n  - pytorch>=1.4,<1.8\n", [("AMP111", 3)]),
        ("setup.py", "setup(\n  python_requires='<3.10',\n  install_requires=['torch'])\n", [("AMP112", 2)]),
        ("setup.py", "setup(python_requires=version(), install_requires=['torch<1'])\n", [("AMP111", 1)]),
        ("setup.cfg", "[options]\npython_requires = >=3.6,<3.9\ninstall_requires = torch\n", [("AMP112", 2)]),
        (
            "pyproject.toml",
            '[project]\nrequires-python = "<3.9"\ndependencies = [\n  "torch==1.7",\n]\n',
            [("AMP111", 4), ("AMP112", 2)],
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.8"\ntorch = "^1.7"\n', [("AMP111", 3)]),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "~3.8"\ntorch = "~2"\n', [("AMP112", 2)]),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = "3.8.*"\ntorch = "^0.4"\n',
            [("AMP111", 3), ("AMP112", 2)],
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "<3.9 || >=3.10"\ntorch = "*"\n', []),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = ">= 3.6, < 3.9"\ntorch = "^0"\n',
            [("AMP111", 3), ("AMP112", 2)],
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = {git = "https://x.org"}\n', []),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\ntorch = [{version = "1.7"}, {version = "1.8", optional = true}]\n',
            [("AMP111", 2)],
        ),
    ],
)
def test_versions_that_are_too_old_are_reported(
    tmp_path: Path, name: str, content: str, expected: list[tuple[str, int]]
) -> None:
    write(tmp_path, name, content)
    found = [f for f in findings(tmp_path) if f.code != "AMP110"]
    assert [(f.code, f.anchor.line) for f in found] == expected
    assert all(f.anchor.path == name and f.hint and f.fix is None and not f.refuses for f in found)


@pytest.mark.parametrize("text", ["", "-e .", "https://x.org/other-1.0.tar.gz", "*"])
def test_what_names_no_package(text: str) -> None:
    assert parse_requirement(text, 1) is None
