"""Has optimizers of torch read what those of NVIDIA apex in their place have saved."""

from __future__ import annotations

from collections.abc import Iterable

from ampify.apex_successors import COUNTED_BY_GROUP, OTHER_STATES, public_name
from ampify.model.apex import ApexLoad, ApexMention
from ampify.model.edit import Edit, InsertBefore, Replace


def reading_edits(load: ApexLoad, mentions: Iterable[ApexMention], quote: str) -> tuple[Edit, ...] | str:
    """The edits of a load into an optimizer that comes off apex; in words, what torch's misses, if there are none."""
    kinds = dict.fromkeys(public_name(mention.dotted) for mention in mentions if mention.call in load.made)
    if load.statement is None or load.argument is None or not all(kind in COUNTED_BY_GROUP for kind in kinds):
        return "; ".join(OTHER_STATES[kind] for kind in kinds)
    state, steps, states = load.names
    groups, parameters, step, own = (f"{quote}{key}{quote}" for key in ("param_groups", "params", "step", "state"))
    lines = (
        f"{state} = {load.source}",
        "# NVIDIA apex counts the steps of a group, torch those of each parameter.",
        f"{steps} = {{p: g.get({step}, 0) for g in {state}[{groups}] for p in g[{parameters}]}}",
        f"{states} = {{p: {{{step}: {steps}[p], **saved}} for p, saved in {state}[{own}].items()}}",
    )
    return (
        InsertBefore(load.statement, "\n".join(lines)),
        Replace(load.argument, f"{{**{state}, {own}: {states}}}"),
    )
