"""Scripts in odd dress: any encoding, any ends of lines, any layout. They are migrated like the plain script, and not a
byte of the lines beside the edits changes."""

from __future__ import annotations

import ast
import codecs
import sys
import tempfile
from dataclasses import dataclass
from encodings.aliases import aliases
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampify.cli import main
from ampify.model.source import SourceFile
from ampify.source import UnreadableSource, decode_source

FLAT = """\
import torch
NAME = {text!r}
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    total = float(loss)
"""
NESTED = """\
import torch
NAME = {text!r}
def train(epochs):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for epoch in range(epochs):
            with open('log') as log:
                if epoch >= 0:
                    optimizer.zero_grad()
                    loss = model(torch.ones(8, 4)).pow(2).mean()
                    loss.backward()
                    optimizer.step()
                    total = float(loss)
    finally:
        seen = NAME
if __name__ == '__main__':
    train(3)
"""
CLASS = """\
import torch
NAME = {text!r}
class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.model(batch).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss
trainer = Trainer()
for step in range(3):
    trainer.step(torch.ones(8, 4))
"""
# Each with text that it can write; some of these characters end in the byte of a backslash or of a brace.
WORDS = {
    "utf-8": "né ∑ 日本",
    "latin-1": "né ÿ \x85 \xa0",
    "iso8859-15": "né €",
    "cp1252": "né € “”",
    "mac_roman": "né ∑",
    "koi8-r": "проба",
    "cp1251": "проба",
    "shift_jis": "表 ソ 能 日本",
    "euc_jp": "表 日本",
    "gbk": "誠 中文",
    "big5": "功 許 中文",
    "gb18030": "中文 né",
    "euc_kr": "한국",
    "ascii": "plain",
}
COOKIES = ("# -*- coding: {} -*-", "# vim: set fileencoding={} :", "#coding={}", "\t # coding:{}")
CONTINUED = {" = ": " = \\\n      ", "optimizer.step(": "optimizer.step(  # so\n\n  ", "loss.": "loss \\\n  ."}


