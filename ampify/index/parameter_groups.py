"""Whether the groups that an optimizer is given share out all parameters of modules, whatever group each is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, path_to
from ampify.index.values import Container, Frame, Value, Values
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.clips import Clips

# A condition by its text, and whether it is to hold; no text is no condition.
Condition: TypeAlias = tuple[str, bool]

_NEGATIONS = {"NotIn": "In", "NotEq": "Eq", "IsNot": "Is"}


class ParameterGroups:
    """Answers from a solved flow; `clips` says what a plain list of parameters is whole of."""

    def __init__(self, flow: Flow, clips: Clips) -> None:
        self.flow = flow
        self.clips = clips

    def whole(self, groups: Container) -> frozenset[Value]:
        """The modules all of whose parameters are in some group of a list of dicts; empty where some may be in none."""
        if "[*]" in self.flow.store.fields(groups):
            return frozenset()
        found: set[Value] = set()
        filtered: dict[tuple[str, frozenset[Value]], set[Condition]] = {}
        filled: set[Value] = set()
        for frame in self.frames(groups):
            for params in self.params(groups, frame):
                if isinstance(params, f.Comprehension):
                    modules, text, condition = self.filter(params, frame)
                    filtered.setdefault((text, modules), set()).add(condition)
                    continue
                values = self.flow.evaluate(params, frame)
                lists = [v for v in values if isinstance(v, Container) and self.text(v) in ("[]", "list()")]
                if lists:
                    filled.update(lists)
                elif not self.clips.partial(params, frame, None):
                    found |= self.clips.whole(values)
                else:
                    return frozenset()
        for (_, modules), conditions in filtered.items():
            if not modules or not any(text == "" or (text, not holds) in conditions for text, holds in conditions):
                return frozenset()
            found |= modules
        shared = self.shared_out(frozenset(filled)) if filled else frozenset()
        return frozenset(found | shared) if bool(filled) == bool(shared) else frozenset()

    def frames(self, container: Container) -> Iterator[Frame]:
        """The frames that make a container."""
        for scope in self.flow.files[container.place[0]].scopes:
            for frame in self.flow.frames_of.get((container.place[0], scope.index), ()):
                if frame.sites == container.sites and path_to(scope.body, container.place[1]):
                    yield frame

    def params(self, groups: Container, frame: Frame) -> Iterator[f.Expr]:
        """The expressions under `params` in a display of dicts."""
        display = self.node(frame, groups.place[1])
        items = display.items if isinstance(display, f.Elements) else ()
        for item in items:
            for key, value in zip(item.keys, item.values, strict=True) if isinstance(item, f.Mapping) else ():
                if isinstance(key, f.Constant) and key.value == "params":
                    yield value

    def node(self, frame: Frame, span: f.Span) -> f.Expr | None:
        way = path_to(self.flow.scope(frame).body, span)
        for whole in expressions(way[-1][0][way[-1][1]]) if way else ():
            for node, _ in in_order(whole):
                if node.span == span:
                    return node
        return None

    def text(self, container: Container) -> str:
        return self.flow.files[container.place[0]].text(container.place[1])

    # Lists by a condition

    def filter(self, params: f.Comprehension, frame: Frame) -> tuple[frozenset[Value], str, Condition]:
        """What `[p for n, p in model.named_parameters() if condition]` chooses from, and by what."""
        target, iterable, conditions = params.generators[0]
        names = target.items[-1] if isinstance(target, f.Elements) and target.items else target
        plain = len(params.generators) == 1 and len(conditions) < 2
        same = isinstance(names, f.Name) and isinstance(params.element, f.Name) and names.id == params.element.id
        if not plain or not same or self.clips.partial(iterable, frame, None):
            return frozenset(), "", ("", True)
        facts = self.flow.files[frame.path]
        condition = self.condition(conditions[0], facts) if conditions else ("", True)
        return self.clips.whole(self.flow.evaluate(iterable, frame)), facts.text(iterable.span), condition

    def condition(self, test: f.Expr, facts: f.FileFacts) -> Condition:
        """A condition in a form in which it and its negation have one text. What needs no gradient has none to clip."""
        if isinstance(test, f.Operation) and test.operator == "And":
            asked = [part for part in test.operands if not facts.text(part.span).endswith(".requires_grad")]
            if len(asked) < 2:
                return self.condition(asked[0], facts) if asked else ("", True)
        if isinstance(test, f.Operation) and test.operator == "Not":
            text, holds = self.condition(test.operands[0], facts)
            return text, not holds
        if isinstance(test, f.Operation) and test.kind == "Compare" and test.operator:
            sides = [facts.text(side.span) for side in test.operands]
            operator = _NEGATIONS.get(test.operator, test.operator)
            return f" {operator} ".join(sides), test.operator not in _NEGATIONS
        return ("", True) if facts.text(test.span).endswith(".requires_grad") else (facts.text(test.span), True)

    # Lists filled in a loop

    def shared_out(self, lists: frozenset[Value]) -> frozenset[Value]:
        """The modules each of whose parameters a loop appends to one of these lists; empty if it may leave some out."""
        writers = {write for one in lists for write in self.flow.store.writes(one, "[*]")}
        loops = {(frame, loop.span): (frame, loop) for frame, span in writers for loop in self.loops(frame, span)}
        if len(loops) != 1 or len({frame for frame, _ in writers}) != 1:
            return frozenset()
        ((frame, loop),) = loops.values()
        target = loop.target.items[-1] if isinstance(loop.target, f.Elements) and loop.target.items else loop.target
        if not isinstance(target, f.Name) or self.clips.partial(loop.iterable, frame, None):
            return frozenset()
        if not self.always_appends(loop.body, target.id, frame, lists):
            return frozenset()
        return self.clips.whole(self.flow.evaluate(loop.iterable, frame))

    def loops(self, frame: Frame, span: f.Span) -> Iterable[f.For]:
        around = (block[index] for block, index in path_to(self.flow.scope(frame).body, span))
        return [statement for statement in around if isinstance(statement, f.For)]

    def always_appends(self, block: tuple[f.Stmt, ...], name: str, frame: Frame, lists: Values) -> bool:
        """Whether a block appends what `name` holds to one of some lists, save what needs no gradient."""
        for statement in block:
            if isinstance(statement, f.Evaluate) and self.appends(statement.value, name, frame, lists):
                return True
            if isinstance(statement, f.Branch):
                facts = self.flow.files[frame.path]
                frozen = facts.text(statement.test.span) == f"not {name}.requires_grad"
                if not frozen and any(isinstance(s, f.Jump | f.Return) for arm in statement.arms for s in arm):
                    return False
                if statement.exhaustive and all(self.always_appends(arm, name, frame, lists) for arm in statement.arms):
                    return True
            elif isinstance(statement, f.Jump | f.Return | f.For | f.While | f.Try | f.With):
                return False
        return False

    def appends(self, expr: f.Expr, name: str, frame: Frame, lists: Values) -> bool:
        if not isinstance(expr, f.Call) or not isinstance(expr.func, f.Attribute) or expr.func.attr != "append":
            return False
        given = expr.args[0] if len(expr.args) == 1 else None
        held = self.flow.evaluate(expr.func.value, frame)
        return isinstance(given, f.Name) and given.id == name and bool(held) and held <= lists
