"""What `ast` addresses, LibCST's tree finds: every kind of statement and expression, wherever it stands."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import ampify
from ampify.model.anchor import Anchor
from ampify.rewrite import RewriteFailed, rewrite
from ampify.rewrite.blocks import statements_of
from ampify.rewrite.codemod import _Places
from ampify.rewrite.excerpt import excerpt
from ampify.rewrite.expressions import _KINDS, find_expression
from ampify.rewrite.tree import parse
from tests.rewrite.script import Script

SYNTAX = '''\
#!/usr/bin/env python
"""Docstring, é."""
from __future__ import annotations
import a.b as c, d
from . import e
from .f.g import (h as i,
    j,)
x: int = 1; y: str
naïve = "é" + naïve; z = "日本" * (len("é")); w = (((z)))
@decorator
@other.decorator("é")(1)
class A(B, *bases, metaclass=M, **kw):
    """Doc."""
    attribute = 1

    @property
    async def method(self, /, a, *args: int, b: "T" = (2), c=3, **kwargs) -> None:
        async with a as b, c() as (d, e):
            await (yield)
        async for i in aiter():
            pass
        else:
            return
        return [await k async for k in l if await k]
def f(*, a=lambda x, *y, z=(1, 2), **k: (x, y)): return -a ** +b, not a
if n: pass ;
if n:
    if m: pass;  # c
    pass ; pass ;
if (n := len(a)) > 10: print(n); del n, m[0]
elif n: pass
elif (n): pass; pass;
else:
    pass
for i, (j, *k) in enumerate(a): continue
else: break_ = 1
while True: break
try:
    raise E from (e)
except (A, B) as ex: pass
except C:
    raise
else: assert x, "é"
finally:
    global g1, g2
def outer():
    v = 0
    def inner():
        nonlocal v
        v += 1
        return lambda: (yield v)
with (open(x)) as f, (open(y)): pass
with (
    a as b,
    c as d,
): pass
t = a, b
t = (a, b)
t = ((a, b))
t = (a),
t = ()
t = [*a, b, *(c)]
t = {**a, "k": (v), 'é': w}
t = {a, *b}
t = f(x for x in y)
t = f((x for x in y))
t = f(  # comment (
    x for x in y
)
t = (x for x in y if x if y for z in x)
t = {k: v for k, v in a.items()}
t = {k for k in a}
t = f(*args, a, k=(v), **kw)
t = f(a)(b)[c].d[e, f][g:h:i, ...][1:][:, None]
t = a if b else (c) if d else e
t = a < b <= (c) != d in e not in f is g is not h
t = a and b or not c and (d or e)
t = a + b * c @ d // e % f << g >> h & i | j ^ k
t = (a + b) * c
t = ~a
t = 1j + 1.5e3 + 0x_ff + 1_000
t = "a" 'b' """c
d"""
t = f"é{a}{b!r:>{c}}" "plain" rf'{d}'
t = b"bytes" B'more'
t = True, False, None, ...
t = (yield_ := 1)
t = a. b .c
t = (a
     .b(c)
     .d)
t = a \\
    + b
t[0], u.v = 1, 2
t = u = (v) = w
t += (1)
(t)
(t).u
lambda: (a, b)
print(*a, sep="")
print(f"{x}" f'{y}', end="é"); é = (é)
'''

NEWER = {
    (
        3,
        10,
    ): "match x:\n    case {'a': 1, **rest} if (x): pass\n    case A(b=[*c, 1]) | None as d: y\n    case _: (z)\n",
    (3, 11): "try: x\nexcept* (A, B) as e: y\nt = a[*b, c]\n",
    (3, 12): "def f[T: int, *U, **V](x: T): return x\nclass A[T]: pass\ntype X[T] = list[T]\n"
    "t = f'é{a + b:{c}} {d['e']!r}' f\"{g(h)}\"; u = f'''{\n  i}\n{j}'''\n",
}


def positions_disagree(text: str) -> list[Anchor]:
    """The nodes of an editable kind that are not found where `ast` has them."""
    tree = parse(excerpt(text))
    places = _Places.of(tree)
    nodes = list(Script(text).nodes())
    hidden = set(_without_a_place(node for node, _ in nodes))
    bad = []
    for node, anchor in nodes:
        if node in hidden or not (isinstance(node, ast.stmt) or anchor.kind in _KINDS):
            continue
        try:
            if isinstance(node, ast.stmt):
                places.statement(anchor)
            else:
                find_expression(tree, places.holding(anchor), anchor, places.span(anchor))
        except RewriteFailed:
            bad.append(anchor)
    return bad


def _without_a_place(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """What is no expression of its own in the text: plain parts and formats of f-strings, and indices `a, b`.

    Before Python 3.12 `ast` also has no reliable place for what stands inside an f-string.
    """
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield from node.values if sys.version_info >= (3, 12) else set(ast.walk(node)) - {node}
        elif isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            yield from (node.format_spec, *node.format_spec.values)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            yield node.slice


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "layout", [str, lambda text: text.replace("    ", "\t"), lambda text: text.replace("\nt", "\n\x0ct")]
)
def test_every_kind_of_node_is_found_where_ast_has_it(newline: str, layout: Callable[[str], str]) -> None:
    text = layout(SYNTAX).replace("\n", newline)
    assert positions_disagree(text) == []


@pytest.mark.parametrize("version", NEWER)
def test_newer_syntax_is_found_where_the_running_python_reads_it(version: tuple[int, int]) -> None:
    if sys.version_info < version:
        pytest.skip("this Python is older than the syntax")
    assert positions_disagree(NEWER[version]) == []


OWN_CODE = sorted(Path(ampify.__file__).parent.rglob("*.py"))[::6]
STANDARD_LIBRARY = [
    Path(ast.__file__).with_name(name) for name in ("ast.py", "copy.py", "bdb.py", "shlex.py", "cgitb.py")
]


@pytest.mark.parametrize("path", [*OWN_CODE, *filter(Path.exists, STANDARD_LIBRARY)], ids=lambda path: path.name)
def test_real_code_is_found_where_ast_has_it(path: Path) -> None:
    assert positions_disagree(path.read_text("utf-8")) == []


def test_statements_come_in_the_order_of_the_text_and_each_once() -> None:
    tree = parse(excerpt(SYNTAX))
    starts = [statement.span[0] for statement in statements_of(tree)]
    expected = [node for node, _ in Script(SYNTAX).nodes() if isinstance(node, ast.stmt)]
    assert len(set(starts)) == len(starts) == len(expected)


@pytest.mark.parametrize(
    "anchor",
    [
        Anchor("train.py", 1, 0, 1, 5, "Name"),
        Anchor("train.py", 1, 0, 1, 4, "Call"),
        Anchor("train.py", 1, 0, 1, 4, "keyword"),
        Anchor("train.py", 9, 0, 9, 4, "Name"),
        Anchor("train.py", 0, 0, 1, 4, "Name"),
        Anchor("train.py", 1, 0, 1, 40, "Name"),
        Anchor("train.py", 2, 0, 2, 0, "Name"),
    ],
)
def test_an_anchor_that_fits_nothing_is_refused(anchor: Anchor) -> None:
    from ampify.model.edit import Delete, Replace

    source = Script("loss\n\n").source()
    with pytest.raises(RewriteFailed):
        rewrite(source, [Replace(anchor, "x")])
    with pytest.raises(RewriteFailed):
        rewrite(source, [Delete(anchor)])
