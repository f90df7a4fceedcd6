"""Statements that are wrapped, added, deleted: on lines of their own, on shared lines, in one-line blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ampify.model.edit import Edit
from ampify.rewrite import RewriteFailed
from tests.rewrite.script import HEADER, Script

Edits = Callable[[Script], list[Edit]]


def wrap_backward(script: Script) -> list[Edit]:
    return [script.wrap("loss.backward()")]


def check(before: str, edits: Edits, after: str) -> None:
    script = Script(before)
    assert script.edited(*edits(script)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward()\n", f"{HEADER}\n    loss.backward()\n"),
        ("loss.backward()", f"{HEADER}\n    loss.backward()"),
        ("loss.backward()\r\nx\r\n", f"{HEADER}\r\n    loss.backward()\r\nx\r\n"),
        ("loss.backward()\rx\r", f"{HEADER}\r    loss.backward()\rx\r"),
        ("a\r\nb\r\nloss.backward()\nc\n\r\n", f"a\r\nb\r\n{HEADER}\r\n    loss.backward()\nc\n\r\n"),
        ("\ufeffloss.backward()\n".lstrip("\ufeff"), f"{HEADER}\n    loss.backward()\n"),
        ("for x in y:\n  loss.backward()\n", f"for x in y:\n  {HEADER}\n    loss.backward()\n"),
        ("for x in y:\n\tloss.backward()\n", f"for x in y:\n\t{HEADER}\n\t\tloss.backward()\n"),
        (
            "if a:\n   if b:\n     loss.backward()\n",
            f"if a:\n   if b:\n     {HEADER}\n       loss.backward()\n",
        ),
        ("x\n\x0closs.backward()\n", f"x\n\x0c{HEADER}\n    loss.backward()\n"),
        ("if a:\n    \x0c  loss.backward()\n", f"if a:\n    \x0c  {HEADER}\n    loss.backward()\n"),
        ("loss.backward()  # é\n", f"{HEADER}\n    loss.backward()  # é\n"),
        (
            "def f():\n    # why\n\n    # how\n    loss.backward()\n    # done\n",
            f"def f():\n    # why\n\n    # how\n    {HEADER}\n        loss.backward()\n    # done\n",
        ),
        ("loss.backward();\n", f"{HEADER}\n    loss.backward();\n"),
        ("loss.backward() ; # c\n", f"{HEADER}\n    loss.backward() ; # c\n"),
        ("a(); loss.backward()\n", f"a()\n{HEADER}\n    loss.backward()\n"),
        ("loss.backward(); b()  # c\n", f"{HEADER}\n    loss.backward()\nb()  # c\n"),
        (
            "a(); b() ; loss.backward();  c(); d()\n",
            f"a(); b()\n{HEADER}\n    loss.backward()\nc(); d()\n",
        ),
        ("if a: loss.backward()\n", f"if a:\n    {HEADER}\n        loss.backward()\n"),
        ("if a : loss.backward()  # c", f"if a :\n    {HEADER}\n        loss.backward()  # c"),
        (
            "for x in y: a(); loss.backward(); b(); c()  # c\n",
            f"for x in y:\n    a()\n    {HEADER}\n        loss.backward()\n    b(); c()  # c\n",
        ),
        (
            "def f():\n  if a: b()\n  elif c: loss.backward()\n  else: d()\n",
            f"def f():\n  if a: b()\n  elif c:\n    {HEADER}\n      loss.backward()\n  else: d()\n",
        ),
        (
            "try: a()\nexcept E: loss.backward()\nelse: b()\nfinally: c()\n",
            f"try: a()\nexcept E:\n    {HEADER}\n        loss.backward()\nelse: b()\nfinally: c()\n",
        ),
        (
            "while a: b()\nelse: loss.backward()\n",
            f"while a: b()\nelse:\n    {HEADER}\n        loss.backward()\n",
        ),
        (
            "if (a and\n    b): \\\n  loss.backward()\n",
            f"if (a and\n    b):\n    {HEADER}\n        loss.backward()\n",
        ),
        ("class A: loss.backward()\n", f"class A:\n    {HEADER}\n        loss.backward()\n"),
        (
            "match a:\n    case 1 if b:\n        c(); loss.backward()\n    case _: d()\n",
            f"match a:\n    case 1 if b:\n        c()\n        {HEADER}\n            loss.backward()\n    case _: d()\n",
        ),
        (
            "def f():\n  match a:\n     case 1: c(); loss.backward(); d()\n",
            f"def f():\n  match a:\n     case 1:\n       c()\n       {HEADER}\n         loss.backward()\n       d()\n",
        ),
        (
            "match a:\n\tcase 1:\n\t\tmatch b:\n\t\t\tcase 2:\n\t\t\t\tloss.backward(); c()\n",
            "match a:\n\tcase 1:\n\t\tmatch b:\n\t\t\tcase 2:\n"
            f"\t\t\t\t{HEADER}\n\t\t\t\t\tloss.backward()\n\t\t\t\tc()\n",
        ),
        (
            "match a:\n case 1:\n   with b: c(); loss.backward()\n",
            f"match a:\n case 1:\n   with b:\n     c()\n     {HEADER}\n       loss.backward()\n",
        ),
        ("if a: x = {1: 2}; loss.backward()\n", f"if a:\n    x = {{1: 2}}\n    {HEADER}\n        loss.backward()\n"),
    ],
)
def test_a_statement_moves_under_a_header(before: str, after: str) -> None:
    check(before, wrap_backward, after)


def test_all_lines_of_a_statement_move_but_those_inside_strings() -> None:
    before = '  if a:\n    x = f(b,\n# comment\n\n      """c\n    d""", "e\\\n    f", \\\n    f"""{g}\n    """)\n'
    before = before.replace("  if", "if", 1)
    check(
        before,
        lambda script: [script.wrap(script.code(script.statement(before[10:-1])), "with h:")],
        'if a:\n    with h:\n        x = f(b,\n    # comment\n\n          """c\n    d""", "e\\\n    f", \\\n        f"""{g}\n    """)\n',
    )


def test_a_header_may_take_several_lines_as_they_stand_in_the_text() -> None:
    check(
        "if a:\r\n    f(b,\r\n      c).backward()\r\n",
        lambda script: [
            script.wrap("f(b,\r\n      c).backward()", "with s(f(b,\n      c), o) as z:"),
            script.replace("f(b,\r\n      c)", "z"),
        ],
        "if a:\r\n    with s(f(b,\r\n      c), o) as z:\r\n        z.backward()\r\n",
    )


def test_compound_statements_move_whole() -> None:
    check(
        "if a:\n  @d\n  def f():\n    '''x\n    y'''\n    return 1  # c\n  # after\n  z\n",
        lambda script: [script.wrap("def f", "if b:")],
        "if a:\n  if b:\n    @d\n    def f():\n      '''x\n    y'''\n      return 1  # c\n  # after\n  z\n",
    )


def test_wraps_inside_wraps() -> None:
    check(
        "for a in b:\n  c; loss.backward()\n  # end\nd\n",
        lambda script: [
            script.wrap("for a", "if x:"),
            script.wrap("loss.backward()", "with y:"),
            script.before("loss.backward()", "n = [\n    1,\n]"),
            script.after("loss.backward()", "if m:\n    k"),
        ],
        "if x:\n  for a in b:\n    c\n    n = [\n      1,\n    ]\n    with y:\n      loss.backward()\n    if m:\n      k\n  # end\nd\n",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\ns\nb\n", "a\nnew\ns\nb\n"),
        ("a\n\n# why\n# how\ns\n", "a\n\nnew\n# why\n# how\ns\n"),
        ("a\n# far\n\ns\n", "a\n# far\n\nnew\ns\n"),
        ("#!shebang\n# coding: utf-8\ns\n", "#!shebang\n# coding: utf-8\nnew\ns\n"),
        ("s", "new\ns"),
        ("if a:\n\t# c\n\ts  # d\n", "if a:\n\tnew\n\t# c\n\ts  # d\n"),
        ("a; s; b  # c\n", "a\nnew\ns; b  # c\n"),
        ("if a: s\n", "if a:\n    new\n    s\n"),
        ("if a: b; s; c # d\n", "if a:\n    b\n    new\n    s; c # d\n"),
        ('x = """\n# no comment"""\ns\n', 'x = """\n# no comment"""\nnew\ns\n'),
    ],
)
def test_code_goes_before_a_statement_and_the_comments_that_belong_to_it(before: str, after: str) -> None:
    check(before, lambda script: [script.before("s", "new")], after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s\nb\n", "s\nnew\nb\n"),
        ("s  # c\n# d\nb\n", "s  # c\nnew\n# d\nb\n"),
        ("s", "s\nnew"),
        ("s\r\n", "s\r\nnew\r\n"),
        ("a\rs", "a\rs\rnew"),
        ("a; s; b  # c\n", "a; s\nnew\nb  # c\n"),
        ("a; s;  # c\nb\n", "a; s;  # c\nnew\nb\n"),
        ("if a: s\nelse: b\n", "if a:\n    s\n    new\nelse: b\n"),
        ("if a: s", "if a:\n    s\n    new"),
        ("if a:\n  if b:\n    s", "if a:\n  if b:\n    s\n    new"),
        ("def f(): a; s; b\n", "def f():\n    a; s\n    new\n    b\n"),
    ],
)
def test_code_goes_after_a_statement_and_its_comment(before: str, after: str) -> None:
    check(before, lambda script: [script.after("s", "new")], after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for a in b:\n    c\n    # deeper\n\n    # deeper\n# not\nd\n",
            "for a in b:\n    c\n    # deeper\n\n    # deeper\nnew\n# not\nd\n",
        ),
        ("for a in b:\n    c\n\n\n# not\n", "for a in b:\n    c\nnew\n\n\n# not\n"),
        ("for a in b: c  # d\n", "for a in b: c  # d\nnew\n"),
        ("for a in b:\n    c", "for a in b:\n    c\nnew"),
        ("@x\nfor_ = 1\nfor a in b: c\n".replace("@x\n", ""), "for_ = 1\nfor a in b: c\nnew\n"),
    ],
)
def test_code_goes_after_a_compound_statement_and_the_comments_inside_it(before: str, after: str) -> None:
    check(before, lambda script: [script.after("for a", "new")], after)


