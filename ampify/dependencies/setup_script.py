"""Reads and extends `setup.py`: the literal lists that reach `install_requires` and `extras_require`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from ampify.dependencies.declaration import (
    RUNTIME_REQUIREMENT,
    TORCH,
    Constraint,
    Declaration,
    Listed,
    parse_requirement,
    specifiers,
)
from ampify.index.extract import extract
from ampify.model import facts as f
from ampify.model.edit import AddElement
from ampify.model.source import SourceFile

_ARGUMENTS = ("install_requires", "extras_require", "python_requires")


def read(source: SourceFile) -> Declaration | None:
    """What a setup script lists; None if this Python cannot read it."""
    try:
        facts = extract(source.path, source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    values = _values(facts)
    required = list(_lists(values, "install_requires"))
    extras = list(_lists(values, "extras_require"))
    listed = tuple(item for elements in (*required, *extras) for item in _listed(elements))
    declaration = Declaration(source.path, listed, python=_python(values))
    if not declaration.lists_torch or declaration.lists_runtime:
        return declaration
    chosen = [elements for elements in required if _torch_item(elements)] or [e for e in extras if _torch_item(e)]
    additions = tuple(AddElement(facts.anchor(elements), _addition(elements, facts)) for elements in chosen)
    return Declaration(source.path, listed, additions, python=declaration.python)


def _values(facts: f.FileFacts) -> Mapping[str, list[f.Expr]]:
    """By name: what is assigned to it, and, for the arguments of `setup`, what is given for them anywhere."""
    values: dict[str, list[f.Expr]] = {}
    for node in _walk(tuple(scope.body for scope in facts.scopes)):
        for name, value in _named(node):
            values.setdefault(name, []).append(value)
    return values


def _named(node: object) -> Iterator[tuple[str, f.Expr]]:
    match node:
        case f.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, f.Name))
        case f.Call(keywords=keywords):
            yield from ((f"{name}=", value) for name, value in keywords if name in _ARGUMENTS)
        case f.Mapping(keys=keys, values=items):
            named = ((key.value, item) for key, item in zip(keys, items, strict=True) if isinstance(key, f.Constant))
            yield from ((f"{name}=", item) for name, item in named if name in _ARGUMENTS)


def _lists(values: Mapping[str, list[f.Expr]], argument: str) -> Iterator[f.Elements]:
    """The displays that an argument is made of, through the names it mentions; each once."""
    seen: set[str] = set()
    waiting = [f"{argument}="]
    while waiting:
        name = waiting.pop(0)
        seen.add(name)
        for node in _walk(tuple(values.get(name, ()))):
            if isinstance(node, f.Elements):
                yield node
            if isinstance(node, f.Name) and node.id not in seen:
                waiting.append(node.id)


def _walk(part: object) -> Iterator[object]:
    if isinstance(part, tuple):
        for item in part:
            yield from _walk(item)
    elif is_dataclass(part) and not isinstance(part, type):
        yield part
        for attribute in fields(part):
            yield from _walk(getattr(part, attribute.name))


def _strings(elements: f.Elements) -> Iterator[tuple[f.Constant, str]]:
    for item in elements.items:
        if isinstance(item, f.Constant) and isinstance(item.value, str):
            yield item, item.value


def _listed(elements: f.Elements) -> Iterator[Listed]:
    for item, text in _strings(elements):
        listed = parse_requirement(text, item.span[0])
        if listed is not None:
            yield listed


def _torch_item(elements: f.Elements) -> f.Constant | None:
    for item, text in _strings(elements):
        listed = parse_requirement(text, item.span[0])
        if listed is not None and listed.name == TORCH:
            return item
    return None


def _addition(elements: f.Elements, facts: f.FileFacts) -> str:
    item = _torch_item(elements)
    quote = facts.text(item.span)[-1] if item else facts.quote
    return f"{quote}{RUNTIME_REQUIREMENT}{quote}"


def _python(values: Mapping[str, list[f.Expr]]) -> Constraint | None:
    for value in values.get("python_requires=", ()):
        if isinstance(value, f.Constant) and isinstance(value.value, str):
            return Constraint(f"python_requires {value.value}", value.span[0], specifiers(value.value))
    return None
