"""Expressions that are replaced, and displays that get another element."""

from __future__ import annotations

import ast

import pytest

from ampify.model.anchor import Anchor
from ampify.model.edit import AddElement, Replace
from ampify.rewrite import RewriteFailed, rewrite
from tests.rewrite.script import HEADER, Script


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("loss.backward()\n", "loss", "scaled", "scaled.backward()\n"),
        ("é = f(loss, é).é  # loss\n", "f(loss, é)", "x", "é = x.é  # loss\n"),
        ("(loss).backward()\n", "loss", "x", "(x).backward()\n"),
        ("(a + b).backward()\n", "a + b", "x", "x.backward()\n"),
        ("( a + b ).backward()\n", "a + b", "x[0]", "x[0].backward()\n"),
        ("(l := f(x)).backward()\n", "l := f(x)", "x", "x.backward()\n"),
        ("(l\n  + m).backward()\n", "l\n  + m", "x", "x.backward()\n"),
        ("( # why\n  a + b).backward()\n", "a + b", "x", "( # why\n  x).backward()\n"),
        ("((a + b)).backward()\n", "a + b", "x", "((x)).backward()\n"),
        ("(a + b).backward()\n", "a + b", "c + d", "(c + d).backward()\n"),
        ("loss.backward()\n", "loss", "a + b", "(a + b).backward()\n"),
        ("loss.backward()\n", "loss", "(a + b)", "(a + b).backward()\n"),
        ("loss.backward()\n", "loss", "l := a", "(l := a).backward()\n"),
        ("x = loss\n", "loss", "a + b", "x = a + b\n"),
        ("x = loss\n", "loss", "a, b", "x = (a, b)\n"),
        ("f(loss)\n", "loss", "l := a", "f((l := a))\n"),
        ("f(loss, k=loss)\n", "loss", "lambda: a", "f(lambda: a, k=loss)\n"),
        ("f(*loss)\n", "loss", "a or b", "f(*(a or b))\n"),
        ("x * loss\n", "loss", "a + b", "x * (a + b)\n"),
        ("x = loss if y else z\n", "loss", "a if b else c", "x = (a if b else c) if y else z\n"),
        ("-loss\n", "loss", "a ** b", "-(a ** b)\n"),
        ("not loss\n", "loss", "a", "not a\n"),
        ("not(a or b)\n", "a or b", "x", "not x\n"),
        ("return_ = 1if a else(b or c)\n", "b or c", "d", "return_ = 1if a else d\n"),
        ("x = 1if a else b\n", "1", "c", "x = c if a else b\n"),
        ("x = a if(b)else c\n", "b", "d", "x = a if(d)else c\n"),
        ('x = a if"b"else c\n', '"b"', "d", "x = a if d else c\n"),
        ("loss.real\n", "loss", "1", "(1).real\n"),
        ("loss[0]\n", "loss", "1.5", "1.5[0]\n"),
        ("x = {a: loss, 'b': [loss]}\n", "loss", "c or d", "x = {a: c or d, 'b': [loss]}\n"),
        ("x[loss]\n", "loss", "a + b", "x[a + b]\n"),
        ("x: loss = a\n", "loss", "b", "x: b = a\n"),
        ("@loss\ndef f(a=b, *, c: d = e): pass\n", "loss", "x", "@x\ndef f(a=b, *, c: d = e): pass\n"),
        ("@loss\ndef f(a=b, *, c: d = e): pass\n", "e", "x + y", "@loss\ndef f(a=b, *, c: d = x + y): pass\n"),
        ("class A(b, metaclass=c): d\n", "c", "x", "class A(b, metaclass=x): d\n"),
        ("with a as b, c(): pass\n", "c()", "x", "with a as b, x: pass\n"),
        ("for a in b: pass\n", "b", "x, y", "for a in (x, y): pass\n"),
        ("try: pass\nexcept a: pass\n", "a", "x", "try: pass\nexcept x: pass\n"),
        ("while a: pass\n", "a", "x or y", "while x or y: pass\n"),
        ("if a: pass\nelif b: pass\n", "b", "x", "if a: pass\nelif x: pass\n"),
        ("assert a, b\n", "b", "x", "assert a, x\n"),
        ("x = (a, b)\n", "(a, b)", "c", "x = c\n"),
        ("for x in(a, b): pass\n", "(a, b)", "c", "for x in c: pass\n"),
        ("x = (a, b)\n", "(a, b)", "c, d", "x = (c, d)\n"),
        ("x = ((a, b))\n", "(a, b)", "c", "x = (c)\n"),
        ("x = ((a, b)) * 2\n", "(a, b)", "c + d", "x = (c + d) * 2\n"),
        ("x = a, b\n", "a, b", "c", "x = c\n"),
        ("f(a for a in b)\n", "(a for a in b)", "c", "f(c)\n"),
        ("f(  # (\n  a for a in b\n)\n", "(  # (\n  a for a in b\n)", "c", "f(c)\n"),
        ("f((a for a in b))\n", "(a for a in b)", "c", "f(c)\n"),
        ("x = 'a' 'b'\n", "'a' 'b'", "c", "x = c\n"),
        ("x = y\r\n", "y", "f(\n    a)", "x = f(\r\n    a)\r\n"),
        ("x = [a for b in c if d]\n", "d", "e and f", "x = [a for b in c if (e and f)]\n"),
        ("x = await_ = y\n", "y", "not z", "x = await_ = not z\n"),
        ("x += y\n", "y", "a < b", "x += a < b\n"),
        ("x = y\n", "y", "a +\n  b", "x = (a +\n  b)\n"),
        ("(a + b).c\n", "a + b", "(x)", "((x)).c\n"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid decimal literal")
def test_an_expression_becomes_another_and_stays_one(before: str, old: str, new: str, after: str) -> None:
    script = Script(before)
    assert script.edited(script.replace(old, new)) == after


@pytest.mark.parametrize("context", ["{}.a", "{}(a)", "{}[a]", "a ** {}", "-{}", "a if {} else b", "[*{}]", "{} and a", "f({})", "f(a={})", "lambda: {}", "a < {}", "{{{}: a}}", "x[{}:]", "(y := {})", "[a for a in {}]"])  # fmt: skip
@pytest.mark.parametrize("new", ["n", "a + n", "n,", "a, n", "(a, n)", "not n", "lambda: n", "n if a else b", "y := n", "'a' 'b'", "n.a(b)[c]", "-1", "2", "[n]", "(yield)", "n ** a", "n or a"])  # fmt: skip
def test_new_code_means_in_its_place_what_it_means_alone(context: str, new: str) -> None:
    if ":=" in new and " in {}" in context:
        pytest.skip("Python allows no assignment there")
    before = "def f():\n    " + context.format("old") + "\n"
    script = Script(before)
    after = script.edited(script.replace("old", new))
    expected = "def f():\n    " + context.format(f"({new})" if not new.startswith("(") else new) + "\n"
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(expected))


