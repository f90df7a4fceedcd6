"""What an expression may evaluate to, in the words of a case.

Objects are named by their class and the line that makes them, `Adam@3`, and after it the lines of the calls that led
there, `Adam@3<7`; of another file, `Adam@build.py:3`. `tensor of`, `parameters of` and `state of` an object are written
so; functions and classes `def main`, `class Net`; a module of the project `module build.py`; what is outside by its
dotted name; what nobody sets `unknown model`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, statements
from ampify.index.values import (
    ClassValue,
    Container,
    Derived,
    External,
    Frame,
    FunctionValue,
    Instance,
    Method,
    ModuleValue,
    NoneValue,
    Opaque,
    Parameters,
    Place,
    State,
    Text,
    Value,
)
from ampify.model import facts as f


def origins(flow: Flow, path: str, line: int, text: str) -> tuple[str, ...]:
    """What the expression of a line that reads `text` may be, over all the ways to get there; sorted."""
    found: set[str] = set()
    for frame, node in _expressions(flow, path, line, text):
        found |= {spell(flow, value, path) for value in flow.evaluate(node, frame)}
    return tuple(sorted(found)) or ("nothing",)


def _expressions(flow: Flow, path: str, line: int, text: str) -> Iterator[tuple[Frame, f.Expr]]:
    facts = flow.files[path]
    seen = False
    for scope in facts.scopes:
        for statement in statements(scope.body):
            for expression in expressions(statement):
                for node, _ in in_order(expression):
                    if node.span[0] != line or facts.text(node.span) != text:
                        continue
                    seen = True
                    for frame in tuple(flow.frames):
                        if frame.path == path and frame.scope == scope.index:
                            yield frame, node
    assert seen, f"{path}:{line} has no expression {text!r}"


def spell(flow: Flow, value: Value, path: str) -> str:
    """A value in words, as seen from a file."""
    match value:
        case Instance():
            name = flow.classes.scope(value.cls).name if value.cls is not None else value.dotted.rpartition(".")[2]
            return f"{name}@{_line(value.place, path)}" + "".join(f"<{_line(site, path)}" for site in value.sites)
        case Container():
            return f"elements@{_line(value.place, path)}"
        case Derived():
            return f"tensor of {spell(flow, value.of, path)}"
        case Parameters():
            return f"parameters of {spell(flow, value.of, path)}"
        case State():
            return f"state of {spell(flow, value.of, path)}"
        case Method():
            return f"{spell(flow, value.of, path)}.{value.name}"
        case FunctionValue():
            return f"def {flow.files[value.path].scopes[value.scope].qualname}"
        case ClassValue():
            return f"class {flow.classes.scope(value).qualname}"
        case ModuleValue():
            return f"module {value.path}"
        case External():
            return value.dotted
        case Text():
            return repr(value.text)
        case NoneValue():
            return "None"
        case Opaque():
            return f"unknown {value.name}"
    return type(value).__name__


def _line(place: Place, path: str) -> str:
    return str(place[1][0]) if place[0] == path else f"{place[0]}:{place[1][0]}"
