"""Where a project uses NVIDIA apex, as facts: the names, and the places where its root stands in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ampify.model.anchor import Anchor

ApexUseKind: TypeAlias = Literal["import", "name", "text", "message"]
MentionRole: TypeAlias = Literal["call", "decorator", "base", "kind", "test", "value"]


@dataclass(frozen=True, slots=True)
class ApexUse:
    """One use of apex: an import, a name below an imported one, a module's name as text, or a message to install it.

    `dotted` is the name in full, "" for a message. `token` is where the root `apex` stands (the whole string for a text
    or message), None where nothing is written out. `equal` tells that the runtime has the name too. `bound` is the name
    the use goes by in the code.
    """

    kind: ApexUseKind
    anchor: Anchor
    dotted: str
    token: Anchor | None
    equal: bool
    bound: str = ""


@dataclass(frozen=True, slots=True)
class ApexName:
    """One name of an import statement, as `spelled` there; `apex` tells that it comes from apex, `attribute` that it
    stands behind `from ... import`."""

    bound: str
    dotted: str
    spelled: str
    apex: bool
    attribute: bool


@dataclass(frozen=True, slots=True)
class ApexAttempt:
    """A `try` around imports that does nothing else but set flags; `body` are its statements, with those of `else`."""

    anchor: Anchor
    body: tuple[Anchor, ...]


@dataclass(frozen=True, slots=True)
class ApexImport:
    """One statement that imports from apex; `attempt` is the `try` whose body it is in, if that can go with it."""

    anchor: Anchor
    names: tuple[ApexName, ...]
    attempt: ApexAttempt | None


@dataclass(frozen=True, slots=True)
class ApexArgument:
    """An argument of a call: its keyword, its value's place and source text."""

    name: str | None
    anchor: Anchor
    text: str


@dataclass(frozen=True, slots=True)
class ApexMention:
    """One place in code that means something of apex: `dotted` in full, `bound` the name that it starts with.

    `role` is what for: `kind` a question for the type, `test` one whether it is there. `call` is the whole call of it,
    and `arguments` are that call's in the order of the text, None where they are spread.
    """

    anchor: Anchor
    dotted: str
    role: MentionRole
    statement: Anchor
    bound: str
    call: Anchor | None = None
    arguments: tuple[ApexArgument, ...] | None = None


@dataclass(frozen=True, slots=True)
class ApexFile:
    """How one file uses apex; `torch` tells that it surely has `torch` under that name."""

    path: str
    imports: tuple[ApexImport, ...]
    mentions: tuple[ApexMention, ...]
    torch: bool
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ApexLoad:
    """A `load_state_dict(source)` of an optimizer that apex's class may have made, in the calls `made`.

    `statement` is the one that consists of it, `argument` the place of `source` there, and `names` are free ones for
    three variables; None and () if what is loaded cannot be had before: it is part of more, or of another optimizer.
    """

    call: Anchor
    made: frozenset[Anchor]
    statement: Anchor | None = None
    argument: Anchor | None = None
    source: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApexGroup:
    """All uses in files that run together: amp's state is one, so they move to the runtime all together or not at all.

    `loops` are the training loops with sites in these files; `files` tells how each of them imports and mentions apex.
    `half` tells that something which runs with them names a type of half precision, which parameters may have.
    """

    id: str
    uses: tuple[ApexUse, ...]
    loops: tuple[str, ...]
    files: tuple[ApexFile, ...] = ()
    half: bool = False

    @property
    def amp(self) -> bool:
        """Whether its loops may train by what scales in apex: `amp`, or an optimizer of `fp16_utils`."""
        return any(use.dotted.startswith(("apex.amp", "apex.fp16_utils")) for use in self.uses)

    @property
    def blocked(self) -> tuple[ApexUse, ...]:
        """The uses that keep the others on apex: of amp's inside, or through the package as a whole."""
        return tuple(u for u in self.uses if not u.equal and (u.bound == "apex" or u.dotted.startswith("apex.amp")))

    @property
    def kept(self) -> tuple[ApexUse, ...]:
        """The optimizers that stay with another of apex that has no equal: one is handed to the other."""
        left = {use.anchor.path for use in self.uses if not use.equal and "optimizers" in use.dotted.split(".")}
        return tuple(
            use
            for use in self.uses
            if use.equal and use.anchor.path in left and use.dotted.startswith("apex.optimizers")
        )

    @property
    def movable(self) -> tuple[ApexUse, ...]:
        """The uses that can move."""
        if self.blocked:
            return ()
        left = {use.anchor.path for use in self.uses if not use.equal}
        # Where something of apex stays, the message to install it stays true.
        kept = self.kept
        found = (u for u in self.uses if u.equal and u not in kept)
        return tuple(u for u in found if not (u.kind == "message" and u.anchor.path in left))
