"""What the gate lets through and what it stops. Most results here are wrong on purpose, so they are written by hand."""

from __future__ import annotations

import sys

import pytest

from ampify.gate import check
from ampify.model.edit import AddImport, Edit, EditLines
from ampify.source import decode_source
from tests.rewrite.script import Script, add_import


def gate(before: str, after: str, *edits: Edit) -> str | None:
    return check(Script(before).source(), after, edits)


TRAIN = """\
import torch
def train(model, loss, optimizer):
    # one step
    loss.backward()  # why
    optimizer.step()
"""
MIGRATED = """\
import torch
from ampify_runtime import amp
def train(model, loss, optimizer):
    # one step
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()  # why
    optimizer.step()
"""


def edits_of_train() -> list[Edit]:
    script = Script(TRAIN)
    return [script.wrap("loss.backward()"), script.replace("loss", "scaled_loss"), add_import()]


def test_a_right_migration_passes() -> None:
    assert gate(TRAIN, MIGRATED, *edits_of_train()) is None
    assert gate(TRAIN, TRAIN) is None


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("scaled_loss.backward()", "scaled_loss.backward(", "does not parse: line"),
        ("amp.scale_loss", "apm.scale_loss", "the name 'apm' would be unbound in `train`"),
        ("from ampify_runtime import amp\n", "", "the name 'amp' would be unbound in `train`"),
        ("from ampify_runtime import amp\n", "from ampify_runtime import amp\n" * 2, "added more than once"),
        ("import torch\n", "import  torch\n", "line"),
        ("# one step", "# a step", "outside the edits"),
        ("    optimizer.step()\n", "    optimizer.step() \n", "lines 5 to 5 are outside the edits"),
        ("    optimizer.step()\n", "    optimizer.step()\n\n", "outside the edits"),
        ("    optimizer.step()\n", "    optimizer.step()", "outside the edits"),
        ("    optimizer.step()\n", "    optimizer.step()\r\n", "outside the edits"),
        ("  # why", "", "'# why' on line 4 is outside the edits, but was lost or changed"),
        ("  # why", "  # how", "'# why' on line 4"),
        ("scaled_loss.backward()", "scaled_loss.forward()", "'backward' on line 4"),
        ("import torch\n", "import torch\nx = 1\n", "outside the edits"),
        ("import torch\n", "x = 1\nimport torch\n", "outside the edits"),
        ("def train(", "import os\ndef train(", "outside the edits"),
    ],
)
def test_a_wrong_result_is_stopped(right: str, wrong: str, says: str) -> None:
    assert right in MIGRATED
    found = gate(TRAIN, MIGRATED.replace(right, wrong), *edits_of_train())
    assert found is not None
    assert says in found


@pytest.mark.parametrize("lost", ["a\n", "b\n", "c\n", "d\n"])
def test_every_line_without_an_edit_must_be_there(lost: str) -> None:
    before = "a\nb\nx\nc\nd\n"
    edit = Script(before).after("x", "n")
    assert gate(before, "a\nb\nx\nn\nc\nd\n", edit) is not None  # unbound: n
    assert "outside the edits" in str(gate(before, "a\nb\nx\nn\nc\nd\n".replace(lost, ""), edit))
    assert "outside the edits" in str(gate(before, "b\na\nx\nn\nc\nd\n", edit))


def test_a_line_moved_past_an_edit_is_noticed() -> None:
    before = "a\nx\nb\n"
    assert "outside" in str(gate(before, "x\na\nb\n", Script(before).delete("x")))


def test_new_lines_may_stand_among_the_comments_next_to_an_edit() -> None:
    before = "f = 1\n# c\n# d\nx = 2\n# e\n\n# g\nh = 3\n"
    script = Script(before)
    assert gate(before, before.replace("# c", "n = 1\n# c"), script.before("x = 2", "n = 1")) is None
    assert gate(before, before.replace("h = 3", "n = 1\nh = 3"), script.after("x = 2", "n = 1")) is None
    assert gate(before, before.replace("f = 1", "n = 1\nf = 1"), script.before("x = 2", "n = 1")) is not None
    assert gate(before, before + "n = 1\n", script.after("x = 2", "n = 1")) is not None