def test_code_goes_before_the_decorators_of_a_function() -> None:
    check(
        "a\n\n# c\n@d\n@e\ndef f(): pass\n",
        lambda script: [script.before("def f", "new")],
        "a\n\nnew\n# c\n@d\n@e\ndef f(): pass\n",
    )


def test_new_code_takes_the_indentation_and_line_ends_of_its_place() -> None:
    new = "if a:\n    b = '''\n    c'''\n\n    for d in e:\n        f(  # g\n            h)\n"
    check(
        "def z():\r\n\ty\r\n",
        lambda script: [script.after("y", new)],
        "def z():\r\n\ty\r\n\tif a:\r\n\t\tb = '''\r\n    c'''\r\n\r\n\t\tfor d in e:\r\n\t\t\tf(  # g\r\n\t\t\t\th)\r\n",
    )


def test_the_indentation_at_the_top_is_the_commonest_of_the_file() -> None:
    text = "def a():\n  b\ndef c():\n  d\ndef e():\n    f\ng\n"
    check(text, lambda script: [script.wrap("g", "with h:")], text.replace("\ng\n", "\nwith h:\n  g\n"))


def test_edits_around_one_statement_keep_the_order_they_are_given_in() -> None:
    check(
        "a\ns\nb\n",
        lambda script: [
            script.before("s", "n1"),
            script.after("s", "n3"),
            script.before("s", "n2"),
            script.after("s", "n4"),
            script.wrap("s", "with w:"),
            script.after("a", "n0"),
            script.before("b", "n5"),
        ],
        "a\nn0\nn1\nn2\nwith w:\n    s\nn3\nn4\nn5\nb\n",
    )


