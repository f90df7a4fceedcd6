"""What the index knows of the whole project: files, training loops, and sites; the input of every rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ampify.model.anchor import Anchor
from ampify.model.apex import ApexGroup, ApexLoad
from ampify.model.apex_loop import ApexLoop
from ampify.model.facts import FileFacts
from ampify.model.finding import Finding
from ampify.model.native import NativeAmp, Respelling
from ampify.model.scaling import Scaling
from ampify.model.site import Site


@dataclass(frozen=True, slots=True)
class BackwardCall:
    """One backward pass of a loop.

    `call` is the whole call, `statement` the statement that consists of it (None if it is part of a larger one).
    `loss` is the expression to scale; `optimizers` are expressions, in scope there, of the optimizers whose step
    consumes the gradients. `scaled` tells that it already runs on a loss scaled by `amp.scale_loss`, `off` that it is
    the alternative to one that does, for where amp is off. `guard` is the text of the condition that decides whether
    amp is on, if that can be asked there.
    """

    call: Anchor
    statement: Anchor | None
    loss: Anchor
    loss_text: str
    optimizers: tuple[str, ...]
    scaled: bool
    scaled_name: str = "scaled_loss"
    off: bool = False
    guard: str | None = None


@dataclass(frozen=True, slots=True)
class ClipCall:
    """A gradient clip between backward and step. `parameters` is its first argument; `optimizer` the expression of
    the one optimizer that holds just these parameters, or None; `right` that it clips master parameters already, or
    runs only where amp is off."""

    call: Anchor
    function: Anchor
    function_text: str
    parameters: Anchor
    optimizer: str | None
    right: bool


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line option for the opt level: `parse` is the statement in which `parser` parses, `expression` the
    option's value where `amp.initialize` goes; `declared` tells that the parser has the option already."""

    parse: Anchor
    parser: str
    expression: str
    declared: bool


@dataclass(frozen=True, slots=True)
class EarlyWrap:
    """A parallel wrap before a present `amp.initialize`. `statement`, with its `text`, can move behind that call."""

    call: Anchor
    statement: Anchor | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Initialize:
    """Where `amp.initialize` stands, or goes: after the statement `anchor`. `models` and `optimizers` are expressions
    in scope there; `bare` tells that one is a name of an outer scope, not to be bound anew. `flag` is the script's
    option for the opt level, if its namespace is in scope there. `conditional` tells that one that is present is called
    only under a condition, `beside` where a call is present in the same run that these optimizers were not given to.
    `level` is the literal opt level of a call that is present, and `early_wraps` the parallel wraps before it. `again`
    tells that it is for an optimizer that takes another one's place while training."""

    anchor: Anchor
    models: tuple[str, ...]
    optimizers: tuple[str, ...]
    present: bool
    flag: Flag | None = None
    conditional: bool = False
    beside: Anchor | None = None
    level: str | None = None
    early_wraps: tuple[EarlyWrap, ...] = ()
    bare: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class StateSave:
    """A dict (display or `dict(...)` call) at `container` that receives the optimizer's state under `key`, or a
    statement `state[key] = optimizer.state_dict()`; `present` tells that amp's state is saved there too, `read_whole`
    where a reader goes over all keys, so that one more would matter."""

    site: Anchor
    container: Anchor | None
    statement: Anchor
    target: str | None
    present: bool
    read_whole: Anchor | None = None


@dataclass(frozen=True, slots=True)
class StateLoad:
    """`optimizer.load_state_dict(source[...])`; amp's state can be loaded after `statement`, None if nowhere.

    `source` is the text of the loaded checkpoint, None if that is no plain name; `present` tells that amp's state is
    loaded beside it, `read_whole` where all keys are gone over, and `popped` that keys are taken out as they are read.
    """

    site: Anchor
    statement: Anchor | None
    source: str | None
    present: bool
    read_whole: Anchor | None = None
    popped: bool = False

    def reader(self, *, loaded: bool) -> Anchor | None:
        """Where one key more would be met; a state that is `loaded` here and popped is gone before."""
        if not self.popped:
            return self.read_whole
        return None if loaded else self.read_whole or self.site


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropy:
    """A call of binary cross entropy on probabilities, which autocast on CUDA refuses; `function` is what is called."""

    call: Anchor
    function: Anchor
    function_text: str


