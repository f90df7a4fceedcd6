"""Whether edits leave every name bound, and every name that was there before in its old meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from ampify.gate.scopes import DELETION, UPDATE, Meaning, Scope, import_meaning, scopes_of
from ampify.model.edit import AddElement, AddImport, Edit, Replace


def name_trouble(before: ast.Module, after: ast.Module, edits: Sequence[Edit]) -> str | None:
    """What the edits did to a name that they must not do; None if nothing."""
    old, new = scopes_of(before), scopes_of(after)
    earlier = {scope.path: scope for scope in old.everything()}
    later = list(new.everything())
    troubles = (
        *_newly_unbound(old, earlier, later),
        *_newly_shadowed(earlier, later, edits),
        *_misread_imports(earlier, later, edits),
    )
    return min(troubles, default=None)


def _newly_unbound(old: Scope, earlier: Mapping[tuple[str, ...], Scope], later: Sequence[Scope]) -> Iterator[str]:
    # What `from x import *` may bind is unknown: a name that was read before is taken to be bound by it.
    by_star = {name for scope in old.everything() for name in scope.unbound()} if old.has_star else set()
    for scope in later:
        before = earlier.get(scope.path)
        known = by_star | (set(before.unbound()) if before else set())
        for name in set(scope.unbound()) - known:
            yield f"the name {name!r} would be unbound in {_title(scope)}"


def _newly_shadowed(
    earlier: Mapping[tuple[str, ...], Scope], later: Sequence[Scope], edits: Sequence[Edit]
) -> Iterator[str]:
    for scope in later:
        before = earlier.get(scope.path)
        if before is None:
            continue
        for name, meaning in scope.bound - before.bound:
            gone = before.meanings(name) - scope.meanings(name)
            as_often = before.count_anew(name) == scope.count_anew(name)
            if not (_may_bind(before, scope, name, meaning) or _moves(meaning, gone, edits, as_often=as_often)):
                yield f"the name {name!r} has another meaning in {_title(scope)} already"


def _may_bind(before: Scope, after: Scope, name: str, meaning: Meaning) -> bool:
    """Whether a new binding of `name` leaves what it meant in the scope alone."""
    if meaning == UPDATE:
        return name in before.names()
    staying = (before.meanings(name) & after.meanings(name)) - {DELETION}
    if staying:
        return meaning in staying
    if name in before.names():
        # All that bound it is gone, so this takes its place.
        return True
    return not any(name in scope.loads and _reads_past(scope, before, name) for scope in before.everything())


def _moves(meaning: Meaning, gone: Set[Meaning], edits: Sequence[Edit], *, as_often: bool) -> bool:
    """Whether a binding takes the place of one that is gone: an import from another module, or a replaced value."""
    kind = meaning[0]
    if kind in ("from", "import"):
        name = meaning[-1].rpartition(".")[2]
        return any(other[0] == kind and other[-1].rpartition(".")[2] == name for other in gone)
    # Where a name is bound as often as before, nothing binds it anew: a value was replaced in its place, be it one of
    # several that are alike.
    return kind == "value" and as_often and any(isinstance(edit, Replace | AddElement) for edit in edits)


def _reads_past(reader: Scope, scope: Scope, name: str) -> bool:
    """Whether `name` in `reader`, at or inside `scope`, means something from outside `scope`."""
    if scope.kind == "class" and reader is not scope:
        return False
    home = reader.home(name)
    inside = home is not None and home.path[: len(scope.path)] == scope.path
    return not inside


def _misread_imports(
    earlier: Mapping[tuple[str, ...], Scope], later: Sequence[Scope], edits: Sequence[Edit]
) -> Iterator[str]:
    for edit in edits:
        if isinstance(edit, AddImport):
            for scope in later:
                before = earlier.get(scope.path)
                if scope.loads[edit.bound] > (before.loads[edit.bound] if before else 0):
                    yield from _misread(scope, edit)


def _misread(scope: Scope, edit: AddImport) -> Iterator[str]:
    home = scope.home(edit.bound)
    if home is None or home.parent is None:
        return
    if home.meanings(edit.bound) != {import_meaning(edit.module, edit.name)}:
        yield f"the imported name {edit.bound!r} means something else in {_title(scope)}"


def _title(scope: Scope) -> str:
    names = [label.split("#")[0] for label in scope.path if not label.startswith("<")]
    return f"`{'.'.join(names)}`" if names else "the module"
