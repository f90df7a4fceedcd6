"""Decides for every mention of apex in a file what of torch takes its place, and what that does to its imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ampify.apex_successors import Successor, nearest_in_torch, public_name, successor
from ampify.model.anchor import Anchor
from ampify.model.apex import ApexFile, ApexMention, ApexName
from ampify.model.edit import Edit, Replace
from ampify.model.facts import FileFacts
from ampify.rules.apex_calls import Unlike, called, chosen

# Stands around an optimizer of the same package, whose step it gives arguments that no other takes.
_AROUND = "FP16_Optimizer"
# The edits of what is not decided here, by the place of the mention: of `apex.amp`, which goes with its loops.
Decided = Mapping[Anchor, tuple[Edit, ...]]


@dataclass(frozen=True, slots=True)
class Taken:
    """A mention that becomes one of torch, and how."""

    mention: ApexMention
    dotted: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """A name of an import that stays on apex: why, and what comes nearest; `at` is the place that keeps it."""

    name: ApexName
    dotted: str
    at: Anchor
    reason: str
    nearest: str


@dataclass(frozen=True, slots=True)
class Fates:
    """What becomes of a file's uses of apex. `imports` is as `import_edits` takes it."""

    imports: Mapping[str, str | None]
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]


def fates(
    facts: FileFacts, file: ApexFile, decided: Decided, gone: Iterable[Anchor] = (), *, amp_stays: bool = False
) -> Fates:
    """What becomes of a file's uses of apex. A class or function moves wherever it is mentioned, or nowhere; what is
    reached through a package goes by itself. What lies in a statement that is `gone` mentions nothing. Nothing is said
    of `apex.amp` where it stays."""
    statements = tuple(gone)
    there = (m for m in file.mentions if not any(anchor.contains(m.anchor) for anchor in statements))
    file = replace(file, mentions=tuple(there))
    imports: dict[str, str | None] = {}
    taken: list[Taken] = []
    left: list[Left] = []
    known: set[str] = set()
    for statement in file.imports:
        for name in (n for n in statement.names if n.apex and n.bound not in known):
            known.add(name.bound)
            if amp_stays and of_amp(name.dotted):
                continue
            found = _of_name(facts, file, name, statement.anchor, decided, amp_stays=amp_stays)
            taken += found.taken
            left += found.left
            if not found.stays:
                imports[name.bound] = found.binds
    return Fates(imports, tuple(taken), tuple(left))


def of_amp(dotted: str) -> bool:
    """Whether a name is that of apex's amp, or of something in it."""
    return dotted == "apex.amp" or dotted.startswith("apex.amp.")


@dataclass(frozen=True, slots=True)
class _Fate:
    """What becomes of one imported name: whether its import stays, or else what it is to bind."""

    stays: bool = True
    binds: str | None = None
    taken: tuple[Taken, ...] = ()
    left: tuple[Left, ...] = ()


def _of_name(
    facts: FileFacts, file: ApexFile, name: ApexName, imported: Anchor, decided: Decided, *, amp_stays: bool
) -> _Fate:
    mentions = [m for m in file.mentions if _means(m, name, file)]
    found = successor(name.dotted)
    shared = name.bound in file.shared or (file.shared and name.bound == "*")
    if shared and (found is None or _differs(found)):
        reason = "other files import it from here"
        return _Fate(left=(Left(name, name.dotted, imported, reason, _nearest(name.dotted)),))
    keeps = shared or (found is not None and _last(found.dotted) == _last(name.dotted))
    taken: list[Taken] = []
    left: list[Left] = []
    staying = [m for m in mentions if amp_stays and of_amp(m.dotted)]
    for same in _together(name, (m for m in mentions if m not in staying and not _settled(m, decided))):
        moved = _all_moved(facts, file, name, same, name.bound if keeps else None)
        if isinstance(moved, Left):
            left.append(moved)
        else:
            taken += moved
    if left or staying:
        return _Fate(taken=tuple(taken), left=tuple(left))
    if name.dotted == "apex.amp" and any(m.role == "test" for m in mentions):
        return _Fate(False, "torch.amp", tuple(taken))
    # What nothing uses binds nothing.
    binds = found.dotted if keeps and found is not None and (mentions or shared) else None
    return _Fate(False, binds, tuple(taken))


