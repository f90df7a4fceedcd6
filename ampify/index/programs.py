"""Splits a project into programs: files that train together, with all that they import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ampify.index.grouping import Groups
from ampify.index.link import ModuleTable
from ampify.index.syntax import calls, last_name
from ampify.model import facts as f

# A file that uses none of these names has no site of its own.
SITE_NAMES = frozenset({"backward", "step", "zero_grad", "grad", "load_state_dict"})
# Functions that import the module of a name that they are given as text.
IMPORTERS = frozenset({"import_module", "__import__"})
CROWDED = "more files use it, at any remove, than can be followed"


@dataclass(frozen=True, slots=True)
class Program:
    """Files that are analysed together. Only in the `leading` ones, which have sites or import files that have, can
    training start; the others are libraries, and may be part of several programs. `shortfall` says why it is not all
    that belongs together, if it is not."""

    files: Mapping[str, f.FileFacts]
    leading: frozenset[str]
    modules: ModuleTable
    shortfall: str = ""

    def may_train(self) -> bool:
        """Whether a leading file calls a `backward`, or imports it to call it by its name."""
        return any(_calls_backward(self.files[path]) for path in self.leading)


def programs(files: Mapping[str, f.FileFacts], crowded: frozenset[str] = frozenset()) -> tuple[Program, ...]:
    """The programs of a project, in the order of their first leading file. Each is analysed apart from the others: what
    is too large or too strange in one does not keep another from being migrated. A `crowded` file, which more use than
    can be followed, is looked at alone; what leads to sites by way of such files only is no program."""
    modules = ModuleTable(files)
    imports = {path: frozenset(imported_files(path, facts, modules)) for path, facts in files.items()}
    leading = _leading({path: facts for path, facts in files.items() if path not in crowded}, imports) - crowded
    groups = Groups()
    for path in leading:
        groups.merge([path, *(other for other in imports[path] if other in leading)])
    parts: dict[object, list[str]] = {}
    for path in sorted(leading):
        parts.setdefault(groups.find(path), []).append(path)
    together = tuple(
        Program({path: files[path] for path in sorted(closure(part, imports.__getitem__))}, frozenset(part), modules)
        for part in parts.values()
        if any(_has_sites(files[path]) for path in part)
    )
    alone = (
        Program({path: files[path]}, frozenset((path,)), ModuleTable((path,)), CROWDED)
        for path in sorted(crowded & files.keys())
        if _has_sites(files[path])
    )
    return (*together, *alone)


def _leading(files: Mapping[str, f.FileFacts], imports: Mapping[str, frozenset[str]]) -> frozenset[str]:
    importers: dict[str, set[str]] = {}
    for path, targets in imports.items():
        for target in targets:
            importers.setdefault(target, set()).add(path)
    sites = (path for path, facts in files.items() if _has_sites(facts))
    return closure(sites, lambda path: importers.get(path, ()))


def _has_sites(facts: f.FileFacts) -> bool:
    return bool(facts.methods & SITE_NAMES) or "backward" in facts.names


def _calls_backward(facts: f.FileFacts) -> bool:
    imported = (name.attribute for statement in facts.imports for name in statement.names)
    return "backward" in facts.methods or "backward" in imported


def closure(start: Iterable[str], following: Callable[[str], Iterable[str]]) -> frozenset[str]:
    """Some files, with those that follow from them at any remove."""
    reached = set(start)
    stack = list(reached)
    while stack:
        fresh = set(following(stack.pop())) - reached
        reached |= fresh
        stack.extend(fresh)
    return frozenset(reached)


def imported_files(path: str, facts: f.FileFacts, modules: ModuleTable) -> Iterator[str]:
    """The files that a file imports, packages on the way included, and those that it asks for by a text."""
    stated = (n for statement in facts.imports for n in statement.names)
    for name in (*stated, *_asked_for(facts)):
        parts = name.module.split(".") if name.module else []
        candidates = [
            modules.find(path, ".".join(parts[:n]), name.level) for n in range(len(parts) + 1) if n or name.level
        ]
        for found in (*candidates, modules.member(path, name)):
            if found is not None and found != path:
                yield found


def _asked_for(facts: f.FileFacts) -> Iterator[f.ImportedName]:
    """The modules of calls like `import_module("ops.matmul")`."""
    if not IMPORTERS & (facts.names | facts.methods):
        return
    for call in (call for scope in facts.scopes for call in calls(scope.body)):
        if last_name(call.func) not in IMPORTERS:
            continue
        # A package that is no text is the file's own: `__package__`, or a name in it.
        name, package, *_ = (*map(_text, call.args), "", "")
        module = name.lstrip(".")
        level = len(name) - len(module)
        if level == 1 and package:
            module, level = f"{package}.{module}", 0
        if module:
            yield f.ImportedName("", module, None, level)


def _text(expr: f.Expr) -> str:
    return expr.value if isinstance(expr, f.Constant) and isinstance(expr.value, str) else ""
