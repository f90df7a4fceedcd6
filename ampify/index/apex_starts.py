"""Reads the calls by which training on apex starts: what decides on them, and what their statements do beside."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from ampify.apex_catalog import ROOT
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.hindrances import Refused
from ampify.index.syntax import in_order, path_to
from ampify.index.values import Frame
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex_loop import Start
from ampify.model.scaling import Device

_LAYOUT = re.compile(r"[\s()\[\]]+")
_THERE, _MISSING = re.compile(r"(\w+) is not None"), re.compile(r"(\w+) is None|not (\w+)")
_PURE = (f.Name, f.Attribute, f.Constant, f.Operation)


@dataclass(frozen=True, slots=True)
class Kind:
    """What such a call is of: its `name`, the parameters that take the models and optimizers which it returns, and the
    rule that refuses one."""

    name: str
    returned: tuple[str, ...]
    rule: str


INITIALIZE = Kind("amp.initialize", ("models", "optimizers"), "apex-amp-loop")


class Starts:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow, kind: Kind = INITIALIZE, gone: Container[Anchor] = ()) -> None:
        self.flow = flow
        self.kind = kind
        # Statements that the plan takes away otherwise.
        self.gone = gone

    def switched(self, event: Event) -> bool:
        """Whether it is decided at run time if amp is on."""
        assert isinstance(event.node, f.Call)
        levels = [v for n, v in event.node.keywords if n in ("enabled", "opt_level")]
        constant = all(isinstance(v, f.Constant) and v.value not in (False, "O0") for v in levels)
        return bool(self.conditions(event.frame, event.statement)) or not constant

    def start(self, event: Event, scaler: str, device: Device) -> Start:
        """Such a call; raises Refused where it cannot be taken away."""
        facts = self.flow.files[event.frame.path]
        statement = event.statement
        if not (isinstance(statement, f.Assign | f.Evaluate) and statement.value is event.node):
            raise Refused(self.kind.rule, event.anchor, f"{self.kind.name} is part of something larger here")
        conditions = self.conditions(event.frame, statement)
        rebinding = self.rebinding(facts, statement, event.node)
        asked = [branch for branch in conditions if not _asks(facts, branch, _THERE)]
        tests = [self.test(facts, branch, statement) for branch in asked]
        before = conditions[0] if conditions else statement
        return Start(
            call=event.anchor,
            statement=facts.anchor(statement),
            before=facts.anchor(before),
            scaler=scaler,
            device=device,
            condition=" and ".join(f"({t})" if len(tests) > 1 and " or " in t else t for t in tests),
            alone=bool(conditions) and not rebinding and self.holds_nothing_else(facts, conditions[0], statement),
            rebinding=rebinding,
        )

    def conditions(self, frame: Frame, statement: f.Stmt) -> list[f.Branch]:
        """The `if` statements around a statement, the outermost first, with nothing else between or around them."""
        path = path_to(self.flow.scope(frame).body, statement.span)
        around = [block[index] for block, index in path][:-1]
        facts = self.flow.files[frame.path]
        found = [s for s in around if isinstance(s, f.Branch) and "__name__" not in facts.text(s.test.span)]
        last = len(around) - len(found)
        if found and list(around[last:]) != found:
            anchor = facts.anchor(statement)
            detail = f"a condition around a loop or block decides on {self.kind.name}"
            raise Refused(self.kind.rule, anchor, detail)
        return found

    def test(self, facts: f.FileFacts, branch: f.Branch, statement: f.Stmt) -> str:
        """The condition under which a branch gets to a statement, as an expression."""
        text = facts.text(branch.test.span)
        pure = all(isinstance(node, _PURE) for node, _ in in_order(branch.test))
        if branch.kind != "If" or not pure or "\n" in text:
            raise Refused(self.kind.rule, facts.anchor(branch), "this condition cannot be asked again")
        if any(path_to(branch.arms[0], statement.span)):
            return text
        return f"not ({text})"

    def holds_nothing_else(self, facts: f.FileFacts, branch: f.Branch, statement: f.Stmt) -> bool:
        """Whether all that a branch does is to import apex, to stop without it, and to initialize it."""
        return all(self.is_part(facts, inner, statement) for arm in branch.arms for inner in arm)

    def is_part(self, facts: f.FileFacts, inner: f.Stmt, statement: f.Stmt) -> bool:
        if inner is statement or facts.anchor(inner) in self.gone:
            return True
        if isinstance(inner, f.Import):
            return all(name.module.partition(".")[0] == ROOT for name in inner.names)
        if isinstance(inner, f.Try):
            return not inner.final and all(self.is_part(facts, s, statement) for s in (*inner.body, *inner.orelse))
        if not isinstance(inner, f.Branch):
            return False
        stops = len(inner.arms[0]) == 1 and inner.arms[0][0].kind == "Raise" and not any(inner.arms[1:])
        return (stops and _asks(facts, inner, _MISSING)) or self.holds_nothing_else(facts, inner, statement)

    def rebinding(self, facts: f.FileFacts, statement: f.Stmt, call: f.Expr) -> str:
        """What an assignment does beside giving names what they had: `net = model`, say."""
        if not isinstance(statement, f.Assign):
            return ""
        given = ", ".join(facts.text(value.span) for value in self.given(call))
        target = facts.text(statement.targets[0].span)
        same = _LAYOUT.sub("", target).strip(",") == _LAYOUT.sub("", given).strip(",")
        return "" if same and len(statement.targets) == 1 else f"{target} = {given}"

    def given(self, call: f.Expr) -> Iterator[f.Expr]:
        """What a call is given and returns."""
        assert isinstance(call, f.Call)
        named = dict(call.keywords)
        for index, name in enumerate(self.kind.returned):
            value = call.args[index] if index < len(call.args) else named.get(name)
            if value is not None:
                yield value


def _asks(facts: f.FileFacts, branch: f.Branch, question: re.Pattern[str]) -> bool:
    """Whether a branch is for where something of apex is there, or is missing, as a question puts it."""
    found = question.fullmatch(facts.text(branch.test.span))
    bound = (n.bound for s in facts.imports for n in s.names if n.module.partition(".")[0] == ROOT and not n.level)
    return branch.kind == "If" and found is not None and any(name in found.groups() for name in bound)
