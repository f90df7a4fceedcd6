"""Writes import statements anew without what they took from apex, and takes away the `try` that was there for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ampify.model.anchor import Anchor
from ampify.model.apex import ApexAttempt, ApexFile, ApexImport, ApexName
from ampify.model.edit import Delete, Edit, InsertAfter, InsertBefore
from ampify.model.facts import FileFacts

_COMMENT = re.compile(r"#.*")


def import_edits(
    facts: FileFacts, file: ApexFile, fates: Mapping[str, str | None], gone: Iterable[Anchor] = ()
) -> tuple[Edit, ...]:
    """The edits of a file's imports. `fates` gives for a name that they bind the dotted name of torch that it is to
    mean from now on, or None if nothing uses it any more; names that are not in it stay. What lies in a statement that
    is `gone` needs no edit."""
    edits: list[Edit] = []
    attempts: dict[Anchor, ApexAttempt] = {}
    for statement in file.imports:
        if any(anchor.contains(statement.anchor) for anchor in gone):
            continue
        attempt = statement.attempt
        if attempt is not None and _all_go(_inside(file, attempt), fates):
            attempts[attempt.anchor] = attempt
        elif any(_changes(name, fates) for name in statement.names):
            edits += _replaced(statement.anchor, _lines(facts, statement, fates))
    for attempt in attempts.values():
        edits += _replaced(attempt.anchor, _body(facts, file, attempt, fates))
    return tuple(edits)


def _changes(name: ApexName, fates: Mapping[str, str | None]) -> bool:
    return name.apex and name.bound in fates


def _inside(file: ApexFile, attempt: ApexAttempt) -> Iterator[ApexImport]:
    return (statement for statement in file.imports if statement.attempt == attempt)


def _all_go(statements: Iterable[ApexImport], fates: Mapping[str, str | None]) -> bool:
    return all(_changes(name, fates) for statement in statements for name in statement.names if name.apex)


def _replaced(anchor: Anchor, lines: Iterable[str]) -> Iterator[Edit]:
    code = "\n".join(dict.fromkeys(lines))
    if code:
        # After a statement with a block, or what is commented on above it would come to stand below.
        yield InsertAfter(anchor, code) if anchor.kind == "Try" else InsertBefore(anchor, code)
    yield Delete(anchor)


def _body(facts: FileFacts, file: ApexFile, attempt: ApexAttempt, fates: Mapping[str, str | None]) -> Iterator[str]:
    """The statements of a `try`, those that are imports of apex as they are to be."""
    imports = {statement.anchor: statement for statement in _inside(file, attempt)}
    for anchor in attempt.body:
        if anchor in imports:
            yield from _lines(facts, imports[anchor], fates)
        else:
            yield facts.text((*anchor.start, *anchor.end))


def _lines(facts: FileFacts, statement: ApexImport, fates: Mapping[str, str | None]) -> Iterator[str]:
    """An import statement as it is to be: none, one or several."""
    kept = [name for name in statement.names if not _changes(name, fates)]
    comments = _COMMENT.findall(facts.text((*statement.anchor.start, *statement.anchor.end)))
    yield from comments
    if kept and kept[0].attribute:
        module = kept[0].dotted.rpartition(".")[0]
        yield f"from {module} import {', '.join(name.spelled for name in kept)}"
    elif kept:
        yield f"import {', '.join(name.spelled for name in kept)}"
    for name in statement.names:
        successor = fates.get(name.bound) if name.apex else None
        if successor is not None:
            yield import_line(successor, name.bound)


def import_line(dotted: str, bound: str) -> str:
    """The statement that makes a dotted name of torch known as `bound`."""
    module, _, name = dotted.rpartition(".")
    return f"from {module} import {name}" + ("" if name == bound else f" as {bound}")