def ampify(folder: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--no-cache", "-j1", "--ignore", "AMP110", str(folder)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def migrated(raw: bytes) -> bytes:
    """What `ampify --write` makes of a script; that a second run leaves it and that undo takes it back is seen to."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "train.py"
        path.write_bytes(raw)
        result = ampify(Path(name), "--write")
        assert result.exit_code == 0, result.output
        after = path.read_bytes()
        again = ampify(Path(name), "--write")
        assert (again.exit_code, path.read_bytes()) == (0, after), again.output
        assert CliRunner().invoke(main, ["undo", name]).exit_code == 0
        assert path.read_bytes() == raw
        return after


@dataclass(frozen=True, slots=True)
class Odd:
    """A script: its encoding, the plain text that says the same, and its lines, with whether an edit may touch them."""

    encoding: str
    plain: str
    bom: bytes
    lines: tuple[tuple[bytes, bool], ...]

    @property
    def raw(self) -> bytes:
        return self.bom + b"".join(line for line, _ in self.lines)


def touched(statements: list[str]) -> bool:
    """Whether an edit may reach into the line of these statements: a call that changes, or code put in between."""
    words = ("backward", "clip_grad") if len(statements) == 1 else ("backward", "clip_grad", "optimizer =", "import")
    return any(word in statement for statement in statements for word in words)


@st.composite
def odd_scripts(draw: st.DrawFn) -> Odd:
    encoding = draw(st.sampled_from(sorted(WORDS)))
    words = WORDS[encoding]
    plain = draw(st.sampled_from([FLAT, NESTED, CLASS])).format(text=words)
    marked = encoding == "utf-8" and draw(st.booleans())
    found = [(line, False) for line in draw(heads(encoding, marked))]
    unit = draw(st.sampled_from(["    ", "\t", "  ", " "]))
    noise = ["", "   ", "\t", "\x0c", f"# {words}", f"            # {words}  ", "#:\\", "# if x: y; z"]
    rest = plain.splitlines()
    while rest:
        found += [(line, False) for line in draw(st.lists(st.sampled_from(noise), max_size=2))]
        statements = draw(taken(rest))
        depth = (len(statements[0]) - len(statements[0].lstrip())) // 4
        code = draw(st.sampled_from(["; ", ";", " ;\t"])).join(statement.strip() for statement in statements)
        for plain_form, form in CONTINUED.items():
            code = code.replace(plain_form, form) if draw(st.integers(0, 5)) == 0 else code
        if not code.endswith(":"):
            code += draw(st.sampled_from(["", "", ";", " ; "]))
        code += draw(st.sampled_from(["", "", "  ", "\t", f"  # {words}", "\x0c"]))
        may = touched(statements)
        found += [(line, may) for line in (unit * depth + code).split("\n")]
    ends = draw(st.sampled_from([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n"], ["\n", "\r\n", "\r"]]))
    last = draw(st.sampled_from(["", "\n", "\r\n"]))
    # A carriage return and a newline that come to stand together are one end of a line.
    texts = [line + draw(st.sampled_from(ends)) for line, _ in found[:-1]] + [found[-1][0] + last]
    lines = [(text.encode(encoding), may) for text, (_, may) in zip(texts, found, strict=True)]
    return Odd(encoding, plain, codecs.BOM_UTF8 if marked else b"", tuple(joined(lines)))


@st.composite
def heads(draw: st.DrawFn, encoding: str, marked: bool) -> list[str]:
    """The lines before the code, one of which names the encoding where that has to be named."""
    first = draw(st.sampled_from([[], ["#!/usr/bin/env python"], ["# note"], [""]]))
    if encoding in ("utf-8", "ascii") and draw(st.booleans()):
        return first
    cookie = draw(st.sampled_from(COOKIES)).format("utf-8-sig" if marked and draw(st.booleans()) else encoding)
    return [*first, cookie]


@st.composite
def taken(draw: st.DrawFn, rest: list[str]) -> list[str]:
    """The next statement, perhaps with others that may stand on its line."""
    statements = [rest.pop(0)]
    while rest and not rest[0].endswith(":") and not statements[0].endswith(":") and draw(st.integers(0, 3)) == 0:
        indents = {len(line) - len(line.lstrip()) for line in (rest[0], statements[0])}
        if len(indents) > 1:
            break
        statements.append(rest.pop(0))
    return statements


def joined(lines: list[tuple[bytes, bool]]) -> list[tuple[bytes, bool]]:
    """The lines as they are read: one that is empty but for its newline ends the one before, if that ends in `\\r`."""
    found: list[tuple[bytes, bool]] = []
    for line, may in lines:
        if found and found[-1][0].endswith(b"\r") and line.startswith(b"\n"):
            found[-1] = (found[-1][0] + b"\n", found[-1][1])
            line = line[1:]
        if line:
            found.append((line, may))
    return found


def meant(code: str | bytes) -> tuple[list[str], list[str]]:
    """What a script means. Its imports are in no order: where one shares its line, the new one goes before the line."""
    dumps = [ast.dump(statement) for statement in ast.parse(code).body]
    return sorted(d for d in dumps if d.startswith("Import")), [d for d in dumps if not d.startswith("Import")]


def lost(odd: Odd, after: bytes) -> list[bytes]:
    """The lines beside the edits that do not stand in the result, whole and in their order."""
    place = 0
    missing = []
    for line in (line for line, may in odd.lines if not may):
        at = after.find(line, place)
        if at < 0:
            missing.append(line)
        else:
            place = at + len(line)
    return missing


@settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(odd_scripts())
def test_odd_scripts_are_migrated_like_plain_ones(odd: Odd) -> None:
    after = migrated(odd.raw)
    assert after.startswith(odd.bom)
    text = after[len(odd.bom) :].decode(odd.encoding)
    assert "amp.scale_loss" in text
    expected = meant(migrated(odd.plain.encode()))
    assert meant(text) == expected
    # Python itself, which decodes by the cookie and the mark, reads the same.
    assert meant(after) == expected
    assert lost(odd, after) == []


@pytest.mark.parametrize("codec", sorted({*aliases.values(), *aliases, "utf-8-sig", "undefined", "idna", "klingon"}))
def test_every_encoding_that_python_knows_is_read_as_python_does_or_refused(codec: str) -> None:
    for text in ("x = 'plain'\n", "x = 'né'\n", "x = '日本'\n", "x = 'проба'\n"):
        try:
            raw = f"# coding: {codec}\n".encode() + text.encode(codec)
        except (LookupError, UnicodeError):
            continue
        source = read_or_refused(raw)
        if isinstance(source, UnreadableSource):
            assert source.code in ("AMP002", "AMP006")
            assert source.hint
        else:
            assert source.encode(source.text) == raw
            assert parsed(source.text) == parsed(raw)


def parsed(code: str | bytes) -> str:
    """The syntax tree; nothing where Python cannot read it, as where the `coding` line is not in the encoding itself."""
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError):
        return ""


def read_or_refused(raw: bytes) -> SourceFile | UnreadableSource:
    try:
        return decode_source(raw, "train.py")
    except UnreadableSource as refused:
        return refused


LOOP = FLAT.format(text="plain").encode()
# What bars a file: its bytes, the code of the refusal, the line, and words that name what is wrong.
BARRED = {
    "nul": (LOOP.replace(b"plain", b"pl\0in"), "AMP006", 2, "NUL bytes"),
    "conflict": (b"<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n" + LOOP, "AMP006", 1, "merge conflict"),
    "tabs": (LOOP.replace(b"    optimizer.step()", b"\toptimizer.step()"), "AMP003", 10, "inconsistent use of tabs"),
    "python2": (LOOP + b"print loss\n", "AMP005", 12, "a print statement"),
    "except2": (LOOP + b"try:\n    pass\nexcept IOError, e:\n    pass\n", "AMP005", 14, "`except X, e`"),
    "wide": (LOOP.decode().encode("utf-16"), "AMP002", 1, "UTF-16"),
    "unmarked": (LOOP.replace(b"plain", b"n\xe9"), "AMP002", 2, "is not utf-8 text"),
    "klingon": (b"# coding: klingon\n" + LOOP, "AMP002", 1, "klingon"),
    "torn": (LOOP + b"x = (\n", "AMP003", 12, "was never closed"),
}


def test_every_file_that_is_barred_is_named_with_its_line_and_the_others_are_migrated(tmp_path: Path) -> None:
    for name, (raw, *_) in BARRED.items():
        (tmp_path / f"{name}.py").write_bytes(raw)
    (tmp_path / "train.py").write_bytes(LOOP)
    result = ampify(tmp_path, "--write")
    assert result.exit_code == 1
    told = result.stderr.splitlines()
    for name, (raw, code, line, words) in BARRED.items():
        (found,) = (said for said in told if f"{name}.py:{line}:" in said)
        assert code in found
        assert words in found
        assert (tmp_path / f"{name}.py").read_bytes() == raw
    assert b"amp.scale_loss" in (tmp_path / "train.py").read_bytes()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there is no newer syntax than this Python's")
def test_syntax_newer_than_this_python_is_named_with_the_python_it_needs(tmp_path: Path) -> None:
    raw = LOOP + b"said = t'{loss}'\n"
    (tmp_path / "train.py").write_bytes(raw)
    result = ampify(tmp_path, "--write")
    assert (result.exit_code, (tmp_path / "train.py").read_bytes()) == (1, raw)
    assert "train.py:12:" in result.stderr
    assert "AMP004" in result.stderr
    assert "needs Python 3.14" in result.stderr