def test_a_whole_logical_line_is_within_reach_of_an_edit_in_it() -> None:
    before = "if 1: \\\n    x = [\n      1]; y = 2\nz = 3\n"
    after = "if 1:\n    x = [\n      1]\n    with open('f') as g:\n        y = 2\nz = 3\n"
    edit = Script(before).wrap("y = 2", "with open('f') as g:")
    assert gate(before, after, edit) is None
    assert gate(before, after.replace("z = 3", "z  = 3"), edit) is not None


def test_decorators_are_within_reach_of_an_edit_of_their_function() -> None:
    before = "import d\n@d\n@d.e(\n  1)\ndef f(): pass\nx = 1\n"
    assert gate(before, "import d\nx = 1\n", Script(before).delete("def f")) is None
    edit = Script(before).before("def f", "n = 1")
    assert gate(before, before.replace("@d\n", "n = 1\n@d\n"), edit) is None


def test_a_last_line_may_get_the_line_end_it_lacks() -> None:
    before = "x = 1\ny = 2"
    assert gate(before, "x = 1\ny = 2\nz = 3", Script(before).after("y = 2", "z = 3")) is None
    assert gate("import os", "import os\nfrom ampify_runtime import amp", add_import()) is None


def test_parentheses_and_comments_go_with_what_they_were_for() -> None:
    before = "a = b = 1\nx = ( a + b ).real\ny = 2  # about y\nz = 3\n"
    script = Script(before)
    after = "a = b = 1\nx = a.real\nz = 3\n"
    assert gate(before, after, script.replace("a + b", "a"), script.delete("y = 2")) is None
    comment_lost = "a = b = 1\nx = a.real\ny = 2\nz = 3\n"
    assert "lines 3 to 4 are outside" in str(gate(before, comment_lost, script.replace("a + b", "a")))
    more_lost = "a = b = 1\nx = a\ny = 2  # about y\nz = 3\n"
    assert "'.' on line 2 is outside" in str(gate(before, more_lost, script.replace("a + b", "a")))


def test_results_the_file_cannot_hold_are_stopped() -> None:
    source = decode_source(b"# coding: latin-1\nx = 1\n", "train.py")
    edit = Script(source.text).replace("1", "'€'")
    assert check(source, source.text.replace("1\n", "'€'\n"), [edit]) == ("the file's encoding, iso-8859-1, has no '€'")


def test_an_original_that_does_not_parse_is_stopped() -> None:
    assert "the original does not parse: line 1" in str(gate("x = (\n", "x = 1\n"))


def test_code_too_deep_is_stopped_in_words() -> None:
    deep = "x = " + "not " * 20_000 + "y\n"
    assert "does not parse" in str(gate("x = 1\n", deep))
    chain = "y = 1\nx = " + " + ".join(["y"] * 900) + "\n"
    found = gate(chain, "z = 1\n" + chain, Script(chain).before("y = 1", "z = 1"))
    assert found == "its code nests too deeply to be checked"


def test_what_only_the_compiler_refuses_is_stopped() -> None:
    before = "def f():\n    x = 1\n    return x\n"
    after = before.replace("    return", "    global x\n    return")
    found = gate(before, after, Script(before).after("x = 1", "global x"))
    assert "the result does not compile: line 3" in str(found)
    # The compiler had something against the original as well: that is not the edit's doing.
    before = "return 1\nx = 1\n"
    assert gate(before, before + "y = 2\n", Script(before).after("x = 1", "y = 2")) is None


def test_nul_bytes_are_stopped() -> None:
    assert "the result does not parse" in str(gate("x = 1\n", "x = 1\0\n"))