@pytest.mark.parametrize("new", ["", " ", "a +", "a\nb", "x = 1", "a # c", " a", "a ", "*a", "pass", "a)"])
def test_what_is_no_single_expression_is_refused(new: str) -> None:
    script = Script("f(x)\n")
    with pytest.raises(RewriteFailed, match="new code"):
        script.edited(script.replace("x", new))


def test_kinds_that_cannot_be_replaced_are_refused() -> None:
    script = Script("f(*x)\n")
    with pytest.raises(RewriteFailed, match="Starred is not a kind of expression"):
        script.edited(script.replace("*x", "y"))


def test_inside_f_strings_only_code_without_quotes_is_put() -> None:
    script = Script("x = f'{loss:.2f}'\n")
    assert script.edited(script.replace("loss", "scaled.item()")) == "x = f'{scaled.item():.2f}'\n"
    with pytest.raises(RewriteFailed, match="cannot stand in an f-string"):
        script.edited(script.replace("loss", "d['loss']"))


@pytest.mark.parametrize(
    ("before", "display", "new", "after"),
    [
        ("x = {'a': 1}\n", "{'a': 1}", "'b': 2", "x = {'a': 1, 'b': 2}\n"),
        ("x = {'a': 1,}\n", "{'a': 1,}", "'b': 2", "x = {'a': 1, 'b': 2,}\n"),
        ("x = { 'a': 1 }\n", "{ 'a': 1 }", "'b': 2", "x = { 'a': 1, 'b': 2 }\n"),
        ("x = {}\n", "{}", "'b': 2", "x = {'b': 2}\n"),
        ("x = {**a}\n", "{**a}", "'b': 2", "x = {**a, 'b': 2}\n"),
        ("x = [a, (b)]\n", "[a, (b)]", "c", "x = [a, (b), c]\n"),
        ("x = []\n", "[]", "c", "x = [c]\n"),
        ("x = {a}\n", "{a}", "c", "x = {a, c}\n"),
        ("x = ()\n", "()", "c", "x = (c,)\n"),
        ("x = (a,)\n", "(a,)", "c", "x = (a, c)\n"),
        ("x = (a, b)\n", "(a, b)", "c", "x = (a, b, c)\n"),
        ("x = a, b\n", "a, b", "c", "x = a, b, c\n"),
        ("f()\n", "f()", "a=1", "f(a=1)\n"),
        ("f(  # c\n)\n", "f(  # c\n)", "a=1", "f(a=1  # c\n)\n"),
        ("f(a)(b)\n", "f(a)(b)", "*c", "f(a)(b, *c)\n"),
        ("f(a, **k)\n", "f(a, **k)", "b=1", "f(a, **k, b=1)\n"),
        ("f(a for a in b)\n", "f(a for a in b)", "c", "f((a for a in b), c)\n"),
        ("f((a for a in b))\n", "f((a for a in b))", "c", "f((a for a in b), c)\n"),
        ("x = {\n    'a': 1,  # one\n    'b': 2,  # two\n}\n", "{", "'c': 3", "x = {\n    'a': 1,  # one\n    'b': 2,  # two\n    'c': 3,\n}\n"),
        ("x = {\n    'a': 1,  # one\n    'b': 2  # two\n}\n", "{", "'c': 3", "x = {\n    'a': 1,  # one\n    'b': 2,  # two\n    'c': 3\n}\n"),
        ("x = {\n\t'a': 1,\n\t# 'b': 2,\n}\n", "{", "'c': 3", "x = {\n\t'a': 1,\n\t'c': 3,\n\t# 'b': 2,\n}\n"),
        ("x = {\r\n  'a': 1\r\n}\r\n", "{", "'c': 3", "x = {\r\n  'a': 1,\r\n  'c': 3\r\n}\r\n"),
        ("f({'a': 1,\n   'b': 2}, p)\n", "{", "'c': 3", "f({'a': 1,\n   'b': 2,\n   'c': 3}, p)\n"),
        ("f({\n    'a': 1}, p)\n", "{", "'c': 3", "f({\n    'a': 1,\n    'c': 3}, p)\n"),
        ("f({\n    'a': 1,}, p)\n", "{", "'c': 3", "f({\n    'a': 1,\n    'c': 3,}, p)\n"),
        ("f(a,\n  b)\n", "f(", "c", "f(a,\n  b,\n  c)\n"),
        ("x = [\n  1, 2,\n  3, 4,\n]\n", "[", "5", "x = [\n  1, 2,\n  3, 4, 5,\n]\n"),
        ("x = [\n  f(a,\n    b),\n]\n", "[", "c", "x = [\n  f(a,\n    b),\n  c,\n]\n"),
        ("x = {'a': 1\n    ,'b': 2\n    }\n", "{", "'c': 3", "x = {'a': 1\n    ,'b': 2, 'c': 3\n    }\n"),
        ("x = [\n  a  # c\n  ,\n]\n", "[", "b", "x = [\n  a  # c\n  ,\n  b,\n]\n"),
        ("x = [\n  a]\n", "[", "f(\n    b)", "x = [\n  a,\n  f(\n    b)]\n"),
        ("x = a, \\\n  b\n", "a,", "c", "x = a, \\\n  b, c\n"),
    ],
)  # fmt: skip
def test_a_display_gets_a_last_element_laid_out_as_its_neighbours(
    before: str, display: str, new: str, after: str
) -> None:
    script = Script(before)
    found = [anchor for _, anchor in script.nodes() if script.code(anchor).startswith(display)]
    kinds = ("Dict", "List", "Set", "Tuple", "Call")
    anchor = max((anchor for anchor in found if anchor.kind in kinds), key=lambda anchor: anchor.end)
    assert script.edited(AddElement(anchor, new)) == after


