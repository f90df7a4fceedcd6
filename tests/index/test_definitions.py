"""Which assignments a read of a local name may see: marked by hand, `#N` names the assignment on its line, `#<N,M`
tells which of them a read of `x` on that line may see (`#<` alone: all, nothing is told apart)."""

from __future__ import annotations

import re

import pytest

from ampify.index.definitions import reaching
from ampify.index.extract import extract

CASES = {
    "a later assignment takes the place": """
        x = 1  #1
        a(x)  #<1
        x = 2  #2
        b(x)  #<2
    """,
    "what is assigned is not what is read": """
        x = 1  #1
        x = f(x)  #2 #<1
        g(x)  #<2
    """,
    "either arm": """
        if c:
            x = 1  #1
            a(x)  #<1
        else:
            x = 2  #2
            b(x)  #<2
        g(x)  #<1,2
    """,
    "an arm that leaves": """
        x = 1  #1
        for i in y:
            if c:
                x = 2  #2
                continue
            a(x)  #<1,2
            x = 3  #3
            break
        g(x)  #<1,2,3
    """,
    "around a loop": """
        x = 1  #1
        while c:
            a(x)  #<1,2
            x = f()  #2
            b(x)  #<2
        g(x)  #<1,2
    """,
    "a loop's target": """
        x = 1  #1
        for x in y:  #2
            a(x)  #<2
        g(x)  #<1,2
    """,
    "what a with binds": """
        x = 1  #1
        with f(x) as x:  #2 #<1
            a(x)  #<2
        g(x)  #<2
    """,
    "a with that may end its block": """
        x = 1  #1
        with suppress(ValueError):
            f()
            x = 2  #2
        g(x)  #<1,2
    """,
    "an exception at any place": """
        x = 1  #1
        try:
            x = 2  #2
            f(x)  #<2
            x = 3  #3
        except ValueError:
            a(x)  #<1,2,3
            x = 4  #4
        else:
            b(x)  #<3
        g(x)  #<3,4
    """,
    "an addition keeps what was there": """
        x = []  #1
        x = []  #2
        x += [1]  #3
        g(x)  #<2,3
    """,
    "parts of a tuple": """
        x = 1  #1
        x, (z, *w) = f(x)  #2 #<1
        g(x)  #<2
    """,
    "not yet bound on one way": """
        if c:
            x = 1  #1
        g(x)  #<
        x = 2  #2
        g(x)  #<2
    """,
    "read by a function inside, and by what runs later": """
        x = 1  #1
        f = lambda: x  #<
        g = (x for i in y)  #<
        h = [x for i in y]  #<1
        x = 2  #2
    """,
    "bound in other ways too": """
        x = 1  #1
        import x
        g(x)  #<
        x = 2  #2
        g(x)  #<
    """,
    "set by a function inside": """
        x = 1  #1
        def f():
            global x
            x = 3
        x = 2  #2
        g(x)  #<
    """,
    "bound in a block that runs in any case": """
        x = 1  #1
        try:
            f()
        finally:
            x = 2  #2
        g(x)  #<
    """,
    "bound by an expression": """
        x = 1  #1
        if (x := f()):
            g(x)  #<
        x = 2  #2
        g(x)  #<
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_a_read_sees_the_assignments_that_may_be_the_last(name: str) -> None:
    lines = [line[8:] for line in CASES[name].split("\n")]
    facts = extract("a.py", "\n".join(lines))
    numbers: dict[int, int] = {}
    expected: dict[int, set[int] | None] = {}
    for at, line in enumerate(lines, 1):
        for mark in re.findall(r"#(<?[\d,]*)", line):
            if mark.startswith("<"):
                expected[at] = {int(n) for n in mark[1:].split(",")} if mark[1:] else None
            else:
                numbers[at] = int(mark)
    found = reaching(facts, facts.scopes[0])
    seen = {at[0]: {numbers[span[0]] for span in spans} for at, spans in found.items()}
    assert {line: seen.get(line) for line in expected} == expected


def test_what_a_parameter_was_given_is_gone_after_an_assignment() -> None:
    facts = extract("a.py", "def f(x):\n    g(x)\n    x = 2\n    h(x)\n")
    assert [(at[0], {s[0] for s in spans}) for at, spans in reaching(facts, facts.scopes[1]).items()] == [(4, {3})]
