"""Several statements that move under one header, and functions that get a parameter."""

from __future__ import annotations

import pytest

from ampify.model.edit import AddParameter, Delete, InsertAfter, InsertBefore, Replace, Wrap
from ampify.rewrite import RewriteFailed
from tests.rewrite.script import Script

CAST = "with cast():"


def wrapped(text: str, first: str = "a()", last: str = "b()") -> str:
    script = Script(text)
    return script.edited(Wrap(script.statement(first), CAST, script.statement(last)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\nb()\nc()\n", f"{CAST}\n    a()\n    b()\nc()\n"),
        ("a()\nx = 1\nb()\n", f"{CAST}\n    a()\n    x = 1\n    b()\n"),
        ("a()\r\nb()\r\nc()\r\n", f"{CAST}\r\n    a()\r\n    b()\r\nc()\r\n"),
        ("# why\na()\n\n# how\n  # odd\nb()  # so\n# done\nc()\n",
         f"# why\n{CAST}\n    a()\n\n    # how\n      # odd\n    b()  # so\n# done\nc()\n"),
        ("def f():\n  a()\n  if x:\n    y()\n  else:\n    z()\n  b()\n",
         f"def f():\n  {CAST}\n    a()\n    if x:\n      y()\n    else:\n      z()\n    b()\n"),
        ("for x in y:\n\ta()\n\tb()\n\tc()\n", f"for x in y:\n\t{CAST}\n\t\ta()\n\t\tb()\n\tc()\n"),
        ("a(); b(); c()\n", f"{CAST}\n    a()\n    b()\nc()\n"),
        ("x; a(); b()\n", f"x\n{CAST}\n    a()\n    b()\n"),
        ("x; a()\nb(); c()\n", f"x\n{CAST}\n    a()\n    b()\nc()\n"),
        ("if x: a(); b()\n", f"if x:\n    {CAST}\n        a()\n        b()\n"),
        ('a()\ns = """\nkept\n"""\nb()\n', f'{CAST}\n    a()\n    s = """\nkept\n"""\n    b()\n'),
        ("a()\nq(1,\n  2)\nb()", f"{CAST}\n    a()\n    q(1,\n      2)\n    b()"),
    ],
)  # fmt: skip
def test_all_statements_of_a_range_move(before: str, after: str) -> None:
    assert wrapped(before) == after


def test_edits_inside_and_around_a_range_are_made() -> None:
    script = Script("a()\nif x:\n    loss.backward()\nb()\n")
    edits = [
        Wrap(script.statement("a()"), CAST, script.statement("b()")),
        script.wrap("loss.backward()", "with scaled:"),
        Replace(script.expression("b()"), "d()"),
        InsertBefore(script.statement("a()"), "before()"),
        InsertAfter(script.statement("b()"), "after()"),
    ]
    assert script.edited(*edits) == (
        f"before()\n{CAST}\n    a()\n    if x:\n        with scaled:\n            loss.backward()\n    d()\nafter()\n"
    )


def test_what_does_not_fit_a_range_is_refused() -> None:
    script = Script("a()\nb()\nif x:\n    c()\n")
    whole = Wrap(script.statement("a()"), CAST, script.statement("b()"))
    for edits in (
        [Wrap(script.statement("b()"), CAST, script.statement("a()"))],
        [Wrap(script.statement("a()"), CAST, script.statement("c()"))],
        [whole, Wrap(script.statement("b()"), "with other():")],
        [whole, InsertBefore(script.statement("b()"), "between()")],
        [whole, InsertAfter(script.statement("a()"), "between()")],
        [whole, Delete(script.statement("b()"))],
    ):
        with pytest.raises(RewriteFailed):
            script.edited(*edits)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    pass\n", "def f(scaler):\n    pass\n"),
        ("def f( ):\n    pass\n", "def f(scaler ):\n    pass\n"),
        ("def f(a, b):\n    pass\n", "def f(a, b, scaler):\n    pass\n"),
        ("def f(a, b,):\n    pass\n", "def f(a, b, scaler,):\n    pass\n"),
        ("def f(a, b=1):\n    pass\n", "def f(a, b=1, *, scaler):\n    pass\n"),
        ("def f(a: int, b: dict[str, int]) -> int: return 1\n",
         "def f(a: int, b: dict[str, int], scaler) -> int: return 1\n"),
        ("def f(a, b=(1), c=[1, 2]):\n    pass\n", "def f(a, b=(1), c=[1, 2], *, scaler):\n    pass\n"),
        ("def f(a, b=lambda x, y: (x, y)):\n    pass\n", "def f(a, b=lambda x, y: (x, y), *, scaler):\n    pass\n"),
        ("def f(*args):\n    pass\n", "def f(*args, scaler):\n    pass\n"),
        ("def f(a, *, k):\n    pass\n", "def f(a, *, k, scaler):\n    pass\n"),
        ("def f(**more):\n    pass\n", "def f(scaler, **more):\n    pass\n"),
        ("def f(a, *args, k=1, **more):\n    pass\n", "def f(a, *args, k=1, scaler, **more):\n    pass\n"),
        ("def f(a, /):\n    pass\n", "def f(a, /, scaler):\n    pass\n"),
        ("@deco(1)\nasync def f(\n    a,  # x, y)\n    b,\n):\n    pass\n",
         "@deco(1)\nasync def f(\n    a,  # x, y)\n    b,\n    scaler,\n):\n    pass\n"),
        ("def f(\r\n  a,\r\n  b=1):\r\n  pass\r\n", "def f(\r\n  a,\r\n  b=1, *, scaler):\r\n  pass\r\n"),
        ("def f(\n    a,\n    b,  # of b\n):\n    pass\n", "def f(\n    a,\n    b, scaler,  # of b\n):\n    pass\n"),
        ("class A:\r\n    def f(self):\r\n        pass\r\n", "class A:\r\n    def f(self, scaler):\r\n        pass\r\n"),
    ],
)  # fmt: skip
def test_a_function_gets_a_parameter(before: str, after: str) -> None:
    script = Script(before)
    definition = next(anchor for _, anchor in script.nodes() if anchor.kind in ("FunctionDef", "AsyncFunctionDef"))
    assert script.edited(AddParameter(definition, "scaler")) == after


def test_only_a_function_gets_a_parameter() -> None:
    script = Script("class A:\n    pass\n")
    with pytest.raises(RewriteFailed):
        script.edited(AddParameter(script.statement("class A"), "scaler"))
