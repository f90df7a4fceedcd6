"""Which assignments a read of a local name may see: marked by hand, `#N` names the assignment on its line, `#<N,M`
tells which of them a read of `x` on that line may see (`#<` alone: all, nothing is told apart)."""

from __future__ import annotations

import re

import pytest

from ampify.index.definitions import reaching
from ampify.index.extract import extract
from ampify.model.facts import FileFacts

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
        g = (x for i in y)  #<1,2
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


# The same, `#<` on the line where a function or class begins: what all that is read in it may see.
INSIDE = {
    "a function sees what is there when it is defined": """
        x = 1  #1
        x = f(x)  #2
        def h():  #<2
            x.step()
    """,
    "and what is assigned later": """
        x = 1  #1
        x = 2  #2
        def h():  #<2,3
            x.step()
        h()
        x = 3  #3
    """,
    "in every round of a loop around it": """
        x = 1  #1
        for i in y:
            x = 2  #2
            def h():  #<2,3
                x.step()
            x = 3  #3
    """,
    "of the outermost loop": """
        x = 1  #1
        for j in y:
            x = 2  #2
            while c:
                x = 4  #4
                f(lambda: x)  #<2,3,4
            x = 3  #3
    """,
    "on each way to it": """
        x = 1  #1
        if c:
            x = 2  #2
        else:
            x = 3  #3
            def g():  #<3,4
                x.step()
        class H:  #<2,3,4
            def h(self):
                x.step()
        x = 4  #4
    """,
    "what it is assigned to": """
        x = 1  #1
        x = 2  #2
        x = f(lambda: x)  #<2,3  #3
    """,
    "what a loop is over": """
        x = 1  #1
        x = 2  #2
        for x in map(lambda: x, y):  #<2,3  #3
            pass
    """,
    "in what runs later itself": """
        x = 1  #1
        x = 2  #2
        g = (f(lambda: x) for i in y)  #<2,3
        x = 3  #3
    """,
    "nothing is told apart where it may not be bound yet": """
        def h():  #<
            x.step()
        x = 1  #1
        x = 2  #2
    """,
    "nor where another function sets it": """
        x = 1  #1
        x = 2  #2
        def h():  #<
            x.step()
        def g():
            global x
            x = 3
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_a_read_sees_the_assignments_that_may_be_the_last(name: str) -> None:
    facts, numbers, expected = marked(CASES[name])
    found = reaching(facts, facts.scopes[0]).reads
    seen = {at[0]: {numbers[span[0]] for span in spans} for at, spans in found.items()}
    assert {line: seen.get(line) for line in expected} == expected


@pytest.mark.parametrize("name", INSIDE)
def test_a_function_inside_sees_what_is_assigned_by_then_and_later(name: str) -> None:
    facts, numbers, expected = marked(INSIDE[name])
    found = reaching(facts, facts.scopes[0]).inside
    seen = {facts.scopes[i].span[0]: env["x"] for i, env in found.items() if "x" in env}
    told = {line: {numbers[span[0]] for span in spans} for line, spans in seen.items()}
    assert {line: told.get(line) for line in expected} == expected


def marked(case: str) -> tuple[FileFacts, dict[int, int], dict[int, set[int] | None]]:
    """The facts of a case, and by line the number of an assignment and what is expected."""
    lines = [line[8:] for line in case.split("\n")]
    numbers: dict[int, int] = {}
    expected: dict[int, set[int] | None] = {}
    for at, line in enumerate(lines, 1):
        for mark in re.findall(r"#(<?[\d,]*)", line):
            if mark.startswith("<"):
                expected[at] = {int(n) for n in mark[1:].split(",")} if mark[1:] else None
            else:
                numbers[at] = int(mark)
    return extract("a.py", "\n".join(lines)), numbers, expected


def test_what_a_parameter_was_given_is_gone_after_an_assignment() -> None:
    facts = extract("a.py", "def f(x):\n    g(x)\n    x = 2\n    h(x)\n")
    assert [(at[0], {s[0] for s in spans}) for at, spans in reaching(facts, facts.scopes[1]).reads.items()] == [
        (4, {3})
    ]
