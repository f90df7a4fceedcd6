"""What forbids migrating a loop: each kind is the name of the rule that reports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ampify import catalog
from ampify.index.events import Event
from ampify.index.syntax import dotted_name, expressions, in_order, statements
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.project import Obstacle

# A file without any of these words imports nothing of the kind.
# An attribute of whatever is looked for in code begins with one of these.
_LAST = tuple({dotted.rpartition(".")[2] for dotted in (*catalog.TORCH_AMP, *catalog.TRAINERS)})
WORDS = ("amp", "autocast", "transformers", *(root for root, _ in catalog.FRAMEWORKS))
HALF = "half-precision-model"
DOUBLE = "double-precision-model"
# Why a model that is shared out is not migrated, by what shares it out.
SHARDED = {
    "FullyShardedDataParallel": "each sees the overflows of its own part alone, and would skip steps that others make",
    "parallelize_module": "that all of them would skip the same steps has not been shown",
}
# What forbids making a migration, and says nothing against one that was made: gradients read unscaled after its blocks.
OF_MIGRATING = frozenset(
    {
        "backward-in-expression",
        "gradient-hook",
        "gradients-of-no-optimizer",
        DOUBLE,
        HALF,
        "input-gradient-read",
        "no-place-to-initialize",
        "optional-optimizer",
        "unresolved-optimizer",
    }
)


def of_events(events: Iterable[Event], loop: str) -> Iterator[Obstacle]:
    """Obstacles among the events of a loop."""
    for event in events:
        if event.kind in ("clip", "step") and event.scaled is not None:
            yield Obstacle("used-before-block-ends", event.anchor, "", loop=loop)
        match event.kind:
            case "step" if event.detail == "closure":
                yield Obstacle("closure-step", event.anchor, "", loop=loop)
            case "step" if event.detail == "scaler":
                yield Obstacle("torch-amp-loop", event.anchor, "the step of a GradScaler", loop=loop)
            case "step" if event.detail == "stranger":
                detail = "an object that is not known steps the optimizer"
                yield Obstacle("unresolved-optimizer", event.anchor, detail, loop=loop)
            case "autograd_grad" if event.detail != "penalty":
                yield Obstacle("gradient-penalty", event.anchor, "", loop=loop)
            case "shard":
                yield Obstacle("sharded-model", event.anchor, SHARDED.get(event.detail, ""), loop=loop)
            case "hook":
                yield Obstacle("gradient-hook", event.anchor, "", loop=loop)
            case "unknown_step":
                yield Obstacle("unresolved-optimizer", event.anchor, event.detail, loop=loop)
            case "half":
                yield Obstacle(HALF, event.anchor, "", loop=loop)
            case "double":
                yield Obstacle(DOUBLE, event.anchor, "", loop=loop)
            case "backward" if event.detail == "foreign":
                yield Obstacle("foreign-backward", event.anchor, "", loop=loop)


def of_file(facts: f.FileFacts) -> tuple[tuple[str, Anchor, str], ...]:
    """(kind, place, detail) for what a file imports that trains by other means, or already in mixed precision."""
    found: dict[str, tuple[str, Anchor, str]] = {}
    text = "".join(facts.lines)
    if not any(word in text for word in WORDS):
        return ()
    for importing in facts.imports:
        for name in importing.names:
            kind = _imported(name)
            if kind:
                found.setdefault(kind, (kind, facts.anchor(importing), _dotted(name)))
    spelled = any(word.startswith(_LAST) for word in facts.read)
    for scope in facts.scopes if spelled else ():
        for statement in statements(scope.body):
            for node, kind, dotted in _used(statement):
                found.setdefault(kind, (kind, facts.anchor(node), dotted))
    return tuple(found.values())


def _dotted(name: f.ImportedName) -> str:
    return f"{name.module}.{name.attribute}" if name.attribute else name.module


def _imported(name: f.ImportedName) -> str | None:
    dotted = _dotted(name)
    root = dotted.partition(".")[0]
    if name.level:
        return None
    if dotted in catalog.TRAINERS or dotted == "transformers.TrainingArguments":
        return "trainer-loop"
    if dotted.startswith(catalog.TORCH_AMP):
        return "torch-amp-loop"
    return dict(catalog.FRAMEWORKS).get(root)


def _used(statement: f.Stmt) -> Iterator[tuple[f.Expr, str, str]]:
    """`torch.cuda.amp...`, `torch.autocast` or `transformers.Trainer` spelled out in a statement."""
    for expression in expressions(statement):
        for node, _ in in_order(expression):
            dotted = dotted_name(node) if isinstance(node, f.Attribute) else ""
            if dotted.startswith(catalog.TORCH_AMP):
                yield node, "torch-amp-loop", dotted
            elif dotted in catalog.TRAINERS:
                yield node, "trainer-loop", dotted


def of_files(files: Mapping[str, f.FileFacts], paths: Iterable[str], loop: str) -> Iterator[Obstacle]:
    """Obstacles in the files that a loop has sites in."""
    for path in sorted(set(paths)):
        for kind, anchor, detail in of_file(files[path]):
            yield Obstacle(kind, anchor, detail, loop=loop)
