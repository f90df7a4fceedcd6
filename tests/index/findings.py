"""What the index found, as the lines of a case would say it."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.project import ClipCall, Initialize, Project, StateLoad, StateSave, TrainingLoop
from tests.index.annotated import Mark


def marks_of(project: Project) -> tuple[Mark, ...]:
    """All that a project's analysis found, each place and finding once."""
    found = dict.fromkeys(_all(project))
    return tuple(sorted(found))


def _all(project: Project) -> Iterator[Mark]:
    for finding in project.unreadable:
        yield Mark(finding.anchor.path, finding.anchor.line, f"unreadable {finding.name}")
    for number, loop in enumerate(project.loops, 1):
        suffix = f" (loop {number})" if number > 1 else ""
        yield from (Mark(mark.path, mark.line, mark.text + suffix) for mark in _of_loop(loop))
    for obstacle in project.obstacles:
        yield Mark(obstacle.anchor.path, obstacle.anchor.line, f"refused {obstacle.kind}")
    told = {o.anchor for o in project.obstacles} | {a for o in project.obstacles for a, _ in o.related}
    for site in project.sites:
        if site.kind == "backward" and not site.training:
            yield Mark(site.anchor.path, site.anchor.line, "not training")
        elif site.loop is None and site.training and site.anchor not in told:
            yield Mark(site.anchor.path, site.anchor.line, f"unresolved {site.kind}")


def _of_loop(loop: TrainingLoop) -> Iterator[Mark]:
    for backward in loop.backward_calls:
        text = ", ".join(backward.optimizers) or "unnamed"
        text += f" where {backward.guard}" if backward.guard else ""
        yield Mark(backward.call.path, backward.call.line, f"scaled {text}" if backward.scaled else text)
    for place in loop.initializes:
        yield Mark(place.anchor.path, place.anchor.line, _initialize(place))
    for clip in loop.clips:
        yield Mark(clip.call.path, clip.call.line, _clip(clip))
    for save in loop.saves:
        yield Mark(save.statement.path, save.site.line, _save(save))
    for load in loop.loads:
        yield Mark(load.site.path, load.site.line, _load(load))
    for wrap in loop.late_wraps:
        yield Mark(wrap.path, wrap.line, "wraps early")
    for penalty in loop.penalties:
        yield Mark(penalty.path, penalty.line, "penalty")
    for entropy in loop.cross_entropies:
        yield Mark(entropy.call.path, entropy.call.line, "cross entropy")


def _initialize(place: Initialize) -> str:
    word = "initialized" if place.present else "initialize"
    flag = f" flag {place.flag.expression}" if place.flag else ""
    bare = " bare" if place.bare else ""
    return f"{word} {_group(place.models)}, {_group(place.optimizers)}{bare}{flag}"


def _group(texts: tuple[str, ...]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _clip(clip: ClipCall) -> str:
    return "clips masters" if clip.right else f"clips {clip.optimizer or 'unnamed'}"


def _save(save: StateSave) -> str:
    place = save.target or ("a dict" if save.container else "alone")
    return f"saves {place}{' with amp' if save.present else ''}"


def _load(load: StateLoad) -> str:
    return f"loads {load.source or 'alone'}{' with amp' if load.present else ''}"
