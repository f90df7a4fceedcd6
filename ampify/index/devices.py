"""How the code at a place tells the device that a loop runs on, by what the script itself decides it with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.moments import Spot
from ampify.index.names import Names
from ampify.index.syntax import dotted_name, in_order, path_to, statements
from ampify.index.values import External, Frame, Instance, NoneValue, Text, Value, Values
from ampify.model import facts as f
from ampify.model.scaling import Device

KINDS = frozenset({"cuda", "cpu", "mps", "xpu"})
# What returns a device of torch.
DEVICES = frozenset({"torch.device", "torch.accelerator.current_accelerator"})


class Devices:
    """Answers for one loop, from the moves of its models."""

    def __init__(self, flow: Flow, names: Names, moves: Sequence[Event]) -> None:
        self.flow = flow
        self.names = names
        self.moves = moves

    def at(self, spot: Spot, models: frozenset[Value]) -> Device | None:
        """The device at a place; None if nothing there tells it."""
        if len({self.destination(m) for m in self.moves if _goes(m)}) > 1:
            # Which of them is taken is known to the model alone.
            return self.from_model(spot, models) or Device('"cuda"')
        return (
            self.from_variable(spot)
            or self.from_argument(spot)
            or self.from_condition(spot)
            or self.from_model(spot, models)
        )

    def destination(self, move: Event) -> object:
        """Where a move goes: a device, or what the code says."""
        method = _method(move)
        if method != "to":
            return method
        given = next(_arguments(move))
        values = self.flow.evaluate(given, move.frame)
        return values if _is_device(values) else self.flow.files[move.frame.path].text(given.span)

    def from_variable(self, spot: Spot) -> Device | None:
        """A `torch.device` in scope: the one that the models are moved to, or the only one."""
        moved = frozenset().union(*(self.flow.evaluate(a, m.frame) for m in self.moves for a in _arguments(m)))
        found = [
            held
            for name in self.names.visible(spot)
            for held in (name, *self.names.attributes(name, spot))
            if _is_device(held.values)
            and all(self.names.moments.certain(owner, part, spot) for owner, part in held.through)
        ]
        if any(held.values & moved for held in found):
            found = [held for held in found if held.values & moved]
        elif self.moves:
            return None
        return _compared(f"{found[0].text}.type") if found else None

    def from_argument(self, spot: Spot) -> Device | None:
        """What the models are moved to, if it can be spelled the same at the place."""
        for move in self.moves:
            for argument in _arguments(move):
                values = self.flow.evaluate(argument, move.frame)
                if isinstance(argument, f.Constant) and isinstance(argument.value, str):
                    return _literal(argument.value)
                text = self.same(argument, move.frame, spot)
                if text is None or any(isinstance(v, NoneValue) for v in values):
                    continue
                named = {v.text if isinstance(v, Text) else "" for v in values}
                whole = "cuda" in named or not self.chosen(argument, move.frame)
                if values and whole and named <= KINDS:
                    kind = text if isinstance(argument, f.Name | f.Attribute | f.Subscript) else f"({text})"
                    return Device(kind, f'{kind} == "cuda"')
                if "device" in text.lower():
                    return _compared(f"torch.device({text}).type")
        return None

    def chosen(self, expr: f.Expr, frame: Frame) -> bool:
        """Whether a condition chooses what a name is, so that besides what is known it may be the number of a GPU."""
        return any(value.kind in ("IfExp", "BoolOp") for value in (expr, *self.assigned(expr, frame)))

    def from_condition(self, spot: Spot) -> Device | None:
        """`model.cuda()`, under a condition perhaps."""
        moves = [m for m in self.moves if _method(m) == "cuda"]
        if any(part.kind in ("IfExp", "BoolOp") for move in moves for part in move.parents):
            return None
        if any(_always(self.flow.scope(m.frame).body, moves) for m in moves):
            return Device('"cuda"')
        asked = {self.asked(move, spot) for move in moves}
        condition = asked.pop() if len(asked) == 1 else None
        return Device('"cuda"', condition) if condition is not None else None

    def asked(self, move: Event, spot: Spot) -> str | None:
        """The one condition that a move stands under, as it can be asked at the place; None if there is none such."""
        tests = self.tests(move)
        text = self.same(tests[0], move.frame, spot) if len(tests) == 1 else None
        if text is None:
            return None
        return text if _is_flag(tests[0]) or self.is_flag(tests[0], move.frame) else f"bool({text})"

    def from_model(self, spot: Spot, models: frozenset[Value]) -> Device | None:
        """The device of the model's parameters, which is right wherever the model can be named."""
        known = (e for e in self.names.expressions(spot, self.names.models) if e.values & models)
        fitting = [e for e in known if not e.container and not e.optional and self.names.certain(e, spot)]
        if not fitting:
            return None
        parameter = f"next({min(fitting, key=lambda e: e.rank).text}.parameters())"
        return Device('"cuda"', f"{parameter}.is_cuda", f"{parameter}.device.type")

    def is_flag(self, test: f.Expr, frame: Frame) -> bool:
        """Whether a variable is set by what surely is a boolean, wherever its function or module sets it."""
        values = self.assigned(test, frame)
        return bool(values) and all(map(_is_flag, values))

    def assigned(self, expr: f.Expr, frame: Frame) -> list[f.Expr]:
        """What a variable or its attribute is set to where the function or module of the variable sets it."""
        name = dotted_name(expr)
        home = self.flow.variables.home(frame, name.partition(".")[0]) if name else None
        assigns = (s for s in statements(self.flow.scope(home).body) if isinstance(s, f.Assign)) if home else ()
        return [s.value for s in assigns if any(dotted_name(target) == name for target in s.targets)]

    def tests(self, move: Event) -> list[f.Expr]:
        """What a move stands under; `__name__` aside."""
        facts = self.flow.files[move.frame.path]
        around = [block[i] for block, i in path_to(self.flow.scope(move.frame).body, move.statement.span)]
        found = [s for s in around if isinstance(s, f.Branch)]
        first_arm = all(any(_holds(s, move) for s in branch.arms[0]) for branch in found)
        tests = [branch.test for branch in found if "__name__" not in facts.text(branch.test.span)]
        return tests if first_arm else [*tests, *tests]

    def same(self, expr: f.Expr, frame: Frame, spot: Spot) -> str | None:
        """The text of an expression, if all its names mean the same at a place as in a frame."""
        for node, _ in in_order(expr):
            if isinstance(node, f.Name):
                there, here = self.flow.variables.home(frame, node.id), self.flow.variables.home(spot.frame, node.id)
                if there is here and (frame is spot.frame or there.outer is None):
                    continue
                values = self.flow.evaluate(node, frame)
                if not _settled(values) or values != self.flow.evaluate(node, spot.frame):
                    return None
            elif isinstance(node, f.Call) and dotted_name(node.func) not in ("torch.cuda.is_available",):
                return None
        text = self.flow.files[frame.path].text(expr.span)
        return text if "\n" not in text else None


