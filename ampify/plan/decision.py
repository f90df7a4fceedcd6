"""Decides what is done: which findings stand, which loops are migrated whole, and what becomes of every site."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ampify.model.anchor import line_anchor
from ampify.model.edit import Edit, EditLines, edited_path
from ampify.model.finding import Finding, Related
from ampify.model.plan import Plan
from ampify.model.project import Obstacle, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.plan.conflicts import Accepted, edit_anchor
from ampify.plan.ledger import make_ledger, unresolved
from ampify.plan.silence import Comments, read_comments

SKIPPED_PART = ("AMP008", "loop-in-skipped-file")
CASTS_REACH = ("AMP108", "casts-reach-refused-loop")
CONFLICT = ("AMP902", "conflicting-edits")
UNHANDLED = ("AMP903", "unhandled-loop")

_REACH_HINT = (
    "see to that first, put it under `with amp.disable_casts():`, or take --target native, "
    "which casts in the loops it migrates alone"
)
_REPORT_LOOP = "this is a fault of ampify: please report it with the loop"


@dataclass(slots=True)
class _Decision:
    """What has been decided so far. `blocked` gives for each group that is not to be edited the code that says why."""

    heard: list[Finding] = field(default_factory=list)
    unheard: list[Finding] = field(default_factory=list)
    blocked: dict[str, str] = field(default_factory=dict)

    def block(self, group: str | None, code: str) -> None:
        if group is not None:
            self.blocked.setdefault(group, code)

    def refuse(self, finding: Finding) -> None:
        self.heard.append(finding)
        self.block(group_of(finding), finding.code)


def group_of(finding: Finding) -> str | None:
    """The id of what is edited together with this finding: its loop, or itself; None if nothing is."""
    if finding.fix is not None and finding.fix.group is not None:
        return finding.fix.group
    if finding.loop is not None:
        return finding.loop
    where = finding.anchor
    return f"{where.path}:{where.line}:{where.column}:{finding.code}" if finding.fix else None


def make_plan(
    project: Project, findings: Sequence[Finding], settings: Settings, put_back: Sequence[Finding] = ()
) -> Plan:
    """What to do about `findings`.

    `put_back` are failures of later stages: refusing findings, each for the group it names in `loop` (as in the
    `groups` of an earlier plan), which is then left alone.
    """
    comments = read_comments(project.files.values())
    found = (*findings, *unresolved(project.sites, findings), *_unreported(project.obstacles, findings))
    decision = _Decision()
    for failure in put_back:
        decision.refuse(failure)
    for finding in found:
        _hear(finding, decision, comments, settings)
    for remark in comments.unused(found):
        if settings.wants(remark.code, remark.anchor.path):
            decision.heard.append(remark)
    _block_skipped(project, decision, comments, settings)
    accepted = _accept(project.loops, decision)
    while settings.opt_level != "O0" and _block_reaching(project.loops, accepted, decision):
        accepted = _accept(project.loops, decision)
    _block_unhandled(project.loops, decision)
    return _plan(project, decision, accepted)


def _hear(finding: Finding, decision: _Decision, comments: Comments, settings: Settings) -> None:
    """Takes one finding in. What is silenced still forbids what it forbade, and a fix without it is not whole."""
    if comments.silenced(finding) or not settings.wants(finding.code, finding.anchor.path):
        decision.unheard.append(finding)
        if finding.refuses or finding.fix:
            decision.block(group_of(finding), finding.code)
    elif finding.applicability == "unsafe" and not settings.unsafe:
        decision.refuse(replace(_reviewed(finding, "needs --unsafe"), refuses=True))
    elif finding.refuses:
        decision.refuse(finding)
    else:
        decision.heard.append(finding)


def _reviewed(finding: Finding, standing: str) -> Finding:
    """A finding with an unsafe fix that says in its hint how that stands, and what has to be looked at."""
    caution = f": {finding.fix.caution}" if finding.fix and finding.fix.caution else ""
    hint = f"{finding.hint}; {standing}{caution}" if finding.hint else f"{standing}{caution}"
    return replace(finding, hint=hint)


def _block_skipped(project: Project, decision: _Decision, comments: Comments, settings: Settings) -> None:
    if not comments.skipped:
        return
    code = SKIPPED_PART[0]
    for finding in decision.heard:
        if finding.fix and any(edited_path(edit) in comments.skipped for edit in finding.fix.edits):
            decision.block(group_of(finding), code)
    for loop in project.loops:
        places = [loop.anchor, *(site.anchor for site in project.sites if site.loop == loop.id)]
        outside = [place for place in places if place.path not in comments.skipped]
        if len(outside) == len(places) and decision.blocked.get(loop.id) != code:
            continue
        decision.block(loop.id, code)
        if outside and settings.wants(code, outside[0].path):
            message = "part of this training loop is in a file that asks to be skipped, so none of it is migrated"
            hint = "take `# ampify: skip-file` out of that file, or put it in this one too"
            decision.heard.append(Finding(*SKIPPED_PART, outside[0], message, hint, refuses=True, loop=loop.id))


def _accept(loops: Iterable[TrainingLoop], decision: _Decision) -> dict[str, list[Finding]]:
    """The findings whose fixes are made, by group: each group whole, and none that clashes with an earlier one."""
    groups: dict[str, list[Finding]] = {loop.id: [] for loop in loops}
    for finding in decision.heard:
        group = group_of(finding)
        if finding.fix is not None and group is not None:
            groups.setdefault(group, []).append(finding)
    accepted = Accepted()
    made: dict[str, list[Finding]] = {}
    for group, members in groups.items():
        edits = [edit for member in members if member.fix for edit in member.fix.edits]
        if group in decision.blocked or not edits:
            continue
        clash = accepted.clash(edits)
        if clash is None:
            made[group] = members
        else:
            decision.refuse(_conflict(group, *clash))
    return made


def _block_reaching(loops: Iterable[TrainingLoop], accepted: Container[str], decision: _Decision) -> bool:
    """Refuses the loops that are to be initialized and whose casts would reach training that stays as it is; whether
    there are any."""
    known = {loop.id: loop for loop in loops}
    refused = {finding.anchor for finding in decision.heard if finding.refuses and finding.loop is None}
    found = []
    for loop in known.values():
        if loop.id not in accepted or loop.begun:
            continue
        others = [known[other] for other in loop.reaches if other in decision.blocked]
        # What casts and scales by itself stays as it is.
        left = [other.anchor for other in others if other.native is None and not other.begun]
        left += [anchor for anchor in loop.unclear if anchor in refused]
        if left:
            where = loop.initialize_anchor or loop.anchor
            place = f"line {left[0].line_seen_from(where.path)}"
            message = f"amp.initialize casts for all of a run, also for the training in {place}, which is not migrated"
            related = tuple(Related(anchor, "not migrated, and run with these casts") for anchor in left)
            found.append(
                Finding(*CASTS_REACH, where, message, _REACH_HINT, refuses=True, loop=loop.id, related=related)
            )
    for finding in found:
        decision.refuse(finding)
    return bool(found)


def _conflict(group: str, edit: Edit, other: Edit) -> Finding:
    where = edit_anchor(edit) or line_anchor(edited_path(edit), edit.line if isinstance(edit, EditLines) else 1)
    against = edit_anchor(other)
    place = f" (line {against.line})" if against else ""
    message = f"two edits that do not go together meet here{place}, so nothing of this group is changed"
    hint = "this is a fault of ampify: please report it with the lines around it"
    return Finding(*CONFLICT, where, message, hint, refuses=True, loop=group)


def _unreported(obstacles: Iterable[Obstacle], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Refusals of the loops that the index knows an obstacle of and no rule refuses for it."""
    refused = {(finding.loop, finding.name) for finding in findings if finding.refuses}
    for obstacle in obstacles:
        if obstacle.loop is not None and (obstacle.loop, obstacle.kind) not in refused:
            message = f"what is here ({obstacle.kind}) forbids migrating this training loop, and no rule reports it"
            yield Finding(*UNHANDLED, obstacle.anchor, message, _REPORT_LOOP, refuses=True, loop=obstacle.loop)