INSERTIONS = [
    # before (the edit goes after the line that reads `mark`), new code, what is said
    ("x = 1\nmark = x\n", "y = x", None),
    ("mark = 1\n", "y = unknown", "the name 'unknown' would be unbound in the module"),
    ("mark = 1\n", "print(len(__file__), __name__)", None),
    ("from x import *\nunknown\nmark = 1\n", "y = unknown", None),
    ("from x import *\nmark = 1\n", "y = unknown", "unbound"),
    ("unknown\nmark = 1\n", "y = unknown", None),
    ("def f():\n    mark = 1\nunknown\n", "y = unknown", "the name 'unknown' would be unbound in `f`"),
    # A name that becomes local to a function is unbound where it is read first.
    ("m = 1\ndef f():\n    mark = m\n", "m = wrap(m)".replace("wrap", "print"), "'m' has another meaning in `f` already"),
    ("m = 1\ndef f():\n    mark = m\n", "m = 2", "'m' has another meaning in `f` already"),
    ("m = 1\ndef f():\n    global m\n    mark = m\n", "m = print(m)", None),
    ("def f(m):\n    mark = m\n", "m = print(m)", None),
    ("def f(m):\n    mark = m\n", "m, n = print(m), m", None),
    ("def f(m, o):\n    mark = m\n", "m, o = print(m, o)", None),
    ("def f(m):\n    mark = m\n", "m += 1", None),
    ("def f(m):\n    mark = m\n", "m = 3", "'m' has another meaning in `f` already"),
    ("def f(m):\n    mark = m\n", "m: int = print(m)", None),
    ("def f(m):\n    mark = m\n", "(m := 3)", "another meaning"),
    ("def f(m):\n    mark = m\n", "for m in []: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "with open(m) as m: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "import m", "another meaning"),
    ("def f(m):\n    mark = m\n", "def m(): pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "class m: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "try: pass\nexcept OSError as m: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "match m:\n    case [*m]: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "match m:\n    case {**m}: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "match m:\n    case int() as m: pass", "another meaning"),
    ("def f(m):\n    mark = m\n", "[(m := n) for n in m]", "another meaning"),
    ("def f(m):\n    mark = m\n", "x = [m for m in m]\ny = lambda m: m\nz = {m: n for m in m if m for n in m}", None),
    ("def f(m):\n    mark = m\n", "m.x = m[0] = 1", None),
    ("def f(m):\n    mark = m\n", "del m", "another meaning"),
    ("def f(m):\n    mark = m\n", "*m, n = 1, 2", "another meaning"),
    ("def f(m):\n    mark = m\n", "match m:\n    case [*_] | {}: pass\n    case _: pass", None),
    # The same meaning again is no other meaning.
    ("def f(m):\n    with open(m) as s: mark = s\n", "with open(m) as s: s", None),
    ("import a.b\nfrom c import d as e\nmark = 1\n", "import a.b\nfrom c import d as e", None),
    ("from c import d\nmark = 1\n", "from .c import d", "another meaning"),
    # What is read from further out is not to be taken over, wherever inside it is read.
    ("m = 1\ndef f():\n    mark = 1\n    def g(): return m\n", "m = 2", "another meaning"),
    ("m = 1\ndef f():\n    mark = 1\n    return lambda: [m for _ in m]\n", "m = 2", "another meaning"),
    ("m = 1\ndef f():\n    mark = 1\n    def g(m): return m\n", "m = 2", None),
    ("m = 1\nclass A:\n    mark = 1\n    def g(self): return m\n", "m = 2", None),
    ("m = 1\nclass A:\n    mark = m\n", "m = 2", "another meaning"),
    ("def f():\n    mark = 1\n    print(mark)\n", "print = 2", "another meaning"),
    ("def f():\n    m = 1\n    def g():\n        nonlocal m\n        mark = m\n", "m = print(m)", None),
    ("def f():\n    m = 1\n    def g():\n        nonlocal m\n        mark = m\n", "m = 3", "another meaning"),
    # Class scopes are not seen from inside.
    ("class A:\n    m = 1\n    def f(self):\n        mark = 1\n", "x = m", "the name 'm' would be unbound in `A.f`"),
    ("class A:\n    m = 1\n    mark = m\n", "x = m", None),
    ("@print\nclass A(object, metaclass=type):\n    @print\n    def f(a, /, b: int = 1, *c, d=2, **e) -> int:\n        mark = a\n", "x = a, b, c, d, e", None),
    ("async def f(a):\n    async with a as b: pass\n    async for c in b: pass\n    mark = c\n", "x = a, b, c", None),
    ("def f(): pass\ndef f():\n    mark = 1\n", "x = mark", None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "new", "says"), INSERTIONS)
def test_names_keep_their_meaning(before: str, new: str, says: str | None) -> None:
    script = Script(before)
    marks = [line.split(": ")[-1].strip() for line in before.splitlines() if "mark =" in line]
    edit = script.after(marks[0], new)
    from ampify.rewrite import rewrite

    found = gate(before, rewrite(script.source(), [edit]), edit)
    assert found is None if says is None else says in str(found)


def test_a_value_may_get_more_elements_though_its_name_is_deleted_later() -> None:
    before = "def f(a):\n    s = {'a': a}\n    print(s)\n    del s\n"
    edit = Script(before).replace("{'a': a}", "{'a': a, 'b': a}")
    assert gate(before, before.replace("{'a': a}", "{'a': a, 'b': a}"), edit) is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="newer syntax")