def _settled(mention: ApexMention, decided: Decided) -> bool:
    return mention.anchor in decided or (mention.role == "test" and mention.dotted == "apex.amp")


def _together(name: ApexName, mentions: Iterable[ApexMention]) -> Iterable[list[ApexMention]]:
    """The mentions of a name by the class or function that they are of: a package has many."""
    parts: dict[str, list[ApexMention]] = {}
    for mention in mentions:
        inner = successor(name.dotted) is None and mention.dotted != name.dotted
        parts.setdefault(mention.dotted if inner else name.dotted, []).append(mention)
    return parts.values()


def _all_moved(
    facts: FileFacts, file: ApexFile, name: ApexName, mentions: list[ApexMention], bound: str | None
) -> list[Taken] | Left:
    """The mentions of one class or function as those of torch; or why all of them stay."""
    first = mentions[0]
    if _of_optimizers(first.dotted) and any(
        _last(m.dotted) == _AROUND and _of_optimizers(m.dotted) for m in file.mentions
    ):
        reason = f"the {_AROUND} of that package, which stays, calls it in a way of its own"
        return Left(name, first.dotted, first.anchor, reason, _nearest(first.dotted))
    taken: list[Taken] = []
    for mention in mentions:
        moved = _moved(facts, file, mention, bound)
        if isinstance(moved, Unlike):
            return Left(name, mention.dotted, mention.anchor, moved.reason, _nearest(mention.dotted))
        taken.append(moved)
    return taken


def _of_optimizers(dotted: str) -> bool:
    return public_name(dotted).startswith(("apex.optimizers.", "apex.contrib.optimizers."))


def _means(mention: ApexMention, name: ApexName, file: ApexFile) -> bool:
    """Whether a mention is of what an import binds; by a star, of any name of its module that no other import binds."""
    if name.bound != "*":
        return mention.bound == name.bound
    others = {n.bound for statement in file.imports for n in statement.names}
    return mention.bound not in others and mention.dotted.startswith(name.dotted.removesuffix("*"))


def _moved(facts: FileFacts, file: ApexFile, mention: ApexMention, bound: str | None) -> Taken | Unlike:
    """A mention as one of torch, by the name that the import goes on to bind if it is `bound`, else by torch's."""
    found = successor(mention.dotted)
    if found is None:
        return Unlike("nothing of torch does the same")
    found = chosen(found, mention)
    if bound is None and not file.torch:
        return Unlike(f"{found.dotted} does, but `torch` is not imported here as a whole")
    function = bound or found.dotted
    if mention.role == "call":
        edits = called(facts, mention, found, function)
        return (
            Unlike(f"{found.dotted} {edits.reason}")
            if isinstance(edits, Unlike)
            else Taken(mention, found.dotted, edits)
        )
    if mention.role not in ("kind", "test") and _differs(found):
        less = "has other defaults" if found.spelled else "does not take all that it does"
        return Unlike(f"it is handed on, and {found.dotted} {less}")
    same = facts.text((*mention.anchor.start, *mention.anchor.end)) == function
    return Taken(mention, found.dotted, () if same else (Replace(mention.anchor, function),))


def _differs(found: Successor) -> bool:
    """Whether calls that are out of sight could mean something else by torch's signature than by apex's."""
    unknown = set(found.parameters) - set(found.positions) - found.idle
    return bool(found.spelled or found.only or found.renamed or unknown)


def _nearest(dotted: str) -> str:
    found = successor(dotted)
    return found.dotted if found is not None else nearest_in_torch(dotted) or "the documentation of torch"


def _last(dotted: str) -> str:
    return dotted.rpartition(".")[2]
