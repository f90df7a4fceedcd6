"""The final state of every site: rewritten, right, no training, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ampify.model.anchor import Anchor
from ampify.model.finding import Finding
from ampify.model.site import LedgerEntry, Site

UNRESOLVED = ("AMP209", "unresolved-receiver")


def unresolved(sites: Iterable[Site], findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Refusals of the training sites that belong to no loop and that no rule has anything to say of."""
    said = _by_path(findings)
    return tuple(
        _unresolved(site)
        for site in sites
        if site.loop is None and site.training and not any(speaks_of(f, site) for f in said.get(site.anchor.path, ()))
    )


def make_ledger(
    sites: Iterable[Site],
    fixed: Iterable[Finding],
    other: Iterable[Finding],
    refused: Mapping[str, str],
) -> tuple[LedgerEntry, ...]:
    """The state of each site, by place.

    `fixed` are the findings whose edits are made, `other` all that were ever found besides; `refused` gives for each
    refused loop the code that says why.
    """
    made, left = _by_path(fixed), _by_path(other)
    entries = [_entry(site, made, left, refused) for site in sites]
    return tuple(sorted(entries, key=by_place))


def by_place(entry: LedgerEntry) -> tuple[Anchor, str]:
    """The order of a ledger."""
    return entry.site.anchor, entry.site.kind


def _entry(
    site: Site,
    made: Mapping[str, list[Finding]],
    left: Mapping[str, list[Finding]],
    refused: Mapping[str, str],
) -> LedgerEntry:
    if not site.training:
        return LedgerEntry(site, "not_training", "")
    unfixed = [finding for finding in left.get(site.anchor.path, ()) if speaks_of(finding, site)]
    refusal = next((finding.code for finding in unfixed if finding.refuses), None)
    if site.loop is not None and site.loop in refused:
        return LedgerEntry(site, "refused", refusal or refused[site.loop])
    there = (finding for finding in made.get(site.anchor.path, ()) if _same_place(finding.anchor, site.anchor))
    fix = next((finding.code for finding in there), None)
    if fix:
        return LedgerEntry(site, "rewritten", fix)
    if refusal is None and site.loop is None and unfixed:
        refusal = unfixed[0].code
    return LedgerEntry(site, "refused", refusal) if refusal else LedgerEntry(site, "right", "")


def _unresolved(site: Site) -> Finding:
    message = f"nothing shows which model and optimizer this {site.kind} belongs to, so it is left as it is"
    hint = "give the object a name that can be followed to where it is made, and add the files that make it"
    return Finding(*UNRESOLVED, site.anchor, message, hint, refuses=True)


def _by_path(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        for path in dict.fromkeys([finding.anchor.path, *(related.anchor.path for related in finding.related)]):
            by_path.setdefault(path, []).append(finding)
    return by_path


def speaks_of(finding: Finding, site: Site) -> bool:
    """Whether a finding, or a place it points to, is a site's."""
    return _same_place(finding.anchor, site.anchor) or any(r.anchor == site.anchor for r in finding.related)


def _same_place(one: Anchor, other: Anchor) -> bool:
    if one == other:
        return True
    if one.compound or other.compound:
        return False
    return one.contains(other) or other.contains(one)
