"""What the rules that migrate a loop share: the import of `amp`, its name in a file, and losses' numbers."""

from __future__ import annotations

from ampify.model.anchor import Anchor
from ampify.model.edit import AddImport, Edit, Fix
from ampify.model.project import Project, TrainingLoop
from ampify.model.settings import Settings

CASTING_LEVELS = frozenset({"O0", "O1", "O4"})


CONDITIONAL_AMP = "amp is imported here only in a function or under a condition: do it by hand, where it is"


def migrating(project: Project, settings: Settings, loop: TrainingLoop, path: str, *edits: Edit) -> Fix | None:
    """A fix in one file of a loop, with the import of `amp` that its code needs; None where the loop has `amp` only
    under a condition, and that of NVIDIA apex, which stays: the runtime's has another state."""
    stays = any(group.blocked for group in project.apex if loop.id in group.loops)
    if stays and loop.switched and path in project.may_import_amp:
        return None
    amp = project.amp(path)
    if path in project.imports_amp:
        return Fix(edits, group=loop.id)
    asname = None if amp == "amp" else amp
    return Fix((AddImport(path, settings.runtime_module, "amp", asname), *edits), group=loop.id)


def quoted(project: Project, path: str, text: str) -> str:
    """A string literal in the quotes that the file uses."""
    quote = project.files[path].quote
    return f"{quote}{text}{quote}"


def loss_number(loop: TrainingLoop, call: Anchor) -> int | None:
    """The `loss_id` of a backward: where a loop has several optimizers, each of its backwards has a scaler of its own,
    as one loss must not lower the scale of another."""
    if len(loop.optimizers) < 2 or len(loop.backward_calls) < 2:
        return None
    return [b.call for b in loop.backward_calls].index(call)