def _block_unhandled(loops: Iterable[TrainingLoop], decision: _Decision) -> None:
    """A loop that nothing is said of would count as right without being so."""
    spoken_of = {group_of(finding) for finding in decision.heard if finding.fix}
    for loop in loops:
        if not loop.migrated and loop.id not in spoken_of and loop.id not in decision.blocked:
            message = "no rule knows what to do with this training loop, so it is left as it is"
            decision.refuse(Finding(*UNHANDLED, loop.anchor, message, _REPORT_LOOP, refuses=True, loop=loop.id))


def _plan(project: Project, decision: _Decision, made: Mapping[str, list[Finding]]) -> Plan:
    fixed = [finding for members in made.values() for finding in members]
    edits: dict[str, dict[Edit, None]] = {}
    groups = []
    for group, members in made.items():
        own = [edit for member in members if member.fix for edit in member.fix.edits]
        groups.append((group, tuple(sorted({edited_path(edit) for edit in own}))))
        for edit in own:
            edits.setdefault(edited_path(edit), {})[edit] = None
    fixed_ids = set(map(id, fixed))
    others = [finding for finding in (*decision.heard, *decision.unheard) if id(finding) not in fixed_ids]
    refused = {loop.id: decision.blocked[loop.id] for loop in project.loops if loop.id in decision.blocked}
    # Only a loop is one to the reader; other groups are single fixes.
    ids = {loop.id for loop in project.loops}
    # What --unsafe mends has to be looked over: without a word of it the finding would read as if all stood as it was.
    heard = [
        _reviewed(f, "mended by --unsafe") if id(f) in fixed_ids and f.applicability == "unsafe" else f
        for f in decision.heard
    ]
    heard = [f if f.loop in ids else replace(f, loop=None) for f in heard]
    told = {replace(f, loop=None) for f in heard if f.loop is not None}
    heard = [f for f in heard if f.loop is not None or f not in told]
    return Plan(
        edits=tuple((path, tuple(sorted(edits[path], key=_position))) for path in sorted(edits)),
        findings=tuple(sorted(heard, key=lambda finding: (finding.anchor, finding.code))),
        ledger=make_ledger((*project.sites, *project.listed), fixed, others, refused),
        groups=tuple(groups),
    )


def _position(edit: Edit) -> tuple[int, int]:
    anchor = edit_anchor(edit)
    if anchor is not None:
        return anchor.start
    return (edit.line, 0) if isinstance(edit, EditLines) else (0, 0)
