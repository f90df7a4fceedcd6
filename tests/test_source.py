"""Reading files: what is kept, what is refused, and the words for it."""

from __future__ import annotations

import ast
import codecs
import os
import pickle
from pathlib import Path

import pytest

from ampify.model.source import SourceFile
from ampify.source import UnreadableSource, decode_source, explain_syntax_error, read_source, split_lines
from tests.nobody import as_nobody, needs_user_ids, open_to_all


def explain(text: str, running: tuple[int, int] = (3, 10)) -> UnreadableSource:
    """How ampify explains that `text` does not parse; the error is the one this Python gives."""
    source = decode_source(text.encode(), "case.py")
    try:
        ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return explain_syntax_error(source, error, running)
    # This Python is new enough to read it. An older one complains of the first line, in words that do not help.
    return explain_syntax_error(source, SyntaxError("invalid syntax", ("case.py", 1, 1, text)), running)


@pytest.mark.parametrize(
    ("raw", "encoding", "newline"),
    [
        (b"x = 1\n", "utf-8", "\n"),
        (b"x = 1", "utf-8", "\n"),
        (b"", "utf-8", "\n"),
        (b"x = 1\r\ny = 2\r\nz = 3\n", "utf-8", "\r\n"),
        (b"x = 1\ry = 2\r", "utf-8", "\r"),
        (b"a\r\nb\r\n# c\n# d\n# e\n", "utf-8", "\n"),
        (codecs.BOM_UTF8 + b"x = 1\n", "utf-8", "\n"),
        (codecs.BOM_UTF8 + b"# coding: utf-8\nx = 1\n", "utf-8", "\n"),
        ("# coding: latin-1\nx = 'é'\n".encode("latin-1"), "iso-8859-1", "\n"),
        ("#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '€'\n".encode("cp1252"), "cp1252", "\n"),
        ("# coding: latin-1\rx = 'é'\r".encode("latin-1"), "iso-8859-1", "\r"),
        ("# coding: shift_jis\nx = '日本'\n".encode("shift_jis"), "shift_jis", "\n"),
        (b"\tx\n\x0c\n    \x0cy\n", "utf-8", "\n"),
        ("x = 'é\u2028'\n".encode(), "utf-8", "\n"),
    ],
)
def test_what_is_read_can_be_written_back_byte_for_byte(
    tmp_path: Path, raw: bytes, encoding: str, newline: str
) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(raw)
    source = read_source(path, "some/train.py")
    assert (source.path, source.encoding, source.newline) == ("some/train.py", encoding, newline)
    assert source.raw == raw
    assert not source.text.startswith("\ufeff")
    assert source.encode(source.text) == raw


@pytest.mark.parametrize(
    ("raw", "code", "says", "line"),
    [
        (b"x = 1\ny = '\xe9'\n", "AMP002", "is not utf-8 text", 2),
        (b"#!python\r# \xe9\r", "AMP002", "is not utf-8 text", 2),
        (b"# coding: utf-8\nx = 1\ny = '\xff'\n", "AMP002", "is not utf-8 text", 3),
        (b"# coding: klingon\nx = 1\n", "AMP002", "klingon", 1),
        (codecs.BOM_UTF8 + b"# coding: latin-1\nx = 1\n", "AMP002", "declares an encoding Python rejects", 1),
        (b"# coding: rot13\nk = 1\n", "AMP002", "rot13", 1),
        (b"# coding: ascii\nx = '\xe9'\n", "AMP002", "is not ascii text", 2),
        (b"# coding: utf-7\nx = '+AGE-'\n", "AMP002", "cannot be written back unchanged", 1),
        ("x = 1\n".encode("utf-16"), "AMP002", "UTF-16", None),
        ("x = 1\n".encode("utf-32"), "AMP002", "UTF-32", None),
        (b"x = 1\ny = 2\0\n", "AMP006", "NUL", 2),
    ],
)
def test_bytes_that_are_no_python_text_are_refused(raw: bytes, code: str, says: str, line: int | None) -> None:
    with pytest.raises(UnreadableSource) as caught:
        decode_source(raw, "train.py")
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.line == line
    assert caught.value.hint


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.py", tmp_path):
        with pytest.raises(UnreadableSource, match="AMP001 cannot be read"):
            read_source(path, path.name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(UnreadableSource, match="named pipe"):
        read_source(tmp_path / "pipe.py", "pipe.py")


@needs_user_ids
def test_a_file_without_read_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text("x = 1\n")
    path.chmod(0)
    open_to_all(tmp_path)
    with as_nobody(), pytest.raises(UnreadableSource, match="AMP001 may not be read: Permission denied"):
        read_source(path, "secret.py")


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ('print "loss", loss\n', "a print statement"),
        ("print loss\n", "a print statement"),
        ("for x in y:\n    print x  # é\n", "a print statement"),
        ("if a: print 'b'\n", "a print statement"),
        ("print >>f, x,\n`x`\n", "backticks"),
        ("exec code in scope\n", "an exec statement"),
        ("exec 'x = 1'\n", "an exec statement"),
        ("try:\n    pass\nexcept IOError, e:\n    pass\n", "`except X, e`"),
        ("try:\n    pass\nexcept (IOError, OSError), e:\n    pass\n", "`except X, e`"),
        ("raise ValueError, 'no'\n", "`raise X,"),
        ("x = `y`\n", "backticks"),
        ("if a <> b: pass\n", "`<>`"),
        ("mode = 0755\n", "an octal number"),
        ("n = 10L\n", "a long integer"),
        ("n = 0xFFL\n", "a long integer"),
        ("x = ur'a'\n", "prefix `ur`"),
        ("def f(a, (b, c)):\n    pass\n", "a tuple among the parameters of a function"),
        ("f = lambda (a, b): a\n", "a tuple among the parameters of a lambda"),
        ("if a:\n\tprint b\n        print c\n", "a print statement"),
    ],
)
def test_python_2_is_named_by_its_construct(text: str, construct: str) -> None:
    problem = explain(text)
    assert problem.code == "AMP005"
    assert construct in problem.message
    assert problem.line is not None


