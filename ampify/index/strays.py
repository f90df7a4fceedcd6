"""Parameters whose gradients a loop takes though no optimizer of it steps them: amp unscales those of optimizers alone,
so that theirs keep the loss scale."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ampify import catalog
from ampify.index.clips import Clips
from ampify.index.entities import Entities, root
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.parameter_groups import NEEDED, ParameterGroups
from ampify.index.syntax import calls, path_to, statements
from ampify.index.values import Container, Instance, Opaque, Parameters, Value, Values
from ampify.model import facts as f

Doubt: TypeAlias = Literal["none", "some", "maybe"]
# The worst first.
DOUBTS: tuple[Doubt, ...] = ("some", "maybe", "none")


class Strays:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow, entities: Entities, clips: Clips) -> None:
        self.flow = flow
        self.entities = entities
        self.clips = clips
        self.groups = ParameterGroups(flow)
        self._frozen: bool | None = None
        self._wholes: dict[Value, frozenset[Value]] = {}

    def among(self, event: Event, optimizers: frozenset[Value]) -> Doubt:
        """Whether a clip or a read of gradients takes some that no optimizer of its loop steps; `maybe` where what an
        optimizer was given is not all known, or some of the parameters may need no gradient."""
        if event.detail in ("master", "masters") or event.only_asks:
            return "none"
        doubts = {self.doubt(owner, optimizers) for owner in self.taken(frozenset(event.values), set())}
        if "some" in doubts and not self.freezes():
            return "some"
        return "maybe" if doubts - {"none"} else "none"

    def taken(self, values: Values, seen: set[Value]) -> frozenset[Value]:
        """The modules, or the parameters, whose gradients are taken, as far as that is known."""
        found: set[Value] = set()
        for value in values - seen:
            seen.add(value)
            if isinstance(value, Parameters):
                found |= {m for m in self.entities.unwrapped(value.of) if self.entities.is_module(m)}
            elif isinstance(value, Container):
                found |= self.taken(self.flow.elements(frozenset((value,))), seen)
            elif isinstance(value, Instance) and value.dotted in catalog.PARAMETER_CLASSES:
                found.add(value)
            elif isinstance(value, Opaque) and self.entities.is_module(value.of):
                found.add(value.of)
        return frozenset(found)

    def doubt(self, owner: Value, optimizers: frozenset[Value]) -> Doubt:
        around = self.entities.around(owner)
        if any(self.wholes(optimizer) & around for optimizer in optimizers):
            return "none"
        given = {optimizer: self.entities.owners(optimizer) for optimizer in optimizers}
        known = (self.entities.is_module(root(v)) for owners in given.values() for v in owners)
        if not all(given.values()) or not all(known):
            return "maybe"
        if self.may_be_bare(owner):
            return "maybe"
        parts = {part for owners in given.values() for part in owners if owner in self.entities.around(part)}
        if owner in parts:
            return "maybe" if any(self.is_grouped(optimizer) for optimizer in optimizers) else "some"
        return "some" if len(parts) < 2 else "maybe"

    def may_be_bare(self, owner: Value) -> bool:
        """Whether a module of the project gets parameters, and parts that have some, only where a condition holds."""
        held = [name for name in self.flow.store.fields(owner) if self.holds_parameters(owner, name)]
        own = isinstance(owner, Instance) and owner.cls is not None and bool(held)
        return own and all(
            _under_condition(self.flow.scope(frame).body, span)
            for name in held
            for frame, span in self.flow.store.writes(owner, name)
        )

    def holds_parameters(self, owner: Value, name: str) -> bool:
        """Whether a field is a parameter, a module or what is not known."""
        values = self.flow.store.read(owner, name, None) if name not in ("params", "wrapped") else frozenset()
        return any(
            (isinstance(v, Instance) and (v.dotted in catalog.PARAMETER_CLASSES or self.entities.is_module(v)))
            or isinstance(v, Container | Opaque)
            for v in values
        )

    def is_grouped(self, optimizer: Value) -> bool:
        """Whether an optimizer was given several groups, which may well share out all there is."""
        return len(list(self.groups.leaves(self.flow.store.read(optimizer, "params", None), set()))) > 1

    def wholes(self, optimizer: Value) -> frozenset[Value]:
        """The modules all of whose parameters an optimizer steps."""
        if optimizer not in self._wholes:
            shared = self.groups.shared_out(self.flow.store.read(optimizer, "params", None))
            owners = frozenset(m for owner in shared for m in self.entities.unwrapped(owner))
            self._wholes[optimizer] = owners | self.clips.held(optimizer, single=False)
        return self._wholes[optimizer]

    def freezes(self) -> bool:
        """Whether anything in the program puts the gradient of parameters off."""
        if self._frozen is None:
            self._frozen = any(_freezes(facts) for facts in self.flow.files.values())
        return self._frozen


def _under_condition(body: tuple[f.Stmt, ...], span: f.Span) -> bool:
    return any(isinstance(block[index], f.Branch) for block, index in path_to(body, span))


def _freezes(facts: f.FileFacts) -> bool:
    if NEEDED not in facts.read and f"{NEEDED}_" not in facts.read:
        return False
    for scope in facts.scopes:
        if any(isinstance(c.func, f.Attribute) and c.func.attr == f"{NEEDED}_" for c in calls(scope.body)):
            return True
        for statement in statements(scope.body):
            targets = statement.targets if isinstance(statement, f.Assign) else ()
            if any(isinstance(target, f.Attribute) and target.attr == NEEDED for target in targets):
                return True
    return False