def test_several_elements_keep_their_order() -> None:
    script = Script("x = {\n  'a': 1,\n}\ny = {}\nz = [1]\n")
    elements = [script.add("{\n  'a': 1,\n}", "'b': 2"), script.add("{\n  'a': 1,\n}", "'c': 3")]
    elements += [script.add("{}", "'b': 2"), script.add("{}", "'c': 3"), script.add("[1]", "2"), script.add("[1]", "3")]
    assert (
        script.edited(*elements) == "x = {\n  'a': 1,\n  'b': 2,\n  'c': 3,\n}\ny = {'b': 2, 'c': 3}\nz = [1, 2, 3]\n"
    )


@pytest.mark.parametrize(
    ("before", "display", "new"),
    [
        ("{1: 2}\n", "{1: 2}", "3"),
        ("[1]\n", "[1]", "a=1"),
        ("[1]\n", "[1]", "2, 3"),
        ("[1]\n", "[1]", "2,"),
        ("[1]\n", "[1]", ""),
        ("[1]\n", "[1]", "2] + [3"),
        ("f(1)\n", "f(1)", "1: 2"),
        ("f(1)\n", "f(1)", "2)(3"),
        ("a.b\n", "a.b", "c"),
        ("[a for a in b]\n", "[a for a in b]", "c"),
    ],
)
def test_what_is_no_element_of_the_display_is_refused(before: str, display: str, new: str) -> None:
    script = Script(before)
    with pytest.raises(RewriteFailed, match=r"is no element|nothing can be added"):
        script.edited(script.add(display, new))


