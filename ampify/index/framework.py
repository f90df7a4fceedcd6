"""What it means for a file's obstacles that a framework, or another kind of mixed precision, is in charge of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ampify import catalog
from ampify.index.obstacles import of_file
from ampify.index.syntax import parts, statements
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.project import Obstacle
from ampify.model.site import Site

# Kind of obstacle, place, and what is used there.
Use: TypeAlias = tuple[str, Anchor, str]

# Where a framework is in charge, a site that cannot be followed is its doing, and the framework is the news.
CAUSED = frozenset({"backward-without-step", "unresolved-optimizer", "foreign-backward", "step-without-backward"})


def in_charge(
    obstacles: Iterable[Obstacle], sites: Iterable[Site], files: Mapping[str, f.FileFacts]
) -> tuple[Obstacle, ...]:
    """Obstacles of which none is another's consequence, one a file and framework at least.

    A file's framework takes on the training sites that belong to no loop: they are its `related` places. Where none
    stands in the file, and no loop has the obstacle, it is kept if the file puts the framework to work.
    """
    found = {path: of_file(facts) for path, facts in files.items()}
    kept = list(_causes(tuple(obstacles), found))
    loose = _loose(sites)
    for path, uses in found.items():
        for kind, anchor, detail in uses:
            taken = loose.get(path, ())
            held = next((i for i, o in enumerate(kept) if o.kind == kind and o.anchor.path == path), None)
            if held is not None:
                kept[held] = replace(kept[held], related=(*kept[held].related, *taken))
            elif taken or works_for(files[path], kind):
                kept.append(Obstacle(kind, anchor, detail, taken))
    return tuple(kept)


def _causes(obstacles: tuple[Obstacle, ...], found: Mapping[str, tuple[Use, ...]]) -> Iterator[Obstacle]:
    """All but what a framework causes; of a loop's only if the loop is refused for that framework."""
    charged = {(o.loop, o.anchor.path) for o in obstacles if o.kind in {kind for kind, _, _ in found[o.anchor.path]}}
    for obstacle in obstacles:
        path = obstacle.anchor.path
        charge = bool(found[path]) and (obstacle.loop is None or (obstacle.loop, path) in charged)
        if not (charge and obstacle.kind in CAUSED):
            yield obstacle


def _loose(sites: Iterable[Site]) -> dict[str, tuple[tuple[Anchor, str], ...]]:
    """By file, the training sites that belong to no loop."""
    loose: dict[str, tuple[tuple[Anchor, str], ...]] = {}
    for site in sites:
        if site.loop is None and site.training:
            path = site.anchor.path
            loose[path] = (*loose.get(path, ()), (site.anchor, f"this {site.kind} is left to it"))
    return loose


def works_for(facts: f.FileFacts, kind: str) -> bool:
    """Whether a file derives from a class of the framework that lends it its loop, or makes an object of one."""
    entries = catalog.FRAMEWORK_ENTRIES.get(kind, frozenset())
    roots = {root for root, loop in (*catalog.FRAMEWORKS, ("transformers", "trainer-loop")) if loop == kind}
    given = {
        name.bound: name.attribute or name.bound
        for scope in facts.scopes
        for statement in statements(scope.body)
        if isinstance(statement, f.Import)
        for name in statement.names
        if name.module.partition(".")[0] in roots
    }
    return any(_entry(node, given) in entries for node in _bases_and_callees(facts))


def _bases_and_callees(facts: f.FileFacts) -> Iterator[f.Expr]:
    for scope in facts.scopes:
        yield from scope.bases
        yield from (node.func for node in parts(scope.body) if isinstance(node, f.Call))


def _entry(node: f.Expr, given: Mapping[str, str]) -> str:
    """The last part of the imported name that an expression means, "" if it means none."""
    if isinstance(node, f.Attribute):
        return node.attr if isinstance(node.value, f.Name) and node.value.id in given else ""
    return given.get(node.id, "") if isinstance(node, f.Name) else ""
