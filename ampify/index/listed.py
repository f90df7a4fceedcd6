"""Sites by their names alone: what the ledger lists, too, where the runs that were followed met no site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from ampify import catalog
from ampify.index.entities import root
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import dotted_name, expressions, in_order, is_called, last_name, statements
from ampify.index.values import Container, Frame, Instance, Place, State, Value, ordered
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.site import Site, SiteKind

_METHODS: dict[str, SiteKind] = {"backward": "backward", "zero_grad": "zero_grad", "step": "step"}
_FUNCTIONS: dict[str, SiteKind] = {"torch.save": "save", "torch.load": "load"}
_WORDS = frozenset((*_METHODS, "grad", "save", "load"))


@dataclass(frozen=True, slots=True)
class Named:
    """An expression that is a site by its name, the statement it is in, and the scope of that."""

    kind: SiteKind
    node: f.Expr
    statement: f.Stmt
    scope: int


def named_sites(facts: f.FileFacts) -> Iterator[Named]:
    """Calls and attributes of a file that look like sites: a `step` if its object's name, or that of what a `for` takes
    it from, says that it is an optimizer; a save or load if it is torch's."""
    if not facts.methods & (_WORDS | catalog.CLIPS) and not facts.names & catalog.CLIPS:
        return
    for scope in facts.scopes:
        # Names of optimizers beside those that say so: what a loop gives, and `super()` in a class of optimizers.
        each = {"super"} if _in_optimizer(facts, scope) else set()
        for statement in statements(scope.body):
            if isinstance(statement, f.For) and any(_named_optimizer(node) for node, _ in in_order(statement.iterable)):
                each |= {node.id for node, _ in in_order(statement.target) if isinstance(node, f.Name)}
            for expression in expressions(statement):
                for node, parents in in_order(expression):
                    kind = _kind(node, parents, each)
                    if kind is not None:
                        yield Named(kind, node, statement, scope.index)


def _named_optimizer(node: f.Expr) -> bool:
    return "opt" in last_name(node).lower()


def _in_optimizer(facts: f.FileFacts, scope: f.Scope) -> bool:
    """Whether a method is one of a class that names an optimizer, itself or in its bases."""
    around = facts.scopes[scope.parent] if scope.parent is not None else None
    if around is None or around.kind != "class":
        return False
    known = catalog.TORCH_OPTIMIZERS | catalog.OTHER_OPTIMIZERS
    named = (around.name, *map(dotted_name, around.bases))
    return any("opt" in name.lower() or name.rpartition(".")[2] in known for name in named)


def _kind(node: f.Expr, parents: tuple[f.Expr, ...], each: Set[str]) -> SiteKind | None:
    if isinstance(node, f.Attribute):
        read = node.attr == "grad" and not is_called(node, parents) and last_name(node.value) != "autograd"
        return "grad_read" if read else None
    if not isinstance(node, f.Call):
        return None
    name = last_name(node.func)
    if name in catalog.CLIPS:
        return "clip"
    if not isinstance(node.func, f.Attribute):
        return None
    owner = node.func.value
    if name == "step" and not (
        _named_optimizer(owner) or (last_name(owner) in each and isinstance(owner, f.Name | f.Call))
    ):
        return None
    return _METHODS.get(name) or _FUNCTIONS.get(dotted_name(node.func))


def by_path(sites: Iterable[Site]) -> dict[str, list[Site]]:
    """Sites by the files that they are in."""
    found: dict[str, list[Site]] = {}
    for site in sites:
        found.setdefault(site.anchor.path, []).append(site)
    return found


def unlisted(facts: f.FileFacts, sites: Iterable[Site]) -> Iterator[Named]:
    """Those that are none of the sites of the file. A save of a dict, or a load into an optimizer, is told there."""
    known = [(site.kind, site.anchor) for site in sites]
    exact = frozenset(known)
    for named in named_sites(facts):
        anchor = facts.anchor(named.node)
        stored = named.kind in ("save", "load")
        if (named.kind, anchor) in exact:
            continue
        if not stored or not any(k == named.kind and (anchor.contains(a) or a.contains(anchor)) for k, a in known):
            yield named


class Listing:
    """The listed sites of a traced program, each with the loop that what it leads to, or stores, belongs to."""

    def __init__(
        self, flow: Flow, events: Iterable[Event], loop_of: Mapping[Anchor, str], trained: Mapping[Value, str]
    ) -> None:
        self.flow = flow
        self._trained = dict(trained)
        self._running: dict[Place, str] = {}
        self._stored: dict[Place, str] = {}
        for event in events:
            loop = loop_of.get(event.anchor)
            if loop is None:
                continue
            for frame, span in event.stack:
                self._running.setdefault((frame.path, span), loop)
            if event.kind == "save":
                self._trained.update(dict.fromkeys(event.values, loop))
                self._stored.setdefault((event.frame.path, event.node.span), loop)
            elif event.kind == "load" and isinstance(event.node, f.Call):
                for place in self._places(event.node.args[:1], event.frame):
                    self._stored.setdefault(place, loop)

    def sites(self, path: str, sites: Iterable[Site]) -> Iterator[Site]:
        """The listed sites of a file; those that no loop has to do with take no part in training."""
        facts = self.flow.files[path]
        for named in unlisted(facts, sites):
            loop = self.loop(path, named)
            yield Site(named.kind, facts.anchor(named.node), loop, training=loop is not None)

    def loop(self, path: str, named: Named) -> str | None:
        """The loop whose sites a call leads to or whose state it stores, or the loop of its own place."""
        node = named.node
        if named.kind not in ("save", "load") or not isinstance(node, f.Call):
            return self._running.get((path, named.statement.span))
        if (path, node.span) in self._stored:
            return self._stored[(path, node.span)]
        for frame in self.flow.frames_of.get((path, named.scope), ()):
            found = [self._stored.get(place) for place in self._places(node.args[:1], frame)]
            found += [self._trained.get(value.of) for value in self._states(node.args[:1], frame)]
            if any(found):
                return next(loop for loop in found if loop)
        return None

    def _states(self, arguments: Iterable[f.Expr], frame: Frame) -> Iterator[State]:
        """The states among arguments, or in their containers."""
        for argument in arguments:
            values = self.flow.evaluate(argument, frame)
            inside = self.flow.elements(frozenset(v for v in values if isinstance(v, Container)))
            yield from ordered(v for v in values | inside if isinstance(v, State))

    def _places(
        self, arguments: Iterable[f.Expr], frame: Frame, parts: frozenset[Value] = frozenset()
    ) -> Iterator[Place]:
        """Where the objects are made that arguments stand for, or are part of."""
        for argument in arguments:
            for value in ordered(self.flow.evaluate(argument, frame)):
                whole = root(value)
                if isinstance(whole, Instance | Container):
                    yield whole.place
                made = self.flow.created.get(whole) if isinstance(whole, Instance) and whole.dotted[:1] == "." else None
                if made is not None and isinstance(made[1].func, f.Attribute) and whole not in parts:
                    # What a method of an object returned, such as `pop` of what was loaded, is a part of it; in
                    # `state = state.pop(key)` of a loop, of itself.
                    yield from self._places((made[1].func.value,), made[0], parts | {whole})
