"""What of apex leaves a file by itself, be its amp to stay or absent: which imports go together, and how safely."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

from ampify.apex_successors import public_name
from ampify.index.grouping import Groups
from ampify.model.apex import ApexFile, ApexGroup, ApexImport, ApexMention
from ampify.rules.apex_fates import Fates

_INITIALIZE = "apex.amp.initialize"
_BY_POSITION = (None, 3)
# The levels that leave float32 parameters to the optimizer.
_WIDE = frozenset({"O0", "O1", "O2"})


def units(file: ApexFile, found: Fates) -> Iterator[tuple[ApexFile, Fates]]:
    """A file and the fates in it, parted by its import statements; those that share a `try` or a name stay together."""
    for imports in _tied(file.imports):
        bound = {name.bound for statement in imports for name in statement.names if name.apex}
        here = tuple(t for t in found.taken if t.mention.bound in bound or ("*" in bound and _by_star(file, t.mention)))
        goes = {name: to for name, to in found.imports.items() if name in bound}
        yield replace(file, imports=imports), Fates(goes, here, ())


def _by_star(file: ApexFile, mention: ApexMention) -> bool:
    return all(mention.bound != name.bound for statement in file.imports for name in statement.names)


def _tied(imports: Iterable[ApexImport]) -> list[tuple[ApexImport, ...]]:
    together, known = Groups(), tuple(imports)
    for statement in known:
        attempt = () if statement.attempt is None else (statement.attempt,)
        together.merge([statement, *(name.bound for name in statement.names), *attempt])
    tied: dict[Hashable, list[ApexImport]] = {}
    for statement in known:
        tied.setdefault(together.find(statement), []).append(statement)
    return [tuple(statements) for statements in tied.values()]


def steps_in_half(group: ApexGroup, mention: ApexMention) -> bool:
    """Whether it is an optimizer whose parameters may be in half precision: torch's would compute in that."""
    if not public_name(mention.dotted).startswith("apex.optimizers."):
        return False
    begun = (m for file in group.files for m in file.mentions if m.dotted == _INITIALIZE)
    return group.half or not all(map(_keeps_wide, begun))


def _keeps_wide(begun: ApexMention) -> bool:
    """Whether a call of `amp.initialize` surely leaves float32 parameters to the optimizer."""
    if begun.arguments is None:
        return False
    levels = [a.text for at, a in enumerate(begun.arguments) if a.name == "opt_level" or (a.name, at) == _BY_POSITION]
    return all(text.strip("\"'") in _WIDE for text in levels)
