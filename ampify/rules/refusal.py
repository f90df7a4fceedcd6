"""What the rules that refuse share: findings made of the obstacles that the index found."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.anchor import Anchor
from ampify.model.finding import Finding, Related
from ampify.model.project import Obstacle, Project


def refusals(project: Project, code: str, name: str, message: str, hint: str) -> Iterator[Finding]:
    """A refusal for every obstacle of that name, each place and reason once; its detail completes the message."""
    for obstacle in _once(project, name):
        yield _finding(obstacle, code, message, hint, refuses=True)


def refusals_of_sites(project: Project, code: str, name: str, message: str, hint: str) -> Iterator[Finding]:
    """Those refusals that concern a loop, or sites of a file."""
    for obstacle in _once(project, name):
        if obstacle.loop is not None or obstacle.related:
            yield _finding(obstacle, code, message, hint, refuses=True)


def _once(project: Project, name: str) -> Iterator[Obstacle]:
    obstacles = dict.fromkeys(o for o in project.obstacles if o.kind == name)
    told: set[tuple[str | None, str, Anchor]] = set()
    # A step that a backward's obstacle points to has the same obstacle.
    for obstacle in sorted(obstacles, key=lambda o: not o.related):
        if (obstacle.loop, obstacle.detail, obstacle.anchor) not in told:
            told |= {(obstacle.loop, obstacle.detail, place) for place, _ in obstacle.related}
            yield obstacle


def _finding(obstacle: Obstacle, code: str, message: str, hint: str, *, refuses: bool) -> Finding:
    text = f"{message}: {obstacle.detail}" if obstacle.detail else message
    related = tuple(Related(place, remark) for place, remark in obstacle.related)
    return Finding(
        code, obstacle.kind, obstacle.anchor, text, obstacle.hint or hint, None, refuses, obstacle.loop, related
    )
