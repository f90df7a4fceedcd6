"""What is said of a program that was too large to follow: its sites by their names, and one refusal a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ampify.index.evidence import unmet
from ampify.index.listed import named_sites
from ampify.index.programs import Program
from ampify.model.project import Obstacle, TrainingLoop
from ampify.model.site import Site

TOO_LARGE = "the program is too large to follow"


class Unfollowed:
    """The loops, sites and obstacles of a program whose analysis ended before it was done. What it had found by then is
    no more than a part, so nothing is made of it."""

    def __init__(self, program: Program) -> None:
        self.loops: list[TrainingLoop] = []
        self._sites = {
            path: tuple(
                Site(n.kind, program.files[path].anchor(n.node), None) for n in named_sites(program.files[path])
            )
            for path in sorted(program.leading)
        }
        self.obstacles = [self.obstacle(sites) for sites in self._sites.values() if sites]

    def sites(self) -> tuple[Site, ...]:
        """All that looks like a site, by its name."""
        return tuple(site for sites in self._sites.values() for site in sites)

    @staticmethod
    def explained(sites: Iterable[Site]) -> tuple[Site, ...]:
        """Sites with no more evidence than that nothing could be followed."""
        return tuple(replace(site, evidence=unmet(site.anchor, TOO_LARGE)) for site in sites)

    @staticmethod
    def listed(sites: Iterable[Site]) -> tuple[Site, ...]:
        """Nothing besides: the sites are told by their names already."""
        return ()

    @staticmethod
    def obstacle(sites: tuple[Site, ...]) -> Obstacle:
        """One for all sites of a file, at the first backward if there is one."""
        first = min(sites, key=lambda site: (site.kind != "backward", site.anchor))
        others = tuple((site.anchor, f"so is this {site.kind}") for site in sites if site is not first)
        return Obstacle("analysis-budget", first.anchor, "", others)
