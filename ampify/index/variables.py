"""Which variable a name means, and what it may hold: closures, globals, builtins, imports and star imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ampify import catalog
from ampify.catalog import canonical
from ampify.index.definitions import Reaching, reaching
from ampify.index.store import Cell
from ampify.index.syntax import statements
from ampify.index.values import External, Frame, ModuleValue, Values
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is asked of a frame each time that it reads a name: what its reads see, and which variable a name is."""

    reads: Mapping[f.Span, frozenset[f.Span]]
    cells: dict[str, Cell] = field(default_factory=dict)
    # Variables of functions around it, and the places of the assignments to them that it may see.
    around: dict[str, tuple[Frame, frozenset[f.Span]]] = field(default_factory=dict)


class Variables:
    """The variables of all frames."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        # The star imports of each scope, by its path and number.
        self._stars: dict[tuple[str, int], tuple[f.ImportedName, ...]] = {}
        # What the reads of each scope see of its assignments, where that is not all.
        self._reaching: dict[tuple[str, int], Reaching] = {}
        self._seen: dict[Frame, _Seen] = {}

    def bind(self, frame: Frame, name: str, values: Values) -> None:
        """Adds to what a name of a frame may hold."""
        self.flow.store.add(self.home(frame, name), name, values)

    def home(self, frame: Frame, name: str) -> Frame:
        """The frame whose variable a name of `frame` is."""
        scope = self.flow.scope(frame)
        if name in scope.outer:
            module = self.flow.module_frame(frame.path)
            outer = None if name in scope.globally else frame.outer
            while outer is not None and outer is not module:
                if name in self.flow.scope(outer).bound and self.flow.scope(outer).kind == "function":
                    return outer
                outer = outer.outer
            return module
        current: Frame | None = frame
        while current is not None:
            holder = self.flow.scope(current)
            if name in holder.bound and (holder.kind != "class" or current is frame):
                return current
            if current.outer is None:
                return current
            current = current.outer
        return frame

    def read(self, name: f.Name, frame: Frame) -> Values:
        """What a name may hold at the place where it is read."""
        known = self._seen.get(frame)
        if known is None:
            known = self._seen[frame] = _Seen(self._reaching_of(frame).reads)
        spans = known.reads.get(name.span) if known.reads else None
        if spans is not None:
            return self.flow.store.read_from(frame, name.id, spans, self.flow.reader)
        cell = known.cells.get(name.id)
        if cell is None:
            around = known.around.get(name.id)
            home = around[0] if around is not None else self.home(frame, name.id)
            if not self._binds(home, name.id):
                return self.lookup(frame, name.id, None)
            spans = around[1] if around is not None else self._seen_inside(frame, home, name.id)
            if spans is not None:
                known.around[name.id] = (home, spans)
                return self.flow.store.read_from(home, name.id, spans, self.flow.reader)
            cell = known.cells[name.id] = self.flow.store.cell(home, name.id)
        if self.flow.reader is not None:
            cell.readers[self.flow.reader] = None
        return cell.values

    def _seen_inside(self, frame: Frame, home: Frame, name: str) -> frozenset[f.Span] | None:
        """The assignments to a variable of `home` that a function inside may see, where these are not all there are."""
        while frame.outer is not None and frame.outer is not home:
            frame = frame.outer
        if frame.outer is None:
            return None
        return self._reaching_of(home).inside.get(frame.scope, {}).get(name)

    def _reaching_of(self, frame: Frame) -> Reaching:
        key = (frame.path, frame.scope)
        if key not in self._reaching:
            self._reaching[key] = reaching(self.flow.files[frame.path], self.flow.scope(frame))
        return self._reaching[key]

    def _binds(self, home: Frame, name: str) -> bool:
        """Whether a name of a frame is bound by its own scope, or declared there to be another's."""
        scope = self.flow.scope(home)
        return name in scope.bound or name in scope.outer

    def lookup(self, frame: Frame, name: str, seen: frozenset[Frame] | None) -> Values:
        """What a name may hold in a frame; a name nobody binds is a builtin or comes from a star import."""
        home = self.home(frame, name)
        values = self.flow.store.read(home, name, self.flow.reader)
        if self._binds(home, name):
            return values
        return values | self.starred(home, name, seen or frozenset())

    def starred(self, frame: Frame, name: str, seen: frozenset[Frame]) -> Values:
        """A name through the star imports of a module, or the builtin of that name."""
        outside = []
        for module in self.stars(frame):
            found = self.flow.modules.find(frame.path, module.module, module.level)
            if found is None:
                outside.append(canonical(f"{module.module}.{name}"))
                continue
            target = self.flow.module_frame(found)
            if target not in seen:
                values = self.lookup(target, name, seen | {frame})
                if values and not all(isinstance(v, External) and v.dotted == name for v in values):
                    return values
        known = [dotted for dotted in outside if catalog.is_known(dotted)]
        return self.flow.one(External, known[0] if known else name)

    def stars(self, frame: Frame) -> tuple[f.ImportedName, ...]:
        """The star imports in the scope of a frame."""
        key = (frame.path, frame.scope)
        if key not in self._stars:
            imports = (s for s in statements(self.flow.scope(frame).body) if isinstance(s, f.Import))
            self._stars[key] = tuple(s.names[0] for s in imports if s.names[0].bound == "*")
        return self._stars[key]

    def imported(self, statement: f.Import, frame: Frame) -> None:
        for name in statement.names:
            if name.bound == "*":
                continue
            self.bind(frame, name.bound, self.import_values(frame, name))

    def import_values(self, frame: Frame, name: f.ImportedName) -> Values:
        submodule = self.flow.modules.member(frame.path, name)
        if submodule is not None:
            return self.flow.one(ModuleValue, submodule)
        found = self.flow.modules.find(frame.path, name.module, name.level)
        if name.attribute is None:
            plain = name.bound == name.module.partition(".")[0] and name.bound != name.module
            dotted = name.bound if plain else name.module
            path = self.flow.modules.find(frame.path, dotted) if plain else found
            return self.flow.one(ModuleValue, path) if path else self.flow.one(External, dotted)
        if found is not None:
            return self.lookup(self.flow.module_frame(found), name.attribute, None)
        return self.flow.one(External, canonical(f"{name.module}.{name.attribute}".lstrip(".")))
