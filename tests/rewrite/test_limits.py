"""Deep code, text that LibCST would change, and files that are not Python."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ampify
from ampify.index.extract import extract
from ampify.model.edit import Edit, EditLines
from ampify.rewrite import RewriteFailed, rewrite, rewrite_lines
from ampify.rewrite.depth import MOST_BRACKETS, MOST_DEPTH, depth_of, with_room_for
from ampify.source import decode_source
from tests.rewrite.script import HEADER, Script, add_import

# Each nests as deep as it has parts.
DEEP = {
    "sum": lambda size: "x = " + " + ".join(["a"] * size),
    "not": lambda size: "x = " + "not " * size + "a",
    "attributes": lambda size: "x = a" + ".b" * size,
    "calls": lambda size: "x = a" + "(b)" * (size // 3),
    "indices": lambda size: "x = a" + "[b]" * (size // 3),
    "power": lambda size: "x = " + "a ** " * size + "a",
    "choices": lambda size: "x = " + "a if b else " * (size // 3) + "c",
    "lambdas": lambda size: "x = " + "lambda: " * (size // 3) + "a",
    "strings": lambda size: "x = " + "'a' " * size,
    "branches": lambda size: "if a: b\n" + "elif a: b\n" * size,
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_code_is_edited(kind: str) -> None:
    text = f"loss.backward()\n{DEEP[kind](900)}\n"
    edit = Script("loss.backward()\n").wrap("loss.backward()")
    try:
        edited = rewrite(decode_source(text.encode(), "train.py"), [edit])
    except RewriteFailed:
        # Python 3.12 limits calls through C code, whatever the stack: there a clear refusal has to do.
        if sys.version_info[:2] != (3, 12):
            raise
        return
    assert edited == text.replace("loss.backward()", f"{HEADER}\n    loss.backward()")


def test_code_too_deep_for_the_room_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampify.stack._RECURSION", 1_100)
    text = f"loss.backward()\n{DEEP['sum'](2_000)}\n"
    with pytest.raises(RewriteFailed, match="nests 1999 deep, which is more than LibCST can read"):
        rewrite(decode_source(text.encode(), "train.py"), [Script("loss.backward()\n").wrap("loss.backward()")])


@pytest.mark.parametrize("kind", DEEP)
def test_code_deeper_than_python_reads_is_refused(kind: str) -> None:
    text = f"loss.backward()\n{DEEP[kind](4 * MOST_DEPTH)}\n"
    with pytest.raises(RewriteFailed, match="cannot be edited safely"):
        rewrite(decode_source(text.encode(), "train.py"), [add_import()])


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 3_000 + ")" * 3_000,
        "x = " + "[" * (MOST_BRACKETS + 1) + "]" * (MOST_BRACKETS + 1),
        "x = f'{" + "(" * 3_000 + ")" * 3_000 + "}'",
        "x = F'''{" + "f(" * 3_000 + ")" * 3_000 + "}'''",
    ],
)
def test_more_brackets_than_python_reads_are_refused_and_crash_nothing(text: str) -> None:
    with pytest.raises(RewriteFailed):
        rewrite(decode_source(text.encode(), "train.py"), [add_import()])


def test_deep_code_elsewhere_in_the_file_does_not_matter() -> None:
    start = Script("import torch\ndef train():\n    loss.backward()\n")
    source = decode_source(
        (start.text + "def table():\n    return " + "(" * 150 + ")" * 150 + "\n").encode(), "train.py"
    )
    deep = decode_source((start.text + f"def table():\n    {DEEP['sum'](4 * MOST_DEPTH)}\n").encode(), "train.py")
    sections = extract("train.py", source.text).sections()
    edits = [start.wrap("loss.backward()"), add_import()]
    with pytest.raises(RewriteFailed, match="cannot be edited safely"):
        rewrite(deep, edits)
    assert HEADER in rewrite(deep, edits, sections)


def test_brackets_in_plain_strings_and_comments_count_for_nothing() -> None:
    text = f"x = '{'(' * 3_000}'  # {'[' * 3_000}\ny = r'''{'{' * 3_000}'''\n"
    assert depth_of(text) < 5
    assert Script(text).edited(add_import()).endswith(text)


def test_what_has_an_end_does_not_add_up() -> None:
    assert depth_of("x = [\n" + "    a + b,\n" * 5_000 + "]\n") < 10
    assert depth_of("x = a + b\n" * 5_000) < 10
    assert depth_of("f(a)(b)(c)\n") == 3


def test_text_that_is_no_sequence_of_words_is_refused() -> None:
    with pytest.raises(RewriteFailed, match="cannot be split into words"):
        rewrite(decode_source(b"x = (\n", "train.py"), [add_import()])
    with pytest.raises(RewriteFailed, match="LibCST cannot read it"):
        rewrite(decode_source(b"x = = 1\n", "train.py"), [add_import()])


def test_deep_work_leaves_the_limits_as_they_were_and_passes_errors_on() -> None:
    before = (sys.getrecursionlimit(), threading.stack_size())

    def descend(levels: int) -> int:
        return 0 if levels == 0 else 1 + descend(levels - 1)

    assert with_room_for(MOST_DEPTH, lambda: descend(20_000)) == 20_000
    with pytest.raises(KeyError, match="lost"):
        with_room_for(MOST_DEPTH, lambda: {}["lost"])
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


@pytest.mark.parametrize("text", ["\\\nx = 1\n", "if a:\n    b\n\\\n    c\n"])
def test_text_that_libcst_would_change_is_refused(text: str) -> None:
    with pytest.raises(RewriteFailed, match="would not give its text back"):
        rewrite(decode_source(text.encode(), "train.py"), [add_import()])


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("import torch   ", "import torch   \n->"),
        ("import torch\n   \n  ", "import torch\n->\n   \n  "),
        ("import torch\n\x0c", "import torch\n->\n\x0c"),
        ("import torch\r", "import torch\r->\r"),
        ("import torch\n# c  ", "import torch\n->\n# c  "),
    ],
)
def test_blanks_at_the_end_are_kept(text: str, after: str) -> None:
    assert Script(text).edited(add_import()) == after.replace("->", "from ampify_runtime import amp")


def test_libcst_is_loaded_only_when_something_is_rewritten() -> None:
    code = (
        "import sys, ampify.rewrite as r; from ampify.source import decode_source as d; s = d(b'x', 'a.py');"
        "r.rewrite(s, []); assert 'libcst' not in sys.modules;"
        "from ampify.model.edit import AddImport; r.rewrite(s, [AddImport('a.py', 'b', 'c')]); assert 'libcst' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(ampify.__file__).parents[1])


LINES = "torch==1.0\nnumpy\n"


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        (LINES, [(2, 0, "ampify\n")], "torch==1.0\nampify\nnumpy\n"),
        (LINES, [(1, 1, "torch\nampify\n")], "torch\nampify\nnumpy\n"),
        (LINES, [(3, 0, "ampify\n")], "torch==1.0\nnumpy\nampify\n"),
        (LINES, [(2, 1, "")], "torch==1.0\n"),
        (LINES, [(3, 0, "b\n"), (1, 0, "a\n"), (3, 0, "c\n")], "a\ntorch==1.0\nnumpy\nb\nc\n"),
        ("torch", [(2, 0, "ampify\n")], "torch\nampify\n"),
        ("torch", [(1, 0, "ampify\n")], "ampify\ntorch"),
        ("a\r\nb", [(2, 0, "x\ny\n"), (3, 0, "z\n")], "a\r\nx\r\ny\r\nb\r\nz\r\n"),
        ("a\rb\r", [(1, 1, "x\n")], "x\rb\r"),
        ("", [(1, 0, "x\n")], "x\n"),
        ("a\x0cb\n", [(2, 0, "x\n")], "a\x0cb\nx\n"),
    ],
)
def test_lines_of_other_files_are_edited(text: str, edits: list[tuple[int, int, str]], after: str) -> None:
    source = decode_source(text.encode(), "requirements.txt")
    assert rewrite_lines(source, [EditLines(source.path, *edit) for edit in edits]) == after


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([EditLines("r.txt", 1, 2, "x\n"), EditLines("r.txt", 2, 1, "y\n")], "two edits change line 2 of r.txt"),
        ([EditLines("r.txt", 1, 3, "x\n")], "r.txt has 2 lines"),
        ([EditLines("r.txt", 4, 0, "x\n")], "r.txt has 2 lines"),
        ([EditLines("r.txt", 0, 1, "x\n")], "two edits change line 0|r.txt has 2 lines"),
        ([EditLines("r.txt", 2, -1, "x\n")], "r.txt has 2 lines"),
        ([add_import()], "can only be edited by lines"),
    ],
)
def test_line_edits_that_cannot_be_made_are_refused(edits: list[Edit], says: str) -> None:
    with pytest.raises(RewriteFailed, match=says):
        rewrite_lines(decode_source(LINES.encode(), "r.txt"), edits)


def test_python_is_not_edited_by_lines() -> None:
    with pytest.raises(RewriteFailed, match="cannot be edited by lines"):
        rewrite(decode_source(b"x\n", "a.py"), [EditLines("a.py", 1, 0, "y\n")])