@pytest.mark.parametrize(
    ("text", "construct", "version"),
    [
        ("except* ValueError:\n    pass\n", "`except*`", "3.11"),
        ("x = a[*b]\n", "an unpacking in an index", "3.11"),
        ("x = a[1, *b]\n", "an unpacking in an index", "3.11"),
        ("def f(*args: *Ts): pass\n", "an unpacking in an index", "3.11"),
        ("def f[T](x: T) -> T: pass\n", "a type parameter list", "3.12"),
        ("class A[T]: pass\n", "a type parameter list", "3.12"),
        ("type Row = list[int]\n", "the `type` statement", "3.12"),
        ("type Row[T] = list[T]\n", "the `type` statement", "3.12"),
        ('x = f"{a["b"]}"\n', "an f-string", "3.12"),
        ("x = f'{a['b']}'\n", "an f-string", "3.12"),
        ('x = f"[{n}/{m:>3}] loss {a["b"]}"\n', "an f-string", "3.12"),
        ("def f[T = int](): pass\n", "a default of a type parameter", "3.13"),
        ("class A[T = int]: pass\n", "a default of a type parameter", "3.13"),
        ("x = t'{a}'\n", "a template string", "3.14"),
        ("except ValueError, TypeError:\n    pass\n", "`except A, B` without parentheses", "3.14"),
    ],
)
def test_newer_syntax_names_the_python_it_needs(text: str, construct: str, version: str) -> None:
    older = tuple(map(int, version.split(".")))
    problem = explain(text, running=(3, older[1] - 1))
    assert problem.code == "AMP004"
    assert construct in problem.message
    assert f"needs Python {version}" in problem.message
    assert version in problem.hint
    assert problem.line == 1
    assert explain(text, running=(3, older[1])).code == "AMP003"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("f-string expression part cannot include a backslash", 'f"{x:\\n}"\n'),
        ("f-string expression part cannot include '#'", "f'''{a # c\n}'''\n"),
    ],
)
def test_complaints_of_old_parsers_about_f_strings_are_known(message: str, text: str) -> None:
    source = decode_source(text.encode(), "case.py")
    problem = explain_syntax_error(source, SyntaxError(message, ("case.py", 1, 1, text)), (3, 11))
    assert (problem.code, problem.line) == ("AMP004", 1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = (\n", 1),
        ("x = 1\ndef f(:\n", 2),
        ("x = 1\n  y = 2\n", 2),
        ("if a:\n\tb\n        c\n", 3),
        ("'''abc\n", 1),
        ("x = 'print me' +\n", 1),
        ("x = = 'except A, e:'  # 0777 `x` <>\n", 1),
        ("a = '<<<<<<< here'\nb = = 1\n", 2),
        ("x = '''\n<<<<<<< not a conflict\n'''\nb = = 1\n", 4),
    ],
)
def test_a_plain_mistake_is_a_plain_mistake(text: str, line: int) -> None:
    problem = explain(text)
    assert problem.code == "AMP003"
    assert problem.line == line
    assert problem.message.startswith("does not parse: ")


def test_merge_conflicts_are_named_with_the_line_they_start_on() -> None:
    problem = explain("x = 1\nif x:\n<<<<<<< ours\n    y = 1\n=======\n    y = 2\n>>>>>>> theirs\n")
    assert (problem.code, problem.line) == ("AMP006", 3)


@pytest.mark.parametrize("kind", [RecursionError, MemoryError])
def test_code_too_deep_for_the_parser_is_said_to_be(kind: type[RecursionError | MemoryError]) -> None:
    # Much deeper, and the parser of Python 3.10 crashes; it gives up at fewer operators of this kind than of others.
    text = "x = " + "not " * 20_000 + "y\n"
    with pytest.raises((RecursionError, MemoryError)):
        ast.parse(text)
    problem = explain_syntax_error(decode_source(text.encode(), "case.py"), kind())
    assert problem.code == "AMP003"
    assert "nested too deeply" in problem.message


def test_errors_without_a_line_are_explained() -> None:
    source = SourceFile("a.py", b"x", "x", "utf-8", b"", "\n")
    assert "rejects it: source code string" in explain_syntax_error(source, ValueError("source code string")).message
    problem = explain_syntax_error(source, SyntaxError("odd"))
    assert (problem.code, problem.message, problem.line) == ("AMP003", "does not parse: odd", None)
    beyond = explain_syntax_error(source, SyntaxError("unexpected EOF", ("a.py", 9, 1, "")))
    assert (beyond.code, beyond.line) == ("AMP003", 9)


def test_the_error_reads_well_and_travels_between_processes() -> None:
    problem = UnreadableSource("AMP002", "is not text", "save it as UTF-8", 7)
    again = pickle.loads(pickle.dumps(problem))
    assert str(again) == "AMP002 line 7: is not text (save it as UTF-8)"
    assert str(UnreadableSource("AMP001", "gone", "look")) == "AMP001 gone (look)"


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "a\n", "a\r\nb\rc\nd", "\r\r\n\n", "a\x0cb\u2028c\x85d\n\x0c\n", "\x1c\x1d\n"]
)
def test_lines_are_those_of_the_parser(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert all(lines)
    padded = text + ("" if text.endswith(("\n", "\r")) or not text else "\n")
    assert len(lines) == padded.replace("\r\n", "\n").replace("\r", "\n").count("\n")