def test_what_follows_a_block_at_the_end_of_the_file_comes_after_what_ends_the_block() -> None:
    check(
        "for a in b:\n  s",
        lambda script: [script.after("for a", "n2"), script.after("s", "n1")],
        "for a in b:\n  s\n  n1\nn2",
    )


@pytest.mark.parametrize(
    ("before", "deleted", "after"),
    [
        ("a\ns  # c\nb\n", ["s"], "a\nb\n"),
        ("a\n# kept\ns\nb\n", ["s"], "a\n# kept\nb\n"),
        ("a\ns", ["s"], "a\n"),
        ("s\n", ["s"], ""),
        ("a; s; b  # c\n", ["s"], "a; b  # c\n"),
        ("a; s; t ; b\n", ["s", "t"], "a; b\n"),
        ("s; a\n", ["s"], "a\n"),
        ("a; s;  # c\n", ["s"], "a;  # c\n"),
        ("if a:\n    s  # c\nb\n", ["s"], "if a:\n    pass  # c\nb\n"),
        ("if a:\n    # c\n    s\n    t\nb\n", ["s", "t"], "if a:\n    # c\n    pass\nb\n"),
        ("if a: s; t\nelse: b\n", ["s", "t"], "if a: pass\nelse: b\n"),
        ("if a: s; t\nelse: b\n", ["s"], "if a: t\nelse: b\n"),
        ("if a:\n    if s:\n        t  # c\nb\n", ["if s"], "if a:\n    pass  # c\nb\n"),
        ("if s:\n    t  # c\nb\n", ["if s"], "b\n"),
        ("if a:\n    s\nelif c:\n    b\n", ["s"], "if a:\n    pass\nelif c:\n    b\n"),
        ("class A:\n    @d\n    def s(): pass\n    b\n", ["def s"], "class A:\n    b\n"),
        ("class A:\n    @d\n    def s(): pass\n", ["def s"], "class A:\n    pass\n"),
        ("@d\ndef s(): pass\nb\n", ["def s"], "b\n"),
        ("s = f(1,\n  2)\nb\n", ["s = f(1,\n  2)"], "b\n"),
    ],
)
def test_a_statement_goes_and_no_block_is_left_empty(before: str, deleted: list[str], after: str) -> None:
    check(before, lambda script: [script.delete(code) for code in deleted], after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\ns  # c\nb\n", "a\nn1\nn2\nb\n"),
        ("a; s; b  # c\n", "a\nn1\nn2\nb  # c\n"),
        ("a; s  # c\n", "a  # c\nn1\nn2\n"),
        ("s; b\n", "n1\nn2\nb\n"),
        ("if a: s\n", "if a:\n    n1\n    n2\n"),
        ("if a: s;  # c\n", "if a:\n    n1\n    n2;  # c\n"),
        ("if a: s; b\n", "if a:\n    n1\n    n2\n    b\n"),
        ("if a: b; s", "if a:\n    b\n    n1\n    n2"),
        ("a\ns", "a\nn1\nn2"),
        ("s", "n1\nn2"),
        ("if a:\n  # c\n  s\n", "if a:\n  # c\n  n1\n  n2\n"),
    ],
)
def test_a_statement_gives_way_to_others(before: str, after: str) -> None:
    check(before, lambda script: [script.delete("s"), script.before("s", "n1"), script.after("s", "n2")], after)


