"""Under what name a file has `amp`, and whether it surely has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify import catalog
from ampify.index.syntax import last_name, statements
from ampify.model import facts as f

_EXITS = frozenset({"exit", "_exit"})


def sure_name(facts: f.FileFacts, module: str) -> str | None:
    """The name that an import of amp binds whenever the file is imported, if there is one."""
    return _bound(_sure(facts.scopes[0].body), module)


def possible_name(facts: f.FileFacts, module: str) -> str | None:
    """The name that an import of amp binds anywhere in the file, if there is one."""
    return _bound(facts.imports, module)


def name_to_use(facts: f.FileFacts, module: str) -> str:
    """The name that amp is to have in new code: that of an import of the module's own, if there is one. One that a
    function binds for itself is none to share: where it does not get to its import, the name is not bound."""
    own = statements(facts.scopes[0].body)
    return sure_name(facts, module) or _bound(own, module) or free_name(facts)


def free_name(facts: f.FileFacts) -> str:
    """A name for amp that the file does not use yet."""
    return next((n for n in ("amp", "ampify_amp") if n not in facts.names), "ampify_runtime_amp")


def _bound(imports: Iterable[f.Stmt], module: str) -> str | None:
    roots = (module, catalog.RUNTIME, catalog.APEX)
    for statement in imports:
        for name in statement.names if isinstance(statement, f.Import) else ():
            dotted = f"{name.module}.{name.attribute}" if name.attribute else name.module
            if dotted in [f"{root}.amp" for root in roots] and name.bound not in roots:
                return name.bound
    return None


def _sure(body: Iterable[f.Stmt]) -> Iterator[f.Stmt]:
    """The statements that run, or the module is not imported at all."""
    for statement in body:
        yield statement
        if isinstance(statement, f.Try) and all(map(_ends, statement.handlers)):
            yield from _sure(statement.body)


def _ends(block: tuple[f.Stmt, ...]) -> bool:
    """Whether a block ends the program."""
    last = block[-1] if block else None
    if isinstance(last, f.Evaluate) and isinstance(last.value, f.Call):
        return last_name(last.value.func) in _EXITS
    return isinstance(last, f.Jump) and last.kind == "Raise"
