"""Notebooks: cells read as one program, magics kept, and every byte outside the changed lines as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from ampify.cli import main
from ampify.model.source import SourceFile
from ampify.notebook import read_notebook
from ampify.source import UnreadableSource, decode_source

IMPORTS = ["%matplotlib inline\n", "import torch\n", "from torch import nn"]
MODEL = "model = nn.Linear(4, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
LOOP = [
    "for step in range(3):\n",
    "    optimizer.zero_grad()\n",
    "    loss = model(torch.ones(8, 4)).pow(2).mean()\n",
    "    loss.backward()\n",
    "    optimizer.step()",
]
BACKWARD = ["    with amp.scale_loss(loss, optimizer) as scaled_loss:\n", "        scaled_loss.backward()\n"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code(source: object, **more: object) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 7, "metadata": {}, "outputs": [], "source": source, **more}


def notebook(*cells: object, **metadata: object) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def put(document: object, name: str = "train.ipynb", **layout: Any) -> str:
    text = json.dumps(document, **{"indent": 1, "ensure_ascii": False, **layout}) + "\n"
    Path(name).write_bytes(text.encode())
    return text


def ampify(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_cells_are_read_as_one_program_and_only_lines_that_change_are_touched() -> None:
    old = put(
        notebook(
            {"cell_type": "markdown", "metadata": {}, "source": ["# Training é"]},
            code(IMPORTS, outputs=[{"name": "stdout", "output_type": "stream", "text": ["loss.backward()\n"]}]),
            code(MODEL),
            code("%%bash\nls"),
            code(LOOP, metadata={"collapsed": True, "a": 1e5}),
        )
    )
    result = ampify("--write", "train.ipynb")
    assert result.exit_code == 0, result.stderr
    expected = old.replace('"from torch import nn"', '"from torch import nn\\n",\n    "from ampify_runtime import amp"')
    initialize = '\\nmodel, optimizer = amp.initialize(model, optimizer, opt_level=\\"O1\\")\\n"'
    expected = expected.replace('lr=0.1)\\n"', f"lr=0.1){initialize}")
    backward = ",\n    ".join(json.dumps(line) for line in BACKWARD)
    expected = expected.replace('"    loss.backward()\\n"', backward)
    assert Path("train.ipynb").read_text() == expected
    assert ampify("--check", "train.ipynb").stderr.count("would change") == 0
    ampify("undo")
    assert Path("train.ipynb").read_text() == old


@pytest.mark.parametrize(
    "layout", [{"indent": None}, {"indent": 4}, {"indent": "\t"}, {"separators": (",", ":"), "indent": None}]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_form_of_the_json_is_kept(layout: dict[str, Any], ascii_only: bool) -> None:
    cells = [
        code(
            [
                *IMPORTS[1:2],
                "from torch import nn  # «é» 😀\n",
                MODEL.partition("\n")[0] + "  # é\n",
                MODEL.partition("\n")[2],
            ]
        ),
        code(LOOP),
    ]
    put(notebook(*cells), ensure_ascii=ascii_only, **layout)
    ampify("--write", "train.ipynb")
    text = Path("train.ipynb").read_text()
    new = json.loads(text)
    assert text == json.dumps(new, **{"ensure_ascii": ascii_only, **layout}) + "\n"
    assert new["cells"][1]["source"] == [*LOOP[:3], *BACKWARD, *LOOP[4:]]


def test_escapes_of_lines_that_stay_are_kept() -> None:
    text = put(notebook(code("".join([*IMPORTS[1:], "\n", "mark = 'X/Y'\n", MODEL, *LOOP]))))
    Path("train.ipynb").write_text(text.replace("X/Y", "\\u00e9\\/\\u0041\\\\n").replace("\n", "\r\n"), newline="")
    ampify("--write", "train.ipynb")
    raw = Path("train.ipynb").read_bytes()
    assert b"mark = '\\u00e9\\/\\u0041\\\\n'\\n" in raw
    assert raw.count(b"\r\n") == raw.count(b"\n")
    assert "amp.scale_loss" in json.loads(raw)["cells"][0]["source"]


def test_a_byte_order_mark_is_kept() -> None:
    text = put(notebook(code(IMPORTS), code(MODEL), code(LOOP)))
    Path("train.ipynb").write_bytes(b"\xef\xbb\xbf" + text.encode())
    ampify("--write", "train.ipynb")
    raw = Path("train.ipynb").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf{")
    assert b"amp.scale_loss" in raw


MAGICS = [
    "%matplotlib inline",
    "%load_ext autoreload\n%autoreload 2",
    "!pip install torch",
    "!pip install torch \\\n    numpy \\\nscipy",
    "if True:\n    !ls {folder}\n    %cd ..",
    "?print",
    "print?",
    "torch.nn??",
    "files = !ls *.py",
    "out = %timeit -o print(1)",
    "%time print('a')  # quickly",
    "pip install torch",
    "%%time\nprint(1)",
    "%%capture out\nprint(1)",
]


@pytest.mark.parametrize("magic", MAGICS)
def test_magics_are_masked_and_kept(magic: str) -> None:
    document = notebook(code(magic), code("import torch"), code([f"{magic}\n", "x = 1"]), code(magic + "\r\n"))
    text = json.dumps(document)
    read, program = read_notebook(text)
    compile(program, "program", "exec")
    assert read.sources(program) == (magic, "import torch", f"{magic}\nx = 1", f"{magic}\r\n")
    assert read.document(text, program, program) == text


@pytest.mark.parametrize(
    "python",
    [
        "x = ('%d'\n     % 3)",
        "x = 3 \\\n% 2",
        "'''\n%time\n!ls\n'''",
        "x = [\n!r\n]",
        '"""a"""\nx %= 2',
        "x = 'a' # it's\n!ls",
        "x = 'it\\'s' \"#\"\n!ls",
        "f(\n  a)[\n  1]\n!ls",
        "assert x != 3",
        "x = a if b else c",
    ],
)
def test_what_only_looks_like_a_magic_is_left(python: str) -> None:
    """The only line that is masked is `!ls` at the end, where there is one."""
    read, program = read_notebook(json.dumps(notebook(code(python))))
    masked = python.replace("\n!ls", "\npass  # notebook magic 0") if python.endswith("\n!ls") else python
    assert program == masked
    assert read.sources(program) == (python,)


def test_a_word_that_the_notebook_uses_itself_is_not_taken_for_a_mark() -> None:
    own = "pass  # notebook cell 2\npass  # notebook magic 0"
    text = json.dumps(notebook(code(own), code("%magic"), code(own)))
    read, program = read_notebook(text)
    assert read.sources(program) == (own, "%magic", own)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%prun loss.backward()", "trains in a magic (cell 4, line 1)"),
        ("x = 1\n!python -c 'a.backward()'", "trains in a magic (cell 4, line 2)"),
        ("%%profile\nloss.backward()", "trains in a magic (cell 4, line 1)"),
        ("x = = 1", "does not parse"),
        ("print 'a'", "is Python 2: a print statement"),
    ],
)
def test_a_notebook_that_cannot_be_followed_is_left_with_the_reason(cell: str, says: str) -> None:
    old = put(notebook(code(IMPORTS), code(MODEL), code(LOOP), code(cell)))
    result = ampify("--write", "train.ipynb")
    assert result.exit_code == 1
    assert says in result.stderr
    assert "AMP901" not in result.stderr
    assert Path("train.ipynb").read_text() == old


def test_a_place_that_cannot_be_read_is_named_by_cell_and_line() -> None:
    put(notebook(code(IMPORTS), code(MODEL), code(LOOP), {"cell_type": "raw", "source": ""}, code("a = 1\nx = = 1")))
    assert "train.ipynb:cell 5:2:1: AMP003" in ampify("train.ipynb").stderr


@pytest.mark.parametrize(
    "cell", ["%%bash\nloss.backward()", "%%writefile train.py\nloss.backward()", "%%html\n<b>&</b>"]
)
def test_cells_in_other_languages_are_skipped(cell: str) -> None:
    put(notebook(code(cell), code(IMPORTS), code(MODEL), code(LOOP)))
    ampify("--write", "train.ipynb")
    new = json.loads(Path("train.ipynb").read_text())["cells"]
    assert new[0]["source"] == cell
    assert "amp.scale_loss" in "".join(new[3]["source"])


def test_a_magic_of_a_whole_cell_stays_its_first_line() -> None:
    put(notebook(code("%%time\n" + "".join([*IMPORTS[1:], "\n", MODEL, *LOOP]))))
    ampify("--write", "train.ipynb")
    source = json.loads(Path("train.ipynb").read_text())["cells"][0]["source"]
    assert source.startswith("%%time\nimport torch\n")
    assert "amp.scale_loss" in source


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        ("{", "AMP006", "is not JSON"),
        ('{"cells": [],}', "AMP006", "is not JSON"),
        ("[]", "AMP006", "no list of cells"),
        ('{"cells": {}}', "AMP006", "no list of cells"),
        ('{"cells": [3]}', "AMP006", "no list of cells"),
        ('{"cells": [{"cell_type": "code"}]}', "AMP006", "no source in cell 1"),
        ('{"cells": [{"cell_type": "code", "source": [1]}]}', "AMP006", "no source in cell 1"),
        ('{"worksheets": [], "nbformat": 3}', "AMP006", "format 3"),
        ('{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "AMP006", "a notebook of R"),
        ('{"cells": [], "metadata": {"language_info": {"name": "julia"}}}', "AMP006", "a notebook of julia"),
        ("[" * 100_000, "AMP006", "nested too deeply"),
    ],
)
def test_what_is_no_notebook_of_python_is_refused_with_a_reason(content: str, code: str, says: str) -> None:
    with pytest.raises(UnreadableSource) as caught:
        decode_source(content.encode(), "a.ipynb")
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.hint


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    with pytest.raises(UnreadableSource) as caught:
        decode_source(b'{"cells":\n["\xff"]}', "a.IPYNB")
    assert (caught.value.code, caught.value.line) == ("AMP002", 2)


def test_an_empty_notebook_and_one_without_python_are_read() -> None:
    for document in (notebook(), notebook({"cell_type": "markdown", "source": []}), notebook(code("%%html\n"))):
        assert decode_source(json.dumps(document).encode(), "a.ipynb").text == ""


def test_a_notebook_uses_the_code_of_a_file_beside_it() -> None:
    Path("steps.py").write_text("def advance(loss, optimizer):\n    loss.backward()\n    optimizer.step()\n")
    loop = ["from steps import advance\n", *LOOP[:3], "    advance(loss, optimizer)"]
    put(notebook(code(IMPORTS), code(MODEL), code(loop)))
    result = ampify("--write", ".")
    assert "1 training loop migrated" in result.stderr
    assert "amp.scale_loss" in Path("steps.py").read_text()
    assert "amp.initialize" in Path("train.ipynb").read_text()


def test_every_format_names_the_cell(folder: Path) -> None:
    put(notebook(code(IMPORTS), code(MODEL), code([*LOOP[:4], "    optimizer.step(lambda: loss)"])))
    assert "train.ipynb:cell 3:5:5: AMP204" in ampify("train.ipynb").stderr
    document = json.loads(ampify("--format", "json", "train.ipynb").stdout)
    (finding,) = [f for f in document["findings"] if f["code"] == "AMP204"]
    assert (finding["path"], finding["cell"], finding["line"], finding["end_line"]) == ("train.ipynb", 3, 5, 5)
    assert {site["cell"] for site in document["sites"]} == {3}
    assert document["loops"][0]["cell"] == 3
    github = ampify("--format", "github", "train.ipynb").stdout
    assert "::error file=train.ipynb,title=AMP204 closure-step::cell 3, line 5: " in github
    sarif = json.loads(ampify("--format", "sarif", "train.ipynb").stdout)
    places = [result["locations"][0]["physicalLocation"] for result in sarif["runs"][0]["results"]]
    assert all("region" not in place for place in places)
    assert "`train.ipynb:cell 3:5`" in ampify("--format", "markdown", "train.ipynb").stdout


def test_the_diff_is_one_of_cells() -> None:
    put(notebook(code(IMPORTS), code(MODEL), code(LOOP)))
    diff = ampify("train.ipynb").stdout
    assert [line for line in diff.splitlines() if line.startswith("+++")] == [
        f"+++ b/train.ipynb:cell {number}" for number in (1, 2, 3)
    ]
    assert [line for line in diff.splitlines() if line[0] == "-" and line[:3] != "---"] == ["-    loss.backward()"]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=20)
COMMENTS = st.lists(TEXT.map(lambda text: "# " + "".join(text.split())), max_size=4)
INERT = st.one_of(
    COMMENTS, st.sampled_from([magic.split("\n") for magic in MAGICS if not magic.startswith(("%%", "if"))])
)
# Before a call, the new import goes to the top of all, as it does in a script.
CALLING_NOTHING = INERT.filter(lambda lines: not "".join(lines).startswith("%time "))


def as_source(lines: list[str], form: str) -> object:
    joined = "\n".join(lines)
    return joined if form == "one string" else joined.splitlines(keepends=True) if form == "jupyter" else [joined]


@settings(max_examples=25, deadline=None)
@given(
    before=st.lists(CALLING_NOTHING, max_size=3),
    after=st.lists(INERT, max_size=3),
    form=st.sampled_from(["one string", "jupyter", "one item"]),
    indent=st.sampled_from([None, 1, 2, "\t"]),
    ascii_only=st.booleans(),
    output=TEXT,
)
def test_whatever_the_other_cells_hold_not_a_byte_of_them_changes(
    before: list[list[str]], after: list[list[str]], form: str, indent: Any, ascii_only: bool, output: str
) -> None:
    training = [*"".join(IMPORTS[1:]).split("\n"), *MODEL.strip().split("\n"), *"".join(LOOP).split("\n")]
    cells = [code(as_source(lines, form), outputs=[{"text": output}]) for lines in (*before, training, *after)]
    text = json.dumps(notebook(*cells), indent=indent, ensure_ascii=ascii_only)
    Path("any.ipynb").write_bytes(text.encode())
    result = ampify("--write", "--no-cache", "-j1", "any.ipynb")
    assert result.exit_code == 0, result.stderr
    new = json.loads(Path("any.ipynb").read_bytes())
    old = json.loads(text)
    changed = [number for number, (a, b) in enumerate(zip(old["cells"], new["cells"], strict=True)) if a != b]
    assert changed == [len(before)]
    # The document around the source of that cell, byte for byte: the new one with the old source put back.
    source = json.dumps(old["cells"][len(before)]["source"], ensure_ascii=ascii_only)
    new["cells"][len(before)]["source"] = old["cells"][len(before)]["source"]
    assert json.dumps(new, indent=indent, ensure_ascii=ascii_only) == text
    assert "amp.scale_loss" not in source


def test_a_notebook_read_again_is_the_notebook_that_was_written() -> None:
    text = put(notebook(code(IMPORTS), code(MODEL), code(LOOP)))
    source = decode_source(text.encode(), "train.ipynb")
    longer = source.text.replace("loss.backward()", "loss.backward()\n    # é\n    print(loss)")
    again = decode_source(source.encode(longer), "train.ipynb")
    assert isinstance(again, SourceFile)
    assert again.text == longer
    assert again.encode(source.text) == source.raw


@pytest.mark.parametrize(
    "spoil", [lambda p: p.replace("pass  # notebook cell 3", ""), lambda p: p + "\npass  # notebook magic 0"]
)
def test_a_program_that_is_not_in_its_cells_any_more_is_not_written(spoil: Any) -> None:
    text = put(notebook(code(IMPORTS), code(MODEL), code(LOOP)))
    source = decode_source(text.encode(), "train.ipynb")
    with pytest.raises(ValueError, match=r"cells in place of|lost or doubled"):
        source.encode(spoil(source.text))
