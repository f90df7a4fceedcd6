"""The chain of evidence of a site is the one that the code of a case says.

A case under `chains/` reads like the others; a `#>` comment lists all chains of the sites on its line, hops apart by
` <- `. A hop is a line, of another file with its path, and how the object came from there; at the place of the hop
before it, how alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ampify.index import build_project
from ampify.model.evidence import Chain
from ampify.model.settings import Settings
from ampify.model.site import Site
from tests.index.annotated import Case, read_case

CASES = {
    path.stem: read_case(path.stem, path.read_bytes().decode())
    for path in sorted((Path(__file__).parent / "chains").glob("*.txt"))
}


def spelled(chain: Chain, path: str) -> str:
    """A chain in the words of a case, as seen from a file."""
    parts = [chain.object]
    before: tuple[str, int] | None = None
    for hop in chain.hops:
        place = str(hop.line) if hop.path == path else f"{hop.path}:{hop.line}"
        told = "" if (hop.path, hop.line) == before else f"{place} "
        parts.append(f"lost at {place}: {hop.how}" if hop.lost else f"{told}{hop.how}")
        before = (hop.path, hop.line)
    return " <- ".join(parts)


def chains_at(sites: tuple[Site, ...], path: str, line: int) -> Iterator[str]:
    for site in sites:
        if (site.anchor.path, site.anchor.line) == (path, line):
            yield from (spelled(chain, path) for chain in site.evidence)


def sites_of(case: Case, **settings: bool) -> tuple[Site, ...]:
    return build_project(case.sources, Settings(**settings)).sites


@pytest.mark.parametrize("name", CASES)
def test_chains_are_what_the_code_says(name: str) -> None:
    case = CASES[name]
    sites = sites_of(case, evidence=True)
    lines = dict.fromkeys((mark.path, mark.line) for mark in case.marks)
    expected = {place: sorted(m.text for m in case.marks if (m.path, m.line) == place) for place in lines}
    assert expected
    assert {place: sorted(chains_at(sites, *place)) for place in lines} == expected


@pytest.mark.parametrize("name", CASES)
def test_every_site_has_evidence_and_is_the_same_site_without(name: str) -> None:
    explained = sites_of(CASES[name], evidence=True)
    assert all(chain.hops for site in explained for chain in site.evidence)
    assert all(site.evidence for site in explained)
    plain = sites_of(CASES[name])
    assert [(s.kind, s.anchor, s.loop, s.training) for s in explained] == [
        (s.kind, s.anchor, s.loop, s.training) for s in plain
    ]
    assert not any(site.evidence for site in plain)