def test_a_new_element_moves_with_the_statement_it_is_in() -> None:
    script = Script("if a:\n  save({\n    'b': 1,\n  })\n")
    edits = [script.wrap("save({\n    'b': 1,\n  })", "with w:"), script.add("{\n    'b': 1,\n  }", "'c': 2")]
    assert script.edited(*edits) == "if a:\n  with w:\n    save({\n      'b': 1,\n      'c': 2,\n    })\n"


def test_edits_in_one_statement_work_together() -> None:
    script = Script("if a:\n    f(x, loss).backward(g(y), k=[1])  # c\n")
    edits = [
        script.wrap("f(x, loss).backward(g(y), k=[1])"),
        script.replace("f(x, loss)", "scaled_loss"),
        script.replace("y", "z"),
        script.add("[1]", "2"),
        script.add("f(x, loss).backward(g(y), k=[1])", "h=3"),
    ]
    assert script.edited(*edits) == f"if a:\n    {HEADER}\n        scaled_loss.backward(g(z), k=[1, 2], h=3)  # c\n"


def test_an_edit_inside_replaced_code_is_made_where_that_code_has_gone() -> None:
    script = Script("y = criterion(out, f(x), x)\n")
    whole = script.replace("criterion(out, f(x), x)", "amp.safe(criterion)(out, f(x), x)")
    assert script.edited(whole, script.replace("f(x)", "g")) == "y = amp.safe(criterion)(out, g, x)\n"
    assert script.edited(whole, script.replace("x", "z", 1)) == "y = amp.safe(criterion)(out, f(x), z)\n"
    assert script.edited(whole, script.replace("x", "a + b", 0)) == "y = amp.safe(criterion)(out, f((a + b)), x)\n"
    assert script.edited(whole, script.add("f(x)", "1")) == "y = amp.safe(criterion)(out, f(x, 1), x)\n"
    deep = [script.replace("f(x)", "h(x, f)"), script.replace("x", "q", 0)]
    assert script.edited(whole, *deep) == "y = amp.safe(criterion)(out, h(q, f), x)\n"


def test_an_edit_inside_code_that_moves_to_the_header_is_made_there() -> None:
    script = Script("criterion(out, x).backward()\n")
    wrap = script.wrap("criterion(out, x).backward()", "with s(criterion(out, x), o) as z:")
    moved = script.replace("criterion(out, x)", "z")
    expected = "with s(criterion(out, q), o) as z:\n    z.backward()\n"
    assert script.edited(wrap, moved, script.replace("x", "q")) == expected
    safe = script.replace("criterion(out, x)", "amp.safe(criterion)(out, x)")
    expected = "with s(amp.safe(criterion)(out, x), o) as z:\n    z.backward()\n"
    assert script.edited(wrap, moved, safe) == script.edited(safe, moved, wrap) == expected
    assert script.edited(wrap, moved, script.add("criterion(out, x)", "w")).startswith(
        "with s(criterion(out, x, w), o)"
    )


@pytest.mark.parametrize("other", ["q", "z"])
def test_edits_that_contradict_each_other_are_refused(other: str) -> None:
    script = Script("f(x, x).backward()\n")
    with pytest.raises(RewriteFailed, match="overlap"):
        script.edited(script.replace("f(x, x)", "z"), script.replace("x", other))
    with pytest.raises(RewriteFailed, match="overlap"):
        script.edited(script.replace("f(x, x)", "g(x)"), script.replace("x", other))
    with pytest.raises(RewriteFailed, match="overlap"):
        script.edited(script.replace("f(x, x)", "a"), script.replace("f(x, x)", "b"))
    wrap = script.wrap("f(x, x).backward()", "with s(x) as z:")
    with pytest.raises(RewriteFailed, match="overlap"):
        script.edited(wrap, script.replace("f(x, x)", "z"), script.replace("x", other))
    loop = script.wrap("f(x, x).backward()", "if z:")
    with pytest.raises(RewriteFailed, match="overlap"):
        script.edited(loop, script.replace("f(x, x)", "z"), script.replace("f(x, x)", other + other))


def test_edits_of_another_file_are_refused() -> None:
    stranger = Replace(Anchor("other.py", 1, 0, 1, 1, "Name"), "b")
    with pytest.raises(RewriteFailed, match=r"an edit of other\.py was given for train\.py"):
        rewrite(Script("a\n").source(), [stranger])


def test_without_edits_nothing_changes_whatever_the_text() -> None:
    source = Script("this is (no Python\r\n").source()
    assert rewrite(source, []) == source.text