def test_a_compound_statement_gives_way_to_another() -> None:
    check(
        "if a:\n  for s in b:\n    c\nd\n",
        lambda script: [script.delete("for s"), script.before("for s", "n1")],
        "if a:\n  n1\nd\n",
    )


def test_statements_go_from_a_block_that_moves() -> None:
    check(
        "if a:\n    s\n    b\nfor s in a:\n    c\n",
        lambda script: [
            script.wrap("if a", "with w:"),
            script.delete("s"),
            script.after("s", "n1"),
            script.delete("for s"),
            script.after("for s", "n2"),
        ],
        "with w:\n    if a:\n        n1\n        b\nn2\n",
    )
    check(
        "if a:\n    s\n    for s in a: c\n    b\n",
        lambda script: [script.wrap("if a", "with w:"), script.delete("s"), script.delete("for s")],
        "with w:\n    if a:\n        b\n",
    )


def test_a_wrapped_statement_may_come_to_begin_its_line() -> None:
    check(
        "if a:\n  s; loss.backward(); t\n",
        lambda script: [script.delete("s"), script.wrap("loss.backward()", "with w:"), script.delete("t")],
        "if a:\n  with w:\n    loss.backward()\n",
    )


@pytest.mark.parametrize(
    ("before", "edits", "says"),
    [
        ("if a: b\nelif c: d\n", lambda s: [s.before("elif", "n")], "`elif`"),
        ("if a: b\nelif c: d\n", lambda s: [s.delete("elif")], "`elif`"),
        ("s\n", lambda s: [s.wrap("s", "with a:"), s.wrap("s", "with b:")], "two edits wrap"),
        ("s\n", lambda s: [s.wrap("s", "with a:"), s.delete("s")], "one edit wraps and one deletes"),
        ("s\n", lambda s: [s.wrap("s", "with a")], "no header of a block"),
        ("s\n", lambda s: [s.wrap("s", "x = 1;")], "no header of a block"),
        ("s\n", lambda s: [s.wrap("s", "")], "no header of a block"),
        ("s\n", lambda s: [s.before("s", "x = (")], "cannot read"),
        ("s\n", lambda s: [s.after("s", "\n")], "holds no statement"),
        ("if a:\n  s\n", lambda s: [s.delete("if a"), s.after("s", "n")], "overlap"),
        ("if a:\n  f(s)\n", lambda s: [s.delete("if a"), s.replace("f(s)", "n")], "overlap"),
    ],
)
def test_edits_that_cannot_be_made_are_refused(before: str, edits: Edits, says: str) -> None:
    script = Script(before)
    with pytest.raises(RewriteFailed, match=says) as caught:
        script.edited(*edits(script))
    assert says in caught.value.reason


def test_equal_edits_count_once() -> None:
    check("a\n", lambda script: [script.wrap("a", "with b:"), script.wrap("a", "with b:")], "with b:\n    a\n")


def test_a_new_comment_is_a_statement_too() -> None:
    check("a\n", lambda script: [script.before("a", "# new\n")], "# new\na\n")
