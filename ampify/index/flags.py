"""The script's own command line: where an option for the opt level goes, and how its value is named elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify.index.flow import Flow
from ampify.index.moments import Spot
from ampify.index.names import Names
from ampify.index.syntax import nodes, path_to
from ampify.index.values import Instance, Values
from ampify.model import facts as f
from ampify.model.project import Flag

SPELLINGS = ("--opt-level", "--opt_level")


class Flags:
    """Finds the namespace of parsed arguments that is in scope at a place."""

    def __init__(self, flow: Flow, names: Names) -> None:
        self.flow = flow
        self.names = names

    def find(self, spot: Spot) -> Flag | None:
        """The option for the opt level at a place; None if no parsed arguments can be named there."""
        names = tuple(self.names.visible(spot))
        for held in (*names, *(field for name in names for field in self.names.attributes(name, spot))):
            flag = self.parsed(held.text, held.values)
            if flag is not None:
                return flag
        return None

    def parsed(self, text: str, values: Values) -> Flag | None:
        """The option, if `text` is a namespace that one known `parser.parse_args()` returned."""
        instances = [v for v in values if isinstance(v, Instance)]
        if len(instances) != 1 or instances[0].dotted != ".parse_args":
            return None
        frame, call = self.flow.created[instances[0]]
        facts = self.flow.files[frame.path]
        path = path_to(self.flow.scope(frame).body, call.span)
        if not path or not isinstance(call.func, f.Attribute) or not isinstance(call.func.value, f.Name):
            return None
        statement = path[-1][0][path[-1][1]]
        if not isinstance(statement, f.Assign | f.Evaluate | f.Return):
            return None
        parser = facts.text(call.func.value.span)
        declared = any(option in SPELLINGS for option in self.options(facts.scopes))
        return Flag(facts.anchor(statement), parser, f"{text}.opt_level", declared)

    @staticmethod
    def options(scopes: Iterable[f.Scope]) -> Iterator[str]:
        """Strings given to `add_argument` anywhere in a file."""
        for scope in scopes:
            for node, _ in nodes(scope.body):
                if isinstance(node, f.Call) and getattr(node.func, "attr", "") == "add_argument":
                    yield from (a.value for a in node.args if isinstance(a, f.Constant) and isinstance(a.value, str))
