"""What is said of a program that was too large to follow: its sites by their names, and one refusal a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ampify import catalog
from ampify.index.evidence import unmet
from ampify.index.programs import Program
from ampify.index.syntax import last_name, nodes
from ampify.model import facts as f
from ampify.model.project import Obstacle, TrainingLoop
from ampify.model.site import Site, SiteKind

_METHODS: dict[str, SiteKind] = {"backward": "backward", "zero_grad": "zero_grad", "step": "step"}
TOO_LARGE = "the program is too large to follow"


class Unfollowed:
    """The loops, sites and obstacles of a program whose analysis ended before it was done. What it had found by then is
    no more than a part, so nothing is made of it."""

    def __init__(self, program: Program) -> None:
        self.loops: list[TrainingLoop] = []
        self._sites = {path: tuple(_sites(program.files[path])) for path in sorted(program.leading)}
        self.obstacles = [self.obstacle(sites) for sites in self._sites.values() if sites]

    def sites(self) -> tuple[Site, ...]:
        """Calls that look like a backward, a step, a `zero_grad` or a clip."""
        return tuple(site for sites in self._sites.values() for site in sites)

    def explained_sites(self) -> tuple[Site, ...]:
        """The sites, with no more evidence than that nothing could be followed."""
        return tuple(replace(site, evidence=unmet(site.anchor, TOO_LARGE)) for site in self.sites())

    @staticmethod
    def obstacle(sites: tuple[Site, ...]) -> Obstacle:
        """One for all sites of a file, at the first backward if there is one."""
        first = min(sites, key=lambda site: (site.kind != "backward", site.anchor))
        others = tuple((site.anchor, f"so is this {site.kind}") for site in sites if site is not first)
        return Obstacle("analysis-budget", first.anchor, "", others)


def _sites(facts: f.FileFacts) -> Iterator[Site]:
    for scope in facts.scopes:
        for node, _ in nodes(scope.body):
            kind = _kind(node)
            if kind is not None:
                yield Site(kind, facts.anchor(node), None)


def _kind(node: f.Expr) -> SiteKind | None:
    if not isinstance(node, f.Call):
        return None
    name = last_name(node.func)
    if name in catalog.CLIPS:
        return "clip"
    if not isinstance(node.func, f.Attribute):
        return None
    if name == "step" and "opt" not in last_name(node.func.value).lower():
        return None
    return _METHODS.get(name)
