"""What the rules that put a loop into torch's own mixed precision share: the plans, and how torch is spelled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.edit import AddImport, Edit, Fix
from ampify.model.project import Project, TrainingLoop
from ampify.model.scaling import Device, Scaling
from ampify.model.settings import Settings

_GPU = '"cuda"'
# What each opt level with an equal in torch casts to.
CASTS = {"O0": "float16", "O1": "float16", "O4": "bfloat16"}


def plans(project: Project, settings: Settings) -> Iterator[tuple[TrainingLoop, Scaling]]:
    """The loops that get a scaler and autocast, each with its plan."""
    if settings.opt_level in CASTS:
        for loop in project.loops:
            if loop.apex is not None:
                # One that is on the runtime has no imports of apex to leave: it stays as it is.
                if any(loop.id in group.loops for group in project.apex):
                    yield replace(loop, id=shared_group(project, loop)), loop.apex.scaling
            elif loop.scaling is not None and not any(place.present for place in loop.initializes):
                yield loop, loop.scaling


def shared_group(project: Project, loop: TrainingLoop) -> str:
    """The group of a loop's edits: loops that take the same files off apex go together."""
    for group in project.apex:
        leaving = [other.id for other in project.loops if other.apex is not None and other.id in group.loops]
        if loop.id in leaving and len(leaving) > 1:
            return group.id
    return loop.id


def scales(settings: Settings) -> bool:
    """Whether gradients need a scale: those in bfloat16 do not."""
    return CASTS.get(settings.opt_level) == "float16"


@dataclass(slots=True)
class Spelling:
    """Spells torch's names in one file, and gathers the imports that this needs; with `whole` that of torch itself,
    also where the file imports from it by name."""

    project: Project
    settings: Settings
    at: Anchor
    whole: bool = False
    imports: dict[AddImport, None] = field(default_factory=dict)

    @classmethod
    def of(cls, project: Project, settings: Settings, at: Anchor) -> Spelling:
        """The spelling for a place."""
        return cls(project, settings, at)

    @property
    def path(self) -> str:
        """The file of the place."""
        return self.at.path

    def torch(self, module: str, name: str) -> str:
        """A name of torch; imported by itself where the file does so with others, or `torch` means
        something else there."""
        whole = torch_name(self.project.files[self.path], self.at)
        if whole is not None:
            return ".".join((whole, *module.split(".")[1:], name))
        facts = self.project.files[self.path]
        by_name = any(name.module.startswith("torch") for s in facts.imports for name in s.names)
        if "torch" not in facts.names and (self.whole or not by_name):
            self.imports[AddImport(self.path, "torch")] = None
            return f"{module}.{name}"
        self.imports[AddImport(self.path, module, name)] = None
        return name

    def autocast(self, device: Device) -> str:
        """The header of a block under autocast."""
        dtype = self.torch("torch", CASTS[self.settings.opt_level])
        kind = device.kind if scales(self.settings) else device.wide or device.kind
        arguments = [f"device_type={self.code(kind)}", f"dtype={dtype}", *self.enabled(device)]
        return f"with {self.torch('torch', 'autocast')}({', '.join(arguments)}):"

    def uncast(self) -> str:
        """The header of a block that is not under autocast, wherever it is."""
        return f"with {self.off()}:"

    def off(self) -> str:
        """What puts autocast off: for a block, or for a function that it decorates."""
        return f"{self.torch('torch', 'autocast')}(device_type={self.code(_GPU)}, enabled=False)"

    def scaler(self, device: Device) -> str:
        """A new scaler."""
        arguments = ", ".join((self.code(device.kind), *self.enabled(device)))
        return f"{self.torch('torch.amp', 'GradScaler')}({arguments})"

    def enabled(self, device: Device) -> tuple[str, ...]:
        """The argument that says where it is on: float16 wants a GPU, bfloat16 runs anywhere."""
        if self.settings.opt_level == "O0":
            return ("enabled=False",)
        literal = device.kind.startswith('"') and not device.wide
        anywhere = not scales(self.settings) and (not literal or device.kind == '"cpu"')
        return (f"enabled={self.code(device.on)}",) if device.on and not anywhere else ()

    def code(self, text: str) -> str:
        """An expression in the quotes that the file uses."""
        quote = self.project.files[self.path].quote
        return text if quote in text else text.replace('"', quote)

    def fix(self, loop: TrainingLoop, *edits: Edit) -> Fix:
        """Edits of the loop in this file, with the imports that they need."""
        return Fix((*self.imports, *edits), group=loop.id)


def torch_name(facts: f.FileFacts, at: Anchor) -> str | None:
    """The name that torch surely has at a place; None if it is not imported as a whole."""
    around = [s for s in facts.scopes if s.kind == "function" and s.span[:2] <= at.start and at.end <= s.span[2:]]
    for scope in (*reversed(around), facts.scopes[0]):
        for statement in scope.body:
            for name in statement.names if isinstance(statement, f.Import) else ():
                whole = (
                    name.attribute is None and not name.level and (scope.index == 0 or statement.span[:2] < at.start)
                )
                if whole and (name.module == "torch" or (name.bound == "torch" and name.module.startswith("torch."))):
                    return name.bound
    return None
