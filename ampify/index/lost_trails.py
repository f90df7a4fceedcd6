"""Where the trail is lost of an expression that the flow knows nothing of."""

from __future__ import annotations

from ampify.index.positions import ARGUMENT, ASSIGNED, ELEMENT, Looking, hop
from ampify.index.syntax import statements
from ampify.index.values import External, Frame, NoneValue, Text
from ampify.index.written import Written
from ampify.model import facts as f
from ampify.model.evidence import Hop

# Names behind names, arguments behind parameters: more of them tell no more.
MOST_HOPS = 12


class LostTrails:
    """Follows the text where there are no values to follow."""

    def __init__(self, looking: Looking, written: Written) -> None:
        self.flow = looking.flow
        self.looking = looking
        self.written = written

    def trail(self, expr: f.Expr, frame: Frame) -> tuple[Hop, ...]:
        """The hops from an expression to the last place that says anything of it, and what is missing there."""
        hops: list[Hop] = []
        current: tuple[f.Expr, Frame] | None = (expr, frame)
        while current is not None and len(hops) < MOST_HOPS:
            at, where = current
            passed, current = self.step(at, where)
            hops += passed
        return tuple(hops)

    def step(self, expr: f.Expr, frame: Frame) -> tuple[tuple[Hop, ...], tuple[f.Expr, Frame] | None]:
        text = self.looking.text(expr, frame)
        values = self.looking.values(expr, frame)
        outside = sorted(v.dotted for v in values if isinstance(v, External))
        if outside:
            return (hop(expr, frame, f"{outside[0]} is outside the files given", lost=True),), None
        if values and all(isinstance(v, NoneValue) for v in values):
            return (hop(expr, frame, f"{text} is None as far as the files given show", lost=True),), None
        match expr:
            case f.Name():
                return self.name(expr, frame)
            case f.Subscript():
                return (hop(expr, frame, f"{ELEMENT} {self.looking.text(expr.value, frame)}"),), (expr.value, frame)
            case f.Starred() | f.Walrus():
                return (), (expr.value, frame)
            case f.Attribute():
                return (hop(expr, frame, f"nothing in the files given sets {text}", lost=True),), None
            case f.Call():
                return (hop(expr, frame, self.call(expr, frame), lost=True),), None
        return (hop(expr, frame, f"what {text} comes to is not followed", lost=True),), None

    def call(self, call: f.Call, frame: Frame) -> str:
        """What is not known of a call."""
        callees = self.looking.values(call.func, frame)
        if any(isinstance(v, External) and v.dotted == "getattr" for v in callees) and len(call.args) > 1:
            names = self.looking.values(call.args[1], frame)
            if not names or not all(isinstance(v, Text) for v in names):
                return "getattr with a name that is not known"
        return f"what {self.looking.call(call, frame)} returns is not known"

    def name(self, name: f.Name, frame: Frame) -> tuple[tuple[Hop, ...], tuple[f.Expr, Frame] | None]:
        """The first write to a variable, or the argument for a parameter."""
        home = self.flow.variables.home(frame, name.id)
        scope = self.flow.scope(home)
        plain = name.id.partition("@")[0]
        for statement in statements(scope.body):
            match statement:
                case f.Assign() if any(_binds(t, name.id) for t in statement.targets):
                    return (Hop(home.path, statement.span[0], ASSIGNED),), (statement.value, home)
                case f.For() if _binds(statement.target, name.id):
                    return (
                        Hop(home.path, statement.span[0], f"{ELEMENT} {self.looking.text(statement.iterable, home)}"),
                    ), (statement.iterable, home)
                case f.With():
                    for context, target in statement.items:
                        if target is not None and _binds(target, name.id):
                            return (Hop(home.path, statement.span[0], ASSIGNED),), (context, home)
        if any(p.name == name.id for p in scope.parameters):
            here = Hop(home.path, scope.span[0], f"parameter {plain}")
            for caller, span in self.flow.callers.get(home, ()):
                call = self.written.call_at(caller, span)
                given = [v for key, v in call.keywords if key == name.id] if call is not None else []
                if call is not None and given:
                    return (here, hop(call, caller, ARGUMENT)), (given[0], caller)
            how = f"nothing is known of what is given for parameter {plain} of {scope.name}()"
            return (Hop(home.path, scope.span[0], how, lost=True),), None
        return (hop(name, frame, f"nothing in the files given sets {plain}", lost=True),), None


def _binds(target: f.Expr, name: str) -> bool:
    match target:
        case f.Name():
            return target.id == name
        case f.Elements():
            return any(_binds(item, name) for item in target.items)
        case f.Starred():
            return _binds(target.value, name)
    return False