def test_type_parameters_are_names_too() -> None:
    before = "def f[T](a: T):\n    x = 1\nclass A[U]:\n    y = U\n"
    edit = Script(before).after("x = 1", "z = T")
    assert gate(before, before.replace("x = 1", "x = 1\n    z = T"), edit) is None


def misread(before: str, after: str, *edits: Edit) -> str | None:
    return gate(before, after, add_import(), *edits)


def test_one_of_two_equal_values_of_a_name_may_be_replaced() -> None:
    before = "from a import f, g\nx = 1\nloss = f(x)\nloss = f(x)\n"
    edit = Script(before).replace("f(x)", "g(x)")
    assert gate(before, before.replace("f(x)", "g(x)", 1), edit) is None


def test_a_value_may_be_replaced_where_an_update_of_its_name_goes() -> None:
    before = "from a import f, g, h\nm = f(1)\nm = h(m)\nif m:\n    m = h(m)\n"
    gone, replaced = Script(before).delete("m = h(m)"), Script(before).replace("f(1)", "g(1)")
    after = "from a import f, g, h\nm = g(1)\nif m:\n    m = h(m)\n"
    assert gate(before, after, gone, replaced) is None
    # A binding that is new is none that goes with the update.
    anew = Script(before).after("m = f(1)", "m = g(1)")
    after = "from a import f, g, h\nm = f(1)\nm = g(1)\nif m:\n    m = h(m)\n"
    assert gate(before, after, gone, anew) == "the name 'm' has another meaning in the module already"


def test_an_imported_name_must_mean_the_import_where_it_is_used() -> None:
    before = "def f(amp):\n    x = 1\n"
    after = "from ampify_runtime import amp\ndef f(amp):\n    x = 1\n    y = amp.z\n"
    edit = Script(before).after("x = 1", "y = amp.z")
    assert misread(before, after, edit) == "the imported name 'amp' means something else in `f`"
    local = before.replace("(amp)", "()").replace("x = 1", "from ampify_runtime import amp; x = 1")
    edit = Script(local).after("x = 1", "y = amp.z")
    after = "from ampify_runtime import amp\ndef f():\n    from ampify_runtime import amp; x = 1\n    y = amp.z\n"
    assert misread(local, after, edit) is None


def test_an_imported_name_must_not_be_taken() -> None:
    found = misread("amp = 1\nx = amp\n", "from ampify_runtime import amp\namp = 1\nx = amp\n")
    assert found == "the name 'amp' has another meaning in the module already"
    before = "from apex import amp\nx = amp\n"
    after = "from ampify_runtime import amp\nx = amp\n"
    assert misread(before, after, Script(before).delete("from apex import amp")) is None


def test_names_of_several_imports_are_told_apart() -> None:
    before = "import torch\nx = 1\n"
    edits = [AddImport("train.py", "m", "a", "b"), Script(before).after("x = 1", "y = b")]
    assert gate(before, "import torch\nfrom m import a as b\nx = 1\ny = b\n", *edits) is None


def test_edits_by_lines_reach_nothing_in_python() -> None:
    assert "outside the edits" in str(gate("x = 1\n", "x = 2\n", EditLines("train.py", 1, 1, "x = 2\n")))
