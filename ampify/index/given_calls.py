"""Modules whose code calls what others gave them, a loss perhaps: nothing in their own words tells what that does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ampify import catalog
from ampify.index.syntax import calls, children, in_order, last_name, statements
from ampify.model import facts as f

# What makes a field of several things that it is given, and so calls none of them.
HOLDERS = frozenset({"ModuleList", "ModuleDict", "dict", "list", "tuple", "partial"})
OWN_METHODS = catalog.PARAMETER_METHODS | catalog.SAME_OBJECT_METHODS


def may_give_losses(files: Iterable[f.FileFacts]) -> bool:
    """Whether files name a binary cross entropy of probabilities."""
    words = catalog.BINARY_CROSS_ENTROPY | {dotted.rpartition(".")[2] for dotted in catalog.BCE_LOSSES}
    return any(words & (facts.names | facts.read) for facts in files)


def calls_given(methods: Sequence[f.Scope]) -> bool:
    """Whether the methods of a class, inherited ones included, call a parameter, or a field that none of them makes."""
    known = {scope.name for scope in methods} | OWN_METHODS
    known |= {name for scope in methods for name, value in _fields(scope) if not _is_given(value, scope)}
    return any(name not in known for scope in methods if scope.name != "__init__" for name in _called(scope))


def _called(scope: f.Scope) -> Iterator[str]:
    """The parameters that a method calls, and its object's fields; also those of which it calls an element."""
    parameters = [parameter.name for parameter in scope.parameters]
    for call in calls(scope.body):
        called = call.func
        while isinstance(called, f.Subscript):
            called = called.value
        if isinstance(called, f.Name) and called.id in parameters:
            # No field has this name.
            yield f"({called.id})"
        elif isinstance(called, f.Attribute) and _is_object(called.value, scope):
            yield called.attr


def _fields(scope: f.Scope) -> Iterator[tuple[str, f.Expr]]:
    """The fields that a method sets on its object, each with what it is set to."""
    for statement in statements(scope.body):
        if isinstance(statement, f.Assign):
            for target in statement.targets:
                if isinstance(target, f.Attribute) and _is_object(target.value, scope):
                    yield target.attr, statement.value


def _is_object(expr: f.Expr, scope: f.Scope) -> bool:
    """Whether an expression is the object that a method is called on."""
    return isinstance(expr, f.Name) and any(expr.id == parameter.name for parameter in scope.parameters[:1])


def _is_given(value: f.Expr, scope: f.Scope) -> bool:
    """Whether a parameter may be, or be part of, what is assigned; what a call makes of it is something else."""
    parameters = {parameter.name for parameter in scope.parameters[1:]}
    if isinstance(value, f.Name):
        return value.id in parameters
    if isinstance(value, f.Call) and last_name(value.func) not in HOLDERS:
        return False
    if isinstance(value, f.Call):
        return any(isinstance(part, f.Name) and part.id in parameters for part, _ in in_order(value))
    return any(_is_given(part, scope) for part in children(value))