@dataclass(frozen=True, slots=True)
class AutogradFunction:
    """A `torch.autograd.Function` of the project's own that must be given float32 for its backward, which runs outside
    autocast, to compute with one type. `forward` and `backward` are the definitions of its methods, which can be
    decorated unless `obstacle` says why not; `spoilt` says why torch's own decorator cannot be used."""

    name: str
    forward: Anchor
    backward: Anchor
    obstacle: str = ""
    spoilt: str = ""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that forbids migrating a loop, or (without a loop) a place that is not understood.

    `kind` is the name of the rule that reports it; `detail` completes that rule's message; `hint`, if there is one,
    takes the place of its hint.
    """

    kind: str
    anchor: Anchor
    detail: str
    related: tuple[tuple[Anchor, str], ...] = ()
    loop: str | None = None
    hint: str = ""

    @property
    def told(self) -> str:
        """What it is, in words."""
        words = self.kind.replace("-", " ")
        return f"{words}: {self.detail}" if self.detail else words


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """Sites that belong together: the backward passes, the steps that consume them, and all that touches their state.

    `models` and `optimizers` are expressions as the code names them. `initializes` has one entry for every place that
    builds what this loop trains. `functions` are those with a backward of their own in the files that it runs.
    `penalties` are calls of `torch.autograd.grad` whose gradients' size is in a loss. `strays` are clips and reads that
    may take gradients of parameters that no optimizer of the loop steps.
    `scaling` is how it comes into torch's own mixed precision, if that is the target.
    `masters` tells that it trains through `fp16_utils.FP16_Optimizer`, which scales and unscales by itself,
    `apex` how it comes off apex's amp into torch's, if that is the target. `reaches` are the ids of the loops that may
    train with the casts of its `amp.initialize` on, `unclear` the backwards that do so and may be training, in no
    loop that is known, `unscaled` those that are none.
    """

    id: str
    anchor: Anchor
    models: tuple[str, ...]
    optimizers: tuple[str, ...]
    backward_calls: tuple[BackwardCall, ...]
    initializes: tuple[Initialize, ...]
    clips: tuple[ClipCall, ...] = ()
    saves: tuple[StateSave, ...] = ()
    loads: tuple[StateLoad, ...] = ()
    cross_entropies: tuple[BinaryCrossEntropy, ...] = ()
    functions: tuple[AutogradFunction, ...] = ()
    late_wraps: tuple[Anchor, ...] = ()
    strays: tuple[Anchor, ...] = ()
    native: NativeAmp | None = None
    penalties: tuple[Anchor, ...] = ()
    scaling: Scaling | None = None
    masters: bool = False
    apex: ApexLoop | None = None
    reaches: tuple[str, ...] = ()
    unclear: tuple[Anchor, ...] = ()
    unscaled: tuple[Anchor, ...] = ()

    @property
    def backwards(self) -> tuple[Anchor, ...]:
        """The backward calls, in the order of the text."""
        return tuple(b.call for b in self.backward_calls)

    @property
    def initialize_anchor(self) -> Anchor | None:
        """The first place where `amp.initialize` stands or goes."""
        return self.initializes[0].anchor if self.initializes else None

    @property
    def switched(self) -> bool:
        """Whether it trains through `amp` only under a condition."""
        return any(place.conditional for place in self.initializes)

    @property
    def migrated(self) -> bool:
        """Whether it already trains through `amp`: initialized, and every backward scaled."""
        if self.native is not None or self.masters:
            return True
        return self.begun and all(call.scaled or call.off for call in self.backward_calls)

    @property
    def through_amp(self) -> bool:
        """Whether some of it trains by `apex.amp` or the runtime's, or by an optimizer of theirs that scales."""
        if self.native is not None:
            return False
        return self.masters or any(p.present for p in self.initializes) or any(c.scaled for c in self.backward_calls)

    @property
    def begun(self) -> bool:
        """Whether `amp.initialize` is called wherever it is due, whatever became of the backwards."""
        return bool(self.initializes) and all(place.present for place in self.initializes)


@dataclass(frozen=True, slots=True)
class Project:
    """All that rules read. `amp_names` maps a file to the name `amp` goes by there (`amp`, or `ampify_amp` where the
    first is taken) and `imports_amp` lists files that surely have it already, `may_import_amp` those that import it in
    a function or under a condition; `unreadable` are findings on files without facts; `apex` are the uses of apex,
    `apex_loads` the places where state is loaded into its optimizers,
    `listed` are further lines of the ledger, which are sites by their names alone and which no rule decides on,
    `old_amp` are the uses of `torch.cuda.amp`, and `crowded` files that too many others use to follow them.
    """

    files: Mapping[str, FileFacts]
    loops: tuple[TrainingLoop, ...] = ()
    sites: tuple[Site, ...] = ()
    listed: tuple[Site, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    amp_names: Mapping[str, str] | None = None
    imports_amp: frozenset[str] = frozenset()
    may_import_amp: frozenset[str] = frozenset()
    apex: tuple[ApexGroup, ...] = ()
    apex_loads: tuple[ApexLoad, ...] = ()
    crowded: frozenset[str] = frozenset()
    old_amp: tuple[Respelling, ...] = ()

    def amp(self, path: str) -> str:
        """The name of `amp` in a file."""
        return (self.amp_names or {}).get(path, "amp")
