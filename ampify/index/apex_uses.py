"""Finds every use of NVIDIA apex in a project, and which of them must move to the runtime together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ampify.apex_catalog import EXTENSIONS, ROOT, has_equal
from ampify.index.apex_mentions import apex_imports, apex_mentions, is_local, of_apex, torch_is_bound
from ampify.index.grouping import Groups
from ampify.index.link import ModuleTable
from ampify.index.programs import IMPORTERS, Program, programs
from ampify.index.syntax import expressions, in_order, last_name, statements
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex import ApexFile, ApexGroup, ApexUse
from ampify.model.project import TrainingLoop
from ampify.model.site import Site

# Functions that are given the name of a module as text.
_BY_NAME = IMPORTERS | {"find_spec", "importorskip"}
_MODULE = re.compile(rf"{ROOT}(\.\w+)*")
# What parameters come into half precision by.
_HALF = frozenset("BFloat16Tensor FP16Model HalfTensor bfloat16 convert_network float16 half network_to_half".split())
_TOKEN = re.compile(rf"\b{ROOT}\b")
# "Please install apex from https://... to use fp16": a message that names apex as what to install.
INSTALL = re.compile(
    r"(?<=install )(?:the )?(?:nvidia )?apex\b(?: from https?://[^\s'\"]+(?<![.,!?;:)]))?"
    r"|\bapex\b(?= is not installed)",
    re.IGNORECASE,
)


def apex_groups(files: Mapping[str, f.FileFacts], sites: Iterable[Site]) -> tuple[ApexGroup, ...]:
    """The uses of apex in a project, by what runs together, in the order of the text."""
    modules = ModuleTable(files)
    uses = {path: used for path, facts in files.items() if (used := tuple(_uses(facts, modules)))}
    if not uses:
        return ()
    groups = Groups()
    half = {path for path in uses if _names_half(files[path])}
    found = programs(files)
    for program in found:
        together = [path for path in program.files if path in uses]
        groups.merge(together)
        if any(_names_half(files[path]) for path in program.files):
            half.update(together)
    parts: dict[object, list[str]] = {}
    for path in sorted(uses):
        parts.setdefault(groups.find(path), []).append(path)
    loops = _loops(found, sites)
    return tuple(
        ApexGroup(
            id=f"apex:{paths[0]}",
            uses=tuple(sorted((use for path in paths for use in uses[path]), key=lambda use: use.anchor)),
            loops=tuple(sorted(loop for loop, around in loops.items() if around & set(paths))),
            files=tuple(_file(files, path, modules) for path in paths),
            half=not half.isdisjoint(paths),
        )
        for paths in parts.values()
    )


def _names_half(facts: f.FileFacts) -> bool:
    return not _HALF.isdisjoint(facts.methods | facts.names | facts.read)


def leaving(loops: Iterable[TrainingLoop], groups: Iterable[ApexGroup]) -> Iterator[TrainingLoop]:
    """The loops; those that another amp than apex's initializes have nothing of apex to leave."""
    mentioned = {mention.call for group in groups for file in group.files for mention in file.mentions}
    for loop in loops:
        stays = loop.apex is not None and not mentioned.issuperset(start.call for start in loop.apex.starts)
        yield replace(loop, apex=None) if stays else loop


def _file(files: Mapping[str, f.FileFacts], path: str, modules: ModuleTable) -> ApexFile:
    facts = files[path]
    imports = apex_imports(facts, modules)
    bound = {name.bound for statement in imports for name in statement.names if name.apex}
    shared = {
        name.attribute
        for other, using in files.items()
        for statement in (using.imports if other != path else ())
        for name in statement.names
        if name.attribute in bound and modules.find(other, name.module, name.level) == path
    }
    mentions = apex_mentions(facts, imports)
    return ApexFile(path, imports, mentions, torch_is_bound(facts), frozenset(n for n in shared if n is not None))


def _loops(found: Iterable[Program], sites: Iterable[Site]) -> dict[str, frozenset[str]]:
    """By training loop, the files of the programs it runs in."""
    around: dict[str, frozenset[str]] = {}
    loop_paths = {(site.loop, site.anchor.path) for site in sites if site.loop is not None}
    for program in found:
        for loop, path in loop_paths:
            if loop is not None and path in program.files:
                around[loop] = around.get(loop, frozenset()) | frozenset(program.files)
    return around


