"""Random modules in random layout, random edits: the result means what was asked, and nothing else has changed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampify.gate import check
from ampify.index.extract import extract
from ampify.model.anchor import Anchor
from ampify.model.edit import AddImport, Delete, Edit, InsertAfter, InsertBefore, Replace, Wrap
from ampify.rewrite import rewrite
from ampify.source import split_lines
from tests.rewrite.script import PATH, Script, anchor_of

SIMPLE = [
    "loss.backward()", "x = f(a, 'é;')", "y += {'k': [1, (2)]}['k']", "z = g(  # in\n    a,\n\n  b)", "pass", "del q[0]",
    "'''doc\n  string'''", "w: int = (a +\n\tb)", "import os, torch", "assert f'{a}' 'b', c", "v = a if b else lambda: c",
    "f(*a, k=b).c[d].backward(e)", "u = a \\\n  + b", "t = '''\n# no comment\n'''", "from m import n",
]  # fmt: skip
HEADERS = ["if a:", "for i in f(b):", "while (c\n  or d):", "with e as g:", "def h(p, q=1):", "class K(L):", "if a :"]
DECORATED = ["@dec\ndef h():", "@dec(1)  # d\n@other\nclass K:"]
COMMENTS = ["# note", "#: é", "# if x: y"]
ENDS = ["\n", "\r\n", "\r"]


@st.composite
def lines(draw: st.DrawFn, indentation: str, unit: str, depth: int) -> list[str]:
    """The lines, without ends, of a block."""
    found: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        found += draw(st.lists(st.sampled_from(["", indentation + "# note", "# far left", "   "]), max_size=2))
        kind = draw(st.sampled_from(["simple", "simple", "suite", "block"] if depth else ["simple", "simple", "suite"]))
        if kind == "simple":
            found += (indentation + draw(logical_line())).split("\n")
            continue
        header = draw(st.sampled_from(HEADERS + DECORATED)).replace("\n@", f"\n{indentation}@")
        header = re.sub(r"\n(def|class)", rf"\n{indentation}\1", header)
        branches = [header] + (["else:"] if header.startswith(("if", "for", "while")) and draw(st.booleans()) else [])
        if header == "if a:" and draw(st.booleans()):
            branches.insert(1, "elif z:")
        for branch in branches:
            if kind == "suite":
                found += f"{indentation}{branch}{draw(st.sampled_from([' ', '', '  ']))}{draw(logical_line())}".split(
                    "\n"
                )
            else:
                found += (indentation + branch + draw(st.sampled_from(["", "  # head"]))).split("\n")
                found += draw(lines(indentation + unit, unit, depth - 1))
    return found


@st.composite
def logical_line(draw: st.DrawFn) -> str:
    """Some simple statements, perhaps with a final semicolon and a comment."""
    parts = draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=3))
    separator = draw(st.sampled_from(["; ", ";", " ;  ", "; \\\n      "]))
    comment = draw(st.sampled_from(["", "", "  # note", " # a; b"]))
    return separator.join(parts) + draw(st.sampled_from(["", "", ";", " ; "])) + comment


@st.composite
def modules(draw: st.DrawFn) -> str:
    """The text of a module."""
    unit = draw(st.sampled_from(["    ", "\t", "  ", " "]))
    found = draw(
        st.sampled_from([[], ["#!/usr/bin/env python"], ['"""Doc."""'], ["", "from __future__ import annotations"]])
    )
    found = found + draw(lines("", unit, 2))
    ends = draw(st.sampled_from([["\n"], ["\r\n"], ["\r"], ENDS[:2]]))
    text = "".join(line + draw(st.sampled_from(ends)) for line in found)
    text = draw(st.sampled_from([text, text, text.rstrip("\r\n")]))
    feeds = draw(st.booleans())
    return re.sub(r"(^|[\r\n])(?=[fdilwy@#])", "\\1\x0c", text, count=2) if feeds else text


@st.composite
def edited_modules(draw: st.DrawFn) -> tuple[Script, list[Edit]]:
    """A module and edits of it that do not contradict each other."""
    script = Script(draw(modules()))
    nodes = list(script.nodes())
    branches = _branches(node for node, _ in nodes)
    statements = [anchor for node, anchor in nodes if isinstance(node, ast.stmt) and node not in branches]
    edits: list[Edit] = []
    for number, anchor in enumerate(draw(st.lists(st.sampled_from(statements), max_size=4, unique=True))):
        edits += draw(orders(anchor, number))
    gone = [edit.anchor for edit in edits if isinstance(edit, Delete)]
    edits = [edit for edit in edits if not any(_inside(edit, anchor) for anchor in gone)]
    # A decorator goes with its function, of whose range it is no part.
    decorators = {part for node, _ in nodes for top in getattr(node, "decorator_list", []) for part in ast.walk(top)}
    loads = (pair for pair in nodes if isinstance(pair[0], ast.Name) and isinstance(pair[0].ctx, ast.Load))
    names = [anchor for node, anchor in loads if node not in decorators]
    names = [anchor for anchor in names if not any(other.contains(anchor) for other in gone)]
    if names:
        chosen = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        edits += [Replace(anchor, draw(st.sampled_from(["new", "new[0].x", "(new + 1)"]))) for anchor in chosen]
    if draw(st.booleans()):
        edits.append(AddImport(PATH, "ampify_runtime", "amp"))
    return script, draw(st.permutations(edits))


def _branches(nodes: object) -> set[ast.AST]:
    found: set[ast.AST] = set()
    for node in list(nodes):  # type: ignore[call-overload]
        if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            found.add(node.orelse[0])
    return found


def _inside(edit: Edit, anchor: Anchor) -> bool:
    own = edit.anchor  # type: ignore[union-attr]
    return bool(own != anchor and anchor.contains(own))


@st.composite
def orders(draw: st.DrawFn, anchor: Anchor, number: int) -> list[Edit]:
    """What happens to one statement."""
    kinds = draw(
        st.sampled_from([["wrap"], ["before"], ["after"], ["delete"], ["before", "wrap", "after"], ["delete", "after"]])
    )
    made: dict[str, Edit] = {
        "wrap": Wrap(anchor, f"with WRAP_{number}(1,\n  2) as r:"),
        "before": InsertBefore(anchor, f"NEW_{number}b()\n"),
        "after": InsertAfter(anchor, f"if NEW_{number}a:\n    NEW_{number}a('''\nx''',\n        1)"),
        "delete": Delete(anchor),
    }
    return [made[kind] for kind in kinds]


class _Expected(ast.NodeTransformer):
    """Makes the edits on the syntax tree."""

    def __init__(self, script: Script, edits: list[Edit]) -> None:
        self.lines = split_lines(script.text)
        self.edits: dict[Anchor, list[Edit]] = defaultdict(list)
        for edit in edits:
            if not isinstance(edit, AddImport):
                self.edits[edit.anchor].append(edit)  # type: ignore[union-attr]

    def visit(self, node: ast.AST) -> object:
        own = self.edits.get(anchor_of(node, self.lines), []) if isinstance(node, ast.stmt | ast.expr) else []
        super().visit(node)
        for name in ("body", "orelse", "finalbody"):
            if getattr(node, name, None) == [] and name == "body" and not isinstance(node, ast.Module):
                node.body = [ast.Pass()]  # type: ignore[attr-defined]
        result: object = node
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        for edit in own:
            if isinstance(edit, Replace):
                return ast.parse(edit.code, mode="eval").body
            if isinstance(edit, Wrap):
                (wrapper,) = ast.parse(edit.header + " pass").body
                wrapper.body = [node]  # type: ignore[attr-defined]
                result = wrapper
            elif isinstance(edit, Delete):
                result = None
            elif isinstance(edit, InsertBefore):
                before += ast.parse(edit.code).body
            elif isinstance(edit, InsertAfter):
                after += ast.parse(edit.code).body
        if isinstance(node, ast.stmt):
            return [*before, *([result] if result is not None else []), *after]
        return result


def _without_import(text: str) -> str:
    lines = split_lines(text)
    return "".join(line for line in lines if line.rstrip("\r\n") != "from ampify_runtime import amp")


@settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(edited_modules())
def test_edits_do_what_they_say_and_leave_the_rest_alone(case: tuple[Script, list[Edit]]) -> None:
    script, edits = case
    after = rewrite(script.source(), edits)
    expected = ast.dump(_Expected(script, edits).visit(ast.parse(script.text)))  # type: ignore[arg-type]
    expected = expected.replace("orelse=[Pass()]", "orelse=[]")
    assert _dump(_without_import(after)) == _plain_else(expected)
    # Code that is not read may have taught another unit of indentation, no more.
    assert _dump(rewrite(script.source(), edits, extract(PATH, script.text).sections())) == _dump(after)
    trouble = check(script.source(), after, edits)
    assert trouble is None or "unbound" in trouble or "another meaning" in trouble or "does not compile" in trouble


def _dump(text: str) -> str:
    return _plain_else(ast.dump(ast.parse(text)))


def _plain_else(dump: str) -> str:
    # An `else` all of whose statements are deleted keeps a `pass`.
    return dump.replace("orelse=[Pass()]", "orelse=[]")


@settings(
    derandomize=True,
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(edited_modules())
def test_taking_new_code_out_again_gives_the_old_text(case: tuple[Script, list[Edit]]) -> None:
    script, edits = case
    adding = [edit for edit in edits if not isinstance(edit, Delete | Replace)]
    after = _without_import(rewrite(script.source(), adding))
    for pattern in (r"with WRAP_\d\(1,\s*2\) as r:", r"if NEW_\da:\s*NEW_\da\('''\s*x''',\s*1\)", r"NEW_\db\(\)"):
        after = re.sub(pattern, "", after)
    assert _squeezed(after) == _squeezed(script.text)


def _squeezed(text: str) -> str:
    """The text without what may change where a line is split: blanks, line breaks and semicolons."""
    return re.sub(r"[\s;\\]", "", text)


@settings(
    derandomize=True,
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(modules())
def test_what_is_there_already_leaves_the_bytes_alone(text: str) -> None:
    script = Script("from ampify_runtime import amp\n" + text.replace("from __future__", "from past"))
    assert rewrite(script.source(), [AddImport(PATH, "ampify_runtime", "amp")]) == script.text
