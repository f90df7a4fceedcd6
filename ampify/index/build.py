"""The index: from the text of a project's files to its training loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ampify.index.amp_imports import name_to_use, possible_name, sure_name
from ampify.index.apex_loads import apex_loads
from ampify.index.apex_uses import apex_groups, leaving
from ampify.index.contexts import COARSE, PRECISE
from ampify.index.evidence import unmet
from ampify.index.flow import Flow
from ampify.index.framework import in_charge
from ampify.index.listed import by_path, unlisted
from ampify.index.loops import Loops
from ampify.index.old_amp import respellings
from ampify.index.programs import Program, programs
from ampify.index.reading import read_facts
from ampify.index.trace import Trace
from ampify.index.unfollowed import Unfollowed
from ampify.model import facts as f
from ampify.model.anchor import line_anchor
from ampify.model.apex import ApexLoad
from ampify.model.finding import Finding
from ampify.model.progress import Told, untold
from ampify.model.project import Obstacle, Project, TrainingLoop
from ampify.model.settings import Settings, Target
from ampify.model.site import Site
from ampify.model.source import SourceFile
from ampify.stack import with_much_room

# Of the budget, for a program in which nothing calls a backward: it has no loop to lose if that is too little.
SEARCH_SHARE = 0.2
BESIDE = "no training starts from this file"
ASIDE = "this file has to do with no training: nothing in it, or in what uses it, runs a backward pass"


def build_project(
    sources: Sequence[SourceFile],
    settings: Settings,
    known: Mapping[str, f.FileFacts | Finding] | None = None,
    crowded: frozenset[str] = frozenset(),
    told: Told = untold,
) -> Project:
    """Reads files and finds the training loops across them; a file that does not parse becomes a finding.

    `known` are facts of files whose text is the same as when they were made, or the findings on these files;
    `crowded` are files that more others use than can be followed, so that nothing in them is migrated. `told` hears
    how far it is.
    """
    files: dict[str, f.FileFacts] = {}
    unreadable: list[Finding] = []
    for source in sorted(sources, key=lambda s: s.path):
        facts = (known or {}).get(source.path) or _read(source)
        if isinstance(facts, f.FileFacts):
            files[source.path] = facts
        else:
            unreadable.append(facts)
    loops: list[TrainingLoop] = []
    sites: list[Site] = []
    listed: list[Site] = []
    obstacles: list[Obstacle] = []
    loads: list[ApexLoad] = []
    together = programs(files, crowded)
    for number, program in enumerate(together):
        told("following program", number, len(together), min(program.leading))
        found = _analysed(program, settings)
        if isinstance(found, Finding):
            unreadable.append(found)
            continue
        loops += found.loops
        sites += found.sites
        listed += found.listed
        obstacles += found.obstacles
        loads += found.loads
    leading = frozenset[str]().union(*(program.leading for program in together))
    listed += _beside(files.values(), leading, sites, explained=settings.evidence)
    apex = apex_groups(files, sites)
    module = settings.runtime_module
    sure = {path: name for path, facts in files.items() if (name := sure_name(facts, module)) is not None}
    possible = {path: name for path, facts in files.items() if (name := possible_name(facts, module)) is not None}
    return Project(
        files=files,
        loops=tuple(leaving(loops, apex)),
        sites=tuple(sorted(sites, key=lambda s: (s.anchor, s.kind))),
        listed=tuple(sorted(listed, key=lambda s: (s.anchor, s.kind))),
        obstacles=in_charge(obstacles, sites, files),
        unreadable=tuple(unreadable),
        amp_names={path: name_to_use(facts, module) for path, facts in files.items()},
        imports_amp=frozenset(sure),
        may_import_amp=frozenset(possible) - frozenset(sure),
        apex=apex,
        apex_loads=tuple(loads),
        crowded=crowded,
        old_amp=respellings(files),
    )


def _beside(
    files: Iterable[f.FileFacts], leading: frozenset[str], sites: Sequence[Site], *, explained: bool
) -> Iterator[Site]:
    """What looks like a site in files that no program starts from: training code uses them, and they hold none."""
    known = by_path(sites)
    for facts in files:
        if facts.path not in leading:
            yield from _idle(facts, known.get(facts.path, ()), BESIDE if explained else "")


def sites_aside(files: Iterable[f.FileFacts], *, explained: bool) -> Iterator[Site]:
    """What looks like a site in files that belong to no project of `build_project`, for nothing there trains."""
    for facts in files:
        yield from _idle(facts, (), ASIDE if explained else "")


def _idle(facts: f.FileFacts, known: Iterable[Site], why: str) -> Iterator[Site]:
    for named in unlisted(facts, known):
        anchor = facts.anchor(named.node)
        yield Site(named.kind, anchor, None, training=False, evidence=unmet(anchor, why) if why else ())


@dataclass(frozen=True, slots=True)
class _Found:
    """What became of a program."""

    loops: Sequence[TrainingLoop]
    obstacles: Sequence[Obstacle]
    sites: tuple[Site, ...]
    listed: tuple[Site, ...]
    loads: tuple[ApexLoad, ...] = ()


def _found(program: Loops | Unfollowed, *, explained: bool) -> _Found:
    sites = program.sites()
    listed = program.listed(sites)
    if explained:
        sites, listed = program.explained(sites), program.explained(listed)
    loads = tuple(apex_loads(program.flow, program.trace)) if isinstance(program, Loops) else ()
    return _Found(program.loops, program.obstacles, sites, listed, loads)


def _analysed(program: Program, settings: Settings) -> _Found | Finding:
    """The loops of a program, or a finding where the analysis itself failed: other programs go on."""
    try:
        return _found(_followed(program, settings.target), explained=settings.evidence)
    except Exception as failure:  # noqa: BLE001 (a fault of ours in one program must not keep others from migrating)
        return _failed(program, failure)


def _followed(program: Program, target: Target) -> Loops | Unfollowed:
    """A program followed as precisely as the budgets allow. One that cannot train is not worth a second look."""
    found: Loops | Unfollowed = Unfollowed(program)
    for precision in (PRECISE, COARSE) if program.may_train() else (PRECISE,):
        flow = Flow(program.files, program.leading, program.modules, program.shortfall, precision)
        flow.solve(1.0 if program.may_train() else SEARCH_SHARE)
        if flow.exhausted and not program.shortfall:
            continue
        trace = Trace(flow)
        trace.run()
        found = Loops(flow, trace, target)
        found.find()
        if not trace.exhausted:
            break
    return found


def _failed(program: Program, failure: Exception) -> Finding:
    others = len(program.leading) - 1
    beside = f" and {others} more that belong to it" if others else ""
    message = f"ampify could not follow this file{beside}, and left all as it is: {type(failure).__name__}: {failure}"
    hint = "this is a fault of ampify: please report it with the files"
    return Finding("AMP901", "internal-failure", line_anchor(min(program.leading), 1), message, hint, refuses=True)


def _read(source: SourceFile) -> f.FileFacts | Finding:
    try:
        return read_facts(source)
    except RecursionError:
        return with_much_room(lambda: read_facts(source, last=True))
