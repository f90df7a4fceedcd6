"""Finds uses of the deprecated `torch.cuda.amp`, and spells them by `torch.amp` with the device named."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ampify.index.link import ModuleTable
from ampify.index.syntax import dotted_name, expressions, in_order, statements
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.native import Respelling

OLD = "torch.cuda.amp"
NEW = "torch.amp"
# What moves, with the parameters that the old signature takes by position and the new one elsewhere.
_POSITIONS: Mapping[str, tuple[str, ...] | None] = {
    "autocast": ("enabled", "dtype", "cache_enabled"),
    "GradScaler": None,
    "custom_fwd": ("fwd",),
    "custom_bwd": ("bwd",),
}
_DECORATORS = frozenset({"custom_fwd", "custom_bwd"})
_MODULE = re.compile(r"(?:from|import)\s+(torch\.cuda(?:\.amp)?)\b")


def respellings(files: Mapping[str, f.FileFacts]) -> tuple[Respelling, ...]:
    """The files that use `torch.cuda.amp`, in the order of their paths."""
    using = [path for path in sorted(files) if any("cuda" in line and "amp" in line for line in files[path].lines)]
    modules = ModuleTable(files)
    return tuple(found for path in using if (found := _File(files[path], files, modules).read()) is not None)


class _File:
    """One file, and what its names mean."""

    def __init__(self, facts: f.FileFacts, files: Mapping[str, f.FileFacts], modules: ModuleTable) -> None:
        self.facts = facts
        self.files = files
        self.modules = modules
        self.bound: dict[str, str] = {}
        self.places: list[Anchor] = []
        self.texts: dict[Anchor, str] = {}
        self.obstacle = ""

    def read(self) -> Respelling | None:
        """What is to be done to the file; None if it does not use the old names."""
        for importing in self.facts.imports:
            self.imported(importing)
        for scope in self.facts.scopes:
            for decorator in scope.decorators:
                self.used(decorator, decorator=True)
            for statement in statements(scope.body):
                for expression in () if isinstance(statement, f.Define) else expressions(statement):
                    self.used(expression, decorator=False)
        if not self.places:
            return None
        if self.rebound():
            self.obstacle = "a parameter, function or class here bears the same name"
        if self.reexported():
            self.obstacle = "other files import these names from here, and call them in the old way"
        texts = () if self.obstacle else tuple(sorted(self.texts.items()))
        return Respelling(self.facts.path, tuple(sorted(set(self.places))), texts, self.obstacle)

    def imported(self, statement: f.Import) -> None:
        for name in statement.names:
            dotted = f"{name.module}.{name.attribute}" if name.attribute else name.module
            if name.level or not (dotted == OLD or dotted.startswith(f"{OLD}.")):
                continue
            self.places.append(self.facts.anchor(statement))
            if name.attribute is None and name.bound == "torch":
                self.module_token(statement, NEW)
                continue
            self.bound[name.bound] = dotted
            self.module_token(statement, "torch" if dotted == OLD and name.attribute else NEW)
            known = dotted == OLD or (dotted.rpartition(".")[2] in _POSITIONS and dotted.count(".") == 3)
            if not known or len({n.module for n in statement.names}) > 1 or self.strangers(statement):
                self.obstacle = f"{dotted} is imported in a way that has no equal"

    def strangers(self, statement: f.Import) -> bool:
        """Whether a statement imports from the old module what the new one does not have, or from `torch.cuda` more."""
        module = statement.names[0].module
        given = {name.attribute for name in statement.names if name.attribute}
        return bool(given - (set(_POSITIONS) if module == OLD else {"amp"}))

    def module_token(self, statement: f.Import, new: str) -> None:
        text = self.facts.text(statement.span)
        match = _MODULE.match(text)
        if match is None or "\n" in text[: match.end()]:
            self.obstacle = "the import is laid out in a way that is not known"
            return
        line, column = statement.span[:2]
        anchor = Anchor(self.facts.path, line, column + match.start(1), line, column + match.end(1), "Attribute")
        self.texts[anchor] = new

    def used(self, expression: f.Expr, *, decorator: bool) -> None:
        """What an expression does with the old names."""
        for node, parents in in_order(expression):
            name = self.meaning(node)
            if name is None or (parents and self.meaning(parents[-1]) is not None):
                continue
            self.places.append(self.facts.anchor(node))
            outer = parents[-1] if parents else None
            if name.rpartition(".")[2] not in _POSITIONS or name.count(".") != 3:
                if name != OLD or not isinstance(node, f.Name):
                    self.obstacle = f"{name} is used in a way that has no equal"
            elif isinstance(outer, f.Call) and outer.func is node:
                self.call(outer, node, name.rpartition(".")[2])
            elif decorator and name.rpartition(".")[2] in _DECORATORS:
                self.texts[self.facts.anchor(node)] = f'{self.spelled(node)}(device_type="cuda")'
            elif name.endswith("GradScaler"):
                self.texts[self.facts.anchor(node)] = self.spelled(node)
            else:
                self.obstacle = f"{name} is used as a value, and called somewhere else"

    def meaning(self, node: f.Expr) -> str | None:
        """The old dotted name that an expression spells, if it does."""
        dotted = dotted_name(node)
        root, _, rest = dotted.partition(".")
        if root in self.bound:
            return f"{self.bound[root]}.{rest}" if rest else self.bound[root]
        return dotted if dotted == OLD or dotted.startswith(f"{OLD}.") else None

    def spelled(self, node: f.Expr) -> str:
        text = self.facts.text(node.span)
        return NEW + text[len(OLD) :] if text.startswith(OLD) else text

    def call(self, call: f.Call, function: f.Expr, name: str) -> None:
        """A call: the device goes first, and what went by position before goes by name after it."""
        inner = [*call.args, *(value for _, value in call.keywords)]
        if any(isinstance(argument, f.Starred) for argument in inner) or any(n is None for n, _ in call.keywords):
            self.obstacle = "a call spreads its arguments"
            return
        positions = _POSITIONS[name]
        given = [self.facts.text(a.span) for a in call.args]
        named = [f"{n}={self.facts.text(v.span)}" for n, v in call.keywords]
        if positions is not None:
            given = [f"{n}={text}" for n, text in zip(positions, given, strict=False)]
        device = f"{self.facts.quote}cuda{self.facts.quote}"
        first = f"device_type={device}" if name in _DECORATORS else device
        if "#" in self.facts.text(call.span):
            self.obstacle = "a comment stands inside of a call"
        self.texts[self.facts.anchor(call)] = f"{self.spelled(function)}({', '.join([first, *given, *named])})"

    def rebound(self) -> bool:
        """Whether a definition of the file binds one of the names, so that a use may mean something else."""
        named = {scope.name for scope in self.facts.scopes}
        given = {parameter.name for scope in self.facts.scopes for parameter in scope.parameters}
        return bool((named | given) & self.bound.keys())

    def reexported(self) -> bool:
        """Whether other files of the project import the names that this one has bound."""
        for path, facts in self.files.items():
            for name in (n for statement in facts.imports for n in statement.names):
                wanted = path != self.facts.path and (name.attribute in self.bound or name.bound == "*")
                if wanted and self.modules.find(path, name.module, name.level) == self.facts.path:
                    return True
        return False