def _uses(facts: f.FileFacts, modules: ModuleTable) -> Iterator[ApexUse]:
    text = "".join(facts.lines)
    # Searching for a plain word is many times faster than for a pattern.
    if not (ROOT in text and _TOKEN.search(text)) and not any(name in text for name in EXTENSIONS):
        return
    imports = [i for i in facts.imports if any(of_apex(facts, n, modules) for n in i.names)]
    bound: dict[str, str] = {}
    for statement in imports:
        for use in _imported(facts, statement, modules):
            if use.bound:
                bound[use.bound] = use.dotted
            yield use
    yield from _named(facts, bound)
    yield from _texts(facts, bool(imports))


def _imported(facts: f.FileFacts, statement: f.Import, modules: ModuleTable) -> Iterator[ApexUse]:
    """What one statement imports from apex; the names of a `from` share the place of the root."""
    tokens = list(_tokens(facts, statement))
    given = [n for n in statement.names if of_apex(facts, n, modules)]
    roots = [n for n in given if n.module.partition(".")[0] == ROOT]
    anchor = facts.anchor(statement)
    for name in given:
        dotted = f"{name.module}.{name.attribute}" if name.attribute else name.module
        if name not in roots:
            yield ApexUse("import", anchor, dotted, None, False)
            continue
        token = tokens[0] if name.attribute else tokens[roots.index(name)]
        whole = name.attribute is None and name.bound == ROOT
        yield ApexUse("import", anchor, dotted, token, has_equal(dotted), ROOT if whole else name.bound)


def _tokens(facts: f.FileFacts, statement: f.Import) -> Iterator[Anchor]:
    """The places of the root in an import statement: of the module of a `from`, or of each name."""
    line, column, _, _ = statement.span
    text = facts.text(statement.span)
    pattern = rf"from\s+({ROOT})\b" if text.startswith("from") else rf"(?:import|,)[\s\\]*({ROOT})\b"
    for match in re.finditer(pattern, text):
        before = text[: match.start(1)]
        row = line + before.count("\n")
        start = match.start(1) - before.rfind("\n") - 1 if "\n" in before else column + match.start(1)
        yield Anchor(facts.path, row, start, row, start + len(ROOT), "Name")


def _named(facts: f.FileFacts, bound: Mapping[str, str]) -> Iterator[ApexUse]:
    """Uses of imported names: `amp.half_function`, and each `apex` where the package is imported whole."""
    for scope in facts.scopes:
        for expression in (e for s in statements(scope.body) for e in (*expressions(s), *_targets(s))):
            for node, parents in in_order(expression):
                if isinstance(node, f.Name) and node.id in bound and not is_local(facts, scope, node.id):
                    yield from _name(facts, node, parents, ROOT if node.id == ROOT else bound[node.id])


def _targets(statement: f.Stmt) -> tuple[f.Expr, ...]:
    return tuple(t for _, t in statement.items if t is not None) if isinstance(statement, f.With) else ()


def _name(facts: f.FileFacts, node: f.Name, parents: tuple[f.Expr, ...], dotted: str) -> Iterator[ApexUse]:
    place: f.Expr = node
    for parent in reversed(parents):
        if not isinstance(parent, f.Attribute):
            break
        place, dotted = parent, f"{dotted}.{parent.attr}"
    whole = node.id == ROOT
    equal = has_equal(dotted)
    if whole or not equal:
        yield ApexUse("name", facts.anchor(place), dotted, facts.anchor(node) if whole else None, equal, node.id)


def _texts(facts: f.FileFacts, imported: bool) -> Iterator[ApexUse]:
    """Modules named in strings, and messages that ask to install apex."""
    for scope in facts.scopes:
        # A string that is a statement is documentation.
        spoken = (e for s in statements(scope.body) for e in expressions(s) if not _is_string(s))
        for expression in spoken:
            for node, parents in in_order(expression):
                if not isinstance(node, f.Constant) or not isinstance(node.value, str):
                    continue
                called = parents and isinstance(parents[-1], f.Call) and last_name(parents[-1].func) in _BY_NAME
                if called and _MODULE.fullmatch(node.value):
                    anchor = facts.anchor(node)
                    yield ApexUse("text", anchor, node.value, anchor, has_equal(node.value))
                elif imported and INSTALL.search(node.value) and not any(p.kind == "JoinedStr" for p in parents):
                    anchor = facts.anchor(node)
                    yield ApexUse("message", anchor, "", anchor, True)


def _is_string(statement: f.Stmt) -> bool:
    return isinstance(statement, f.Evaluate) and isinstance(statement.value, f.Constant)