def _method(move: Event) -> str:
    return move.node.func.attr if isinstance(move.node, f.Call) and isinstance(move.node.func, f.Attribute) else ""


def _goes(move: Event) -> bool:
    """Whether a move says where to."""
    method = _method(move)
    return method in ("cuda", "cpu", "xpu", "npu", "mps") or (method == "to" and any(_arguments(move)))


def _is_device(values: Values) -> bool:
    return bool(values) and all(isinstance(v, Instance) and v.dotted in DEVICES for v in values)


def _settled(values: Values) -> bool:
    """Whether values are known, so that equal ones are the same."""
    return bool(values) and all(isinstance(v, Instance | External) for v in values)


def _arguments(move: Event) -> Iterator[f.Expr]:
    if isinstance(move.node, f.Call) and _method(move) == "to":
        yield from move.node.args[:1]
        yield from (value for name, value in move.node.keywords if name == "device")


def _literal(text: str) -> Device | None:
    kind = text.partition(":")[0]
    if kind not in KINDS:
        return None
    return Device(f'"{kind}"', "" if kind == "cuda" else "False")


def _compared(kind: str) -> Device:
    return Device(kind, f'{kind} == "cuda"')


def _is_flag(test: f.Expr) -> bool:
    """Whether a condition surely is a boolean."""
    if isinstance(test, f.Call):
        return dotted_name(test.func) == "torch.cuda.is_available"
    if isinstance(test, f.Operation) and test.kind == "BoolOp":
        return all(map(_is_flag, test.operands))
    return isinstance(test, f.Operation) and (test.kind == "Compare" or test.operator == "Not")


def _always(block: tuple[f.Stmt, ...], moves: Sequence[Event]) -> bool:
    """Whether a block makes one of these moves whichever way it takes."""
    for statement in block:
        match statement:
            case f.Branch():
                found = statement.exhaustive and all(_always(arm, moves) for arm in statement.arms)
            case f.With():
                found = _always(statement.body, moves)
            case f.For() | f.While() | f.Try() | f.Define():
                found = False
            case _:
                found = any(move.statement is statement for move in moves)
        if found:
            return True
    return False


def _holds(statement: f.Stmt, move: Event) -> bool:
    outer, inner = statement.span, move.statement.span
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]
