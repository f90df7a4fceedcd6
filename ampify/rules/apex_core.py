"""What a program's loops take along when they leave apex's amp: the mentions that go, and what keeps them all there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ampify.apex_successors import nearest_in_torch
from ampify.model.anchor import Anchor
from ampify.model.apex import ApexGroup, ApexMention
from ampify.model.edit import Edit
from ampify.model.project import Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.apex_functions import function_edits

_LEVEL = "O1"
# What goes with the loop that it is part of.
_OF_LOOPS = frozenset({"initialize", "load_state_dict", "master_params", "scale_loss", "state_dict"})


@dataclass(frozen=True, slots=True)
class Core:
    """What becomes of a group's `apex.amp`. `decided` has the edits of mentions outside of loops, and none for those
    that go with a loop; `gone` are statements that go whole; `kept` is the place that keeps all on apex, and why."""

    group: str
    loops: tuple[TrainingLoop, ...]
    decided: Mapping[Anchor, tuple[Edit, ...]]
    gone: tuple[Anchor, ...]
    kept: tuple[Anchor, str] | None = None


def core(project: Project, settings: Settings, group: ApexGroup) -> Core:
    """What becomes of a group's `apex.amp`."""
    ours = [loop for loop in project.loops if loop.id in group.loops]
    leaving = tuple(loop for loop in ours if loop.apex is not None)
    decided = dict(_of_loops(group, leaving))
    for mention in _amp(group, leaving):
        if mention.anchor not in decided:
            edits = function_edits(project, mention)
            if edits is not None:
                decided[mention.anchor] = edits
    gone = tuple(dict.fromkeys(_gone(leaving)))
    name = leaving[0].id if len(leaving) == 1 else group.id
    kept = _kept(project, settings, group, ours, leaving, decided)
    return Core(name, leaving, decided, gone, kept)


def _amp(group: ApexGroup, leaving: Iterable[TrainingLoop]) -> Iterator[ApexMention]:
    """The mentions of amp, and, where a loop leaves an optimizer that keeps masters, of what belongs to that."""
    roots = ["apex.amp", "apex.fp16_utils"] if any(map(_of_masters, leaving)) else ["apex.amp"]
    for file in group.files:
        for mention in file.mentions:
            if any(mention.dotted == root or mention.dotted.startswith(f"{root}.") for root in roots):
                yield mention


def _of_masters(loop: TrainingLoop) -> bool:
    """Whether a loop leaves an optimizer that keeps masters."""
    return loop.apex is not None and not any(place.present for place in loop.initializes)


def _of_loops(group: ApexGroup, loops: tuple[TrainingLoop, ...]) -> Iterator[tuple[Anchor, tuple[Edit, ...]]]:
    """The mentions that go with the loops' own edits."""
    calls: set[Anchor] = set()
    for loop in loops:
        assert loop.apex is not None
        plan = loop.apex
        calls |= {start.call for start in plan.starts} | {block.call for block in plan.blocks}
        calls |= {masters.call for masters in plan.masters} | {state.call for state in plan.states}
        calls |= {call for change in plan.changes for call in change.calls}
    for mention in _amp(group, loops):
        if mention.call in calls or mention.anchor in calls:
            yield mention.anchor, ()


def _gone(loops: tuple[TrainingLoop, ...]) -> Iterator[Anchor]:
    for loop in loops:
        assert loop.apex is not None
        yield from (start.before for start in loop.apex.starts if start.alone)
        yield from (change.anchor for change in loop.apex.changes if not change.code)


def _kept(
    project: Project,
    settings: Settings,
    group: ApexGroup,
    ours: list[TrainingLoop],
    leaving: tuple[TrainingLoop, ...],
    decided: Mapping[Anchor, tuple[Edit, ...]],
) -> tuple[Anchor, str] | None:
    """What keeps a group on apex's amp, if something does."""
    mentions = list(_amp(group, leaving))
    if not mentions:
        return None
    if settings.opt_level != _LEVEL:
        return mentions[0].anchor, "the script names its own opt level: leave --opt-level away"
    masters = any(map(_of_masters, leaving))
    for loop in ours:
        if loop.apex is None and (masters or (loop.through_amp and not loop.masters)):
            return loop.anchor, f"this training loop cannot leave it{_why(project, loop)}"
    if len(leaving) > 1 and any(loop.apex.states for loop in leaving if loop.apex is not None):
        return mentions[0].anchor, "amp's state is that of several loops, which would have a scaler each"
    gone = tuple(_gone(leaving))
    for mention in mentions:
        if mention.anchor in decided or mention.role == "test" or any(at.contains(mention.anchor) for at in gone):
            continue
        return mention.anchor, _unlike(mention.dotted)
    return None


def _why(project: Project, loop: TrainingLoop) -> str:
    """Where another finding says what a loop is refused for."""
    found = next((obstacle for obstacle in project.obstacles if obstacle.loop == loop.id), None)
    return "" if found is None else f" ({found.kind}, {found.anchor.path}:{found.anchor.line})"


def _unlike(dotted: str) -> str:
    name = dotted.removeprefix("apex.amp.")
    if name in _OF_LOOPS:
        return f"{dotted} stands here in no training loop that could be followed from its model to its step"
    return f"{dotted} is used here in a way that torch has no equal of; nearest: {nearest_in_torch(dotted)}"
