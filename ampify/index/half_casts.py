"""Finds what a program casts to half precision, and what it becomes where all parameters stay in float32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from ampify import catalog
from ampify.index.entities import Entities
from ampify.index.flow import Flow
from ampify.index.hindrances import Refused
from ampify.index.syntax import dotted_name, expressions, in_order, path_to, statements
from ampify.index.values import External, Frame, Instance, Values
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex_loop import Change

KIND = "older-amp-loop"
_METHOD = "half"
# Types of half precision, as attributes of torch, or by themselves where they are imported so.
_TYPES = frozenset({"half", "float16", "bfloat16", "HalfTensor", "BFloat16Tensor"})
_TENSOR = "HalfTensor"
_ROOT = "torch"
_MODEL = "the model stays in float32, and autocast casts what it computes with"
_INPUT = "what the model is given is float32, as it is; autocast casts that, too"
_ELSEWHERE = "another file casts to half precision here, and may be used without this training, too"
_NAMED = "a type of half precision is named here, and it cannot be told for what"


class HalfCasts:
    """Answers from a solved flow, for one program, whose training is in the files `known`."""

    def __init__(self, flow: Flow, entities: Entities, known: Set[str]) -> None:
        self.flow = flow
        self.entities = entities
        self.known = known

    def changes(self) -> Iterator[Change]:
        """What becomes of each cast, by file, in the order of the text; raises Refused where that is not known."""
        for path in sorted(self.flow.files):
            facts = self.flow.files[path]
            for scope in facts.scopes:
                frames = self.flow.frames_of.get((path, scope.index), [])
                for statement in statements(scope.body):
                    for expression in expressions(statement):
                        for node, parents in in_order(expression):
                            for change in self.change(facts, statement, node, parents, frames):
                                if path not in self.known:
                                    raise Refused(KIND, change.anchor, _ELSEWHERE)
                                yield change

    def change(
        self, facts: f.FileFacts, statement: f.Stmt, node: f.Expr, parents: tuple[f.Expr, ...], frames: list[Frame]
    ) -> Iterator[Change]:
        if isinstance(node, f.Call) and isinstance(node.func, f.Attribute) and _is_cast(node):
            yield self.of_method(facts, statement, node, node.func, frames)
        elif isinstance(node, f.Call) and self.halves(node, frames):
            yield self.of_function(facts, statement, node, frames)
        elif self.names_type(facts, node, parents) and not any(self.is_halving(p, frames) for p in parents):
            raise Refused(KIND, facts.anchor(node), _NAMED)

    # Methods

    def of_method(
        self, facts: f.FileFacts, statement: f.Stmt, call: f.Call, function: f.Attribute, frames: list[Frame]
    ) -> Change:
        """Of a model the cast goes; anything else, of whatever type it is, is to be float32, as the model is."""
        receivers = self.values(function.value, frames)
        if receivers and all(isinstance(v, Instance) and self.entities.is_module(v) for v in receivers):
            return self.without(facts, statement, call, self.inside(function.value, frames))
        own = (v for v in receivers if isinstance(v, Instance) and v.cls is not None)
        if not all(map(self.entities.is_module, own)):
            raise Refused(KIND, facts.anchor(call), "a method of the project's own may cast to half precision here")
        text = facts.text(call.span)
        cut = len(facts.text((*call.span[:2], *function.value.span[2:])))
        rest = text[cut:]
        if rest.count(_METHOD) != 1 or "#" in rest:
            raise Refused(KIND, facts.anchor(call), "a cast to half precision is laid out in a way that is not known")
        return Change(facts.anchor(call), text[:cut] + rest.replace(_METHOD, "float"), _INPUT)

    # Functions of apex

    def is_halving(self, node: f.Expr, frames: list[Frame]) -> bool:
        return isinstance(node, f.Call) and self.halves(node, frames)

    def halves(self, call: f.Call, frames: list[Frame]) -> bool:
        return any(isinstance(v, External) and v.dotted in catalog.HALVED for v in self.values(call.func, frames))

    def of_function(self, facts: f.FileFacts, statement: f.Stmt, call: f.Call, frames: list[Frame]) -> Change:
        """A network goes on as the one that was given."""
        if not call.args or isinstance(call.args[0], f.Starred) or not self.only_halves(call, frames):
            raise Refused(KIND, facts.anchor(call), "it cannot be told what is cast to half precision here")
        return self.without(facts, statement, call, self.inside(call.args[0], frames))

    def only_halves(self, call: f.Call, frames: list[Frame]) -> bool:
        functions = self.values(call.func, frames)
        return all(isinstance(v, External) and v.dotted in catalog.HALVED for v in functions)

    def inside(self, model: f.Expr, frames: list[Frame]) -> f.Expr:
        """What is cast, of a model that is cast several times over."""
        while isinstance(model, f.Call):
            if isinstance(model.func, f.Attribute) and _is_cast(model):
                model = model.func.value
            elif model.args and self.halves(model, frames):
                model = model.args[0]
            else:
                break
        return model

    def without(self, facts: f.FileFacts, statement: f.Stmt, call: f.Call, model: f.Expr) -> Change:
        """A cast of a model in place, or under the name that it has, goes as a whole; else the model stands there."""
        text = facts.text(model.span)
        alone = isinstance(statement, f.Evaluate) and statement.value is call
        if isinstance(statement, f.Assign) and statement.value is call:
            alone = len(statement.targets) == 1 and facts.text(statement.targets[0].span) == text
        # In a statement by itself, a model that is made there would be lost.
        if alone and isinstance(model, f.Name | f.Attribute):
            return Change(facts.anchor(statement), "", _MODEL, (facts.anchor(call),))
        if "#" in facts.text(call.span):
            raise Refused(KIND, facts.anchor(call), "a comment stands inside of this cast to half precision")
        close = isinstance(model, _CLOSE)
        return Change(facts.anchor(call), text if close else f"({text})", _MODEL, (facts.anchor(call),))

    # Types

    def names_type(self, facts: f.FileFacts, node: f.Expr, parents: tuple[f.Expr, ...]) -> bool:
        """Whether a type of half precision is named, other than to ask whether something is of it."""
        if any(isinstance(p, f.Operation) and p.kind == "Compare" for p in parents[-1:]):
            return False
        if isinstance(node, f.Constant) and isinstance(node.value, str):
            return _TENSOR in node.value and bool(parents)
        if isinstance(node, f.Attribute):
            return node.attr in _TYPES and dotted_name(node).partition(".")[0] == self.root(facts)
        return isinstance(node, f.Name) and any(
            name.bound == node.id and name.attribute in _TYPES and name.module.partition(".")[0] == _ROOT
            for statement in facts.imports
            for name in statement.names
        )

    @staticmethod
    def root(facts: f.FileFacts) -> str:
        """What `torch` goes by in a file."""
        found = (n.bound for s in facts.imports for n in s.names if n.module == _ROOT and n.attribute is None)
        return next(found, _ROOT)

    def values(self, expr: f.Expr, frames: list[Frame]) -> Values:
        return frozenset().union(*(self.flow.evaluate(expr, frame) for frame in frames))


def _is_cast(call: f.Call) -> bool:
    """Whether a call is `x.half()`, of whatever."""
    bare = not call.args and not call.keywords
    return bare and isinstance(call.func, f.Attribute) and call.func.attr == _METHOD


_PURE = (f.Name, f.Attribute, f.Constant, f.Operation)
# What binds as closely as a call does.
_CLOSE = (f.Name, f.Attribute, f.Call, f.Subscript)


def gathered(flow: Flow, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes, of which those that leave nothing of an `if` are one: it goes as a whole."""
    known = tuple(changes)
    gone = {change.anchor for change in known if not change.code}
    wholes: dict[Anchor, list[Change]] = {}
    for change in known:
        wholes.setdefault(_whole(flow, change.anchor, gone) if not change.code else change.anchor, []).append(change)
    return tuple(
        replace(first, anchor=anchor, calls=tuple(call for one in (first, *rest) for call in one.calls))
        for anchor, (first, *rest) in wholes.items()
    )


def outermost(casts: Iterable[Change]) -> tuple[Change, ...]:
    """Casts without those inside of others, which have seen to them."""
    changes = tuple(casts)
    found = []
    for change in changes:
        if not any(other.anchor != change.anchor and other.anchor.contains(change.anchor) for other in changes):
            inner = (c for one in changes if change.anchor.contains(one.anchor) for c in one.calls)
            found.append(replace(change, calls=tuple(dict.fromkeys(inner))))
    return tuple(found)


def _whole(flow: Flow, anchor: Anchor, gone: set[Anchor]) -> Anchor:
    """The `if` around a statement that holds nothing but statements that go; without one, the statement."""
    facts = flow.files[anchor.path]
    for scope in facts.scopes:
        for block, index in path_to(scope.body, (*anchor.start, *anchor.end)):
            around = block[index]
            if isinstance(around, f.Branch) and around.kind == "If":
                pure = all(isinstance(node, _PURE) for node, _ in in_order(around.test))
                if pure and gone.issuperset(facts.anchor(s) for arm in around.arms for s in arm):
                    return facts.anchor(around)
    return anchor
