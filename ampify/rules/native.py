"""What the rules on torch's own mixed precision share: findings made of the mistakes that the index found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ampify.model.edit import Applicability, Edit, Fix
from ampify.model.finding import Finding, Related
from ampify.model.native import Defect, Repair
from ampify.model.project import Project

# The edits of a repair, given the quotes that the file uses.
Edits = Callable[[Repair, str], Sequence[Edit]]


def defects(
    project: Project,
    code: str,
    name: str,
    message: str,
    hint: str,
    *,
    edits: Edits | None = None,
    applicability: Applicability = "unsafe",
    refuses: bool = True,
) -> Iterator[Finding]:
    """A finding for every mistake of that name; with a fix, of a group of its own, where the index knows one."""
    for loop in project.loops:
        for defect in loop.native.defects if loop.native is not None else ():
            if defect.kind == name:
                fix = _fix(project, defect, code, edits, applicability)
                text = f"{message}: {defect.detail}" if defect.detail else message
                related = tuple(Related(place, remark) for place, remark in defect.related)
                refused = refuses and fix is None
                yield Finding(code, name, defect.anchor, text, "" if fix else hint, fix, refused, loop.id, related)


def _fix(project: Project, defect: Defect, code: str, edits: Edits | None, applicability: Applicability) -> Fix | None:
    if edits is None or defect.repair is None:
        return None
    where = defect.anchor
    group = f"{where.path}:{where.line}:{where.column}:{code}"
    return Fix(tuple(edits(defect.repair, project.files[where.path].quote)), applicability, group)
