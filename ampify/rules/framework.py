"""What the rules on frameworks share: calls of what a file imports from one, and the fix that adds a setting there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ampify import catalog
from ampify.index.syntax import calls as calls_in
from ampify.index.syntax import statements
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.edit import AddElement, Applicability, Edit, Fix
from ampify.model.project import Project
from ampify.model.settings import Settings

# The level that frameworks have by a setting, by the kind of number it computes in. None of them has the others.
PRECISIONS = {"O1": "float16", "O4": "bfloat16"}


def calls(project: Project, roots: Iterable[str], names: frozenset[str]) -> Iterator[tuple[f.FileFacts, f.Call, str]]:
    """Calls of what is imported under one of `names` from packages `roots`, each with its file and dotted name."""
    packages = tuple(roots)
    for facts in project.files.values():
        imported = _imported(facts, packages)
        # What is nowhere read, by its own name or by one that stands for it, is not called.
        read = facts.read.union(dotted.rpartition(".")[2] for dotted in imported.values())
        for call in _calls(facts) if imported and not names.isdisjoint(read) else ():
            dotted = _dotted(call.func, imported, facts)
            if dotted.rpartition(".")[2] in names:
                yield facts, call, dotted


def has_setting(project: Project, kind: str) -> bool:
    """Whether the place where a framework's precision is set is in the files given: a rule of its own speaks of it."""
    roots, names = catalog.FRAMEWORK_SETTINGS[kind]
    return next(calls(project, roots, names), None) is not None


def given(call: f.Call, *names: str) -> bool:
    """Whether a call has one of these keywords, or may have it: `**options` can hold any."""
    return any(name is None or name in names for name, _ in call.keywords)


def unpacks(call: f.Call) -> bool:
    """Whether a call has arguments that cannot be read."""
    return any(name is None for name, _ in call.keywords) or any(isinstance(a, f.Starred) for a in call.args)


def literal(call: f.Call, name: str) -> object:
    """The value of a keyword that is a literal, None if there is none."""
    found = dict(call.keywords).get(name)
    return found.value if isinstance(found, f.Constant) else None


def adding(
    settings: Settings, anchor: Anchor, codes: Mapping[str, tuple[str, ...]], applicability: Applicability
) -> Fix | None:
    """The fix that gives a call, or a dict, what `codes` has for the level that is asked for."""
    elements = codes.get(PRECISIONS.get(settings.opt_level, ""), ())
    edits = tuple(AddElement(anchor, code) for code in elements)
    return alone(anchor, edits, applicability) if edits else None


def alone(anchor: Anchor, edits: tuple[Edit, ...], applicability: Applicability) -> Fix:
    """A fix in a group of its own."""
    return Fix(edits, applicability, f"{anchor.path}:{anchor.line}:{anchor.column}:setting")


def mentions(project: Project, roots: Iterable[str], words: Iterable[str]) -> bool:
    """Whether a file that imports one of these packages has one of these words in its text."""
    packages, wanted = tuple(roots), tuple(words)
    files = (facts for facts in project.files.values() if _imported(facts, packages))
    return any(word in line for facts in files for line in facts.lines for word in wanted)


def _imported(facts: f.FileFacts, roots: tuple[str, ...]) -> Mapping[str, str]:
    """What names of a file mean, of those that it imports from `roots`; of star imports the last, under `*`."""
    names = (name for statement in facts.imports for name in statement.names if not name.level)
    return {n.bound: _meaning(n) for n in names if n.module.partition(".")[0] in roots}


def _meaning(name: f.ImportedName) -> str:
    if name.attribute is not None:
        return name.module if name.bound == "*" else f"{name.module}.{name.attribute}"
    return name.bound if name.module.startswith(f"{name.bound}.") else name.module


def _dotted(node: f.Expr, imported: Mapping[str, str], facts: f.FileFacts) -> str:
    if isinstance(node, f.Attribute):
        base = _dotted(node.value, imported, facts)
        return f"{base}.{node.attr}" if base else ""
    if not isinstance(node, f.Name):
        return ""
    if node.id in imported:
        return imported[node.id]
    return f"{imported['*']}.{node.id}" if "*" in imported and node.id not in facts.scopes[0].bound else ""


def _calls(facts: f.FileFacts) -> Iterator[f.Call]:
    for scope in facts.scopes:
        yield from calls_in(scope.body)


def assigned(facts: f.FileFacts, expression: f.Expr, wanted: Callable[[f.Expr], bool]) -> f.Expr | None:
    """An expression that is `wanted`, or the one that a name is bound to, if it is bound just once in its file and is
    no parameter there."""
    if wanted(expression) or not isinstance(expression, f.Name):
        return expression if wanted(expression) else None
    bound = [
        statement.value
        for scope in facts.scopes
        for statement in statements(scope.body)
        if isinstance(statement, f.Assign)
        and any(isinstance(t, f.Name) and t.id == expression.id for t in statement.targets)
    ]
    handed = any(p.name == expression.id for scope in facts.scopes for p in scope.parameters)
    return bound[0] if len(bound) == 1 and not handed and wanted(bound[0]) else None


def resettled(facts: f.FileFacts, call: f.Call, texts: Mapping[str, str]) -> str | None:
    """A call with each keyword in `texts` replaced by its text, or taken away where that is empty; None where the
    layout does not tell what belongs to it, or a comment would go."""
    items: list[tuple[str | None, f.Expr]] = [*((None, a) for a in call.args), *call.keywords]
    items.sort(key=lambda item: item[1].span)
    start = call.func.span[2:]
    kept = ""
    for name, value in items:
        before = facts.text((*start, *value.span[:2]))
        text = before + facts.text(value.span)
        start = value.span[2:]
        if name is not None and name in texts:
            told = re.fullmatch(rf"(?P<lead>\(?,?\s*){name}\s*=\s*", before)
            if told is None:
                return None
            text = told["lead"] + texts[name] if texts[name] else "(" * (not kept)
        # What comes first has no comma before it.
        kept += text.lstrip(", \n") if kept == "(" else text
    rest = facts.text((*start, *call.span[2:]))
    if not re.match(r"\s*,?\s*\)", rest):
        return None
    return facts.text(call.func.span) + kept + (rest.lstrip(", \n") if kept == "(" else rest)
