"""Where a project uses NVIDIA apex, as facts: the names, and the places where its root stands in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ampify.model.anchor import Anchor

ApexUseKind: TypeAlias = Literal["import", "name", "text", "message"]


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
class ApexGroup:
    """All uses in files that run together: amp's state is one, so they move to the runtime all together or not at all.

    `loops` are the training loops with sites in these files.
    """

    id: str
    uses: tuple[ApexUse, ...]
    loops: tuple[str, ...]

    @property
    def blocked(self) -> tuple[ApexUse, ...]:
        """The uses that keep the others on apex: of amp's inside, or through the package as a whole."""
        return tuple(u for u in self.uses if not u.equal and (u.bound == "apex" or u.dotted.startswith("apex.amp")))

    @property
    def movable(self) -> tuple[ApexUse, ...]:
        """The uses that can move."""
        if self.blocked:
            return ()
        left = {use.anchor.path for use in self.uses if not use.equal}
        # Where something of apex stays, the message to install it stays true.
        return tuple(u for u in self.uses if u.equal and not (u.kind == "message" and u.anchor.path in left))
