"""Turns the text of one file into facts; the only place that reads `ast`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ampify.model import facts as f

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def split_lines(text: str) -> tuple[str, ...]:
    """Lines with their ends, as `ast` counts them: form feeds and other separators do not end a line."""
    return tuple(LINE.findall(text))


def extract(path: str, text: str) -> f.FileFacts:
    """Facts of a file's text.

    Raises SyntaxError, ValueError, RecursionError or MemoryError as `ast.parse` does.
    """
    tree = ast.parse(text)
    return _Extraction(path, text).facts(tree)


class _Extraction:
    """One pass over a tree. Scopes are numbered in the order of the text, the module first."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = split_lines(text)
        self.ascii = text.isascii()
        self.scopes: list[f.Scope | None] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.quotes: Counter[str] = Counter()
        self.renames: list[dict[str, str]] = []

    def facts(self, tree: ast.Module) -> f.FileFacts:
        self.scopes.append(None)
        body = self.block(tree.body, 0, "")
        end = (len(self.lines), len(self.lines[-1]) if self.lines else 0)
        bound, _ = _bindings(tree.body)
        self.scopes[0] = f.Scope(0, "module", "<module>", "", None, (1, 0, *end), body=body, bound=bound)
        scopes = tuple(scope for scope in self.scopes if scope is not None)
        return f.FileFacts(self.path, scopes, frozenset(self.names), frozenset(self.attributes), self.lines, self.quote())

    def quote(self) -> str:
        """The quote character that most one-line strings of the file use."""
        return "'" if self.quotes["'"] > self.quotes['"'] else '"'

    def count_quote(self, node: ast.expr, span: f.Span) -> None:
        opening = self.lines[span[0] - 1][span[1] :].lstrip("rRbBuUfF")[:3]
        if opening not in ("'''", '"""'):
            self.quotes[opening[:1]] += 1

    # Positions

    def column(self, line: int, offset: int) -> int:
        """`ast` counts columns in bytes of UTF-8; anchors count characters."""
        if self.ascii or offset == 0:
            return offset
        return len(self.lines[line - 1].encode()[:offset].decode())

    def span(self, node: ast.expr | ast.stmt) -> f.Span:
        end_line = node.end_lineno or node.lineno
        end = node.end_col_offset or 0
        return (node.lineno, self.column(node.lineno, node.col_offset), end_line, self.column(end_line, end))

    # Scopes

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, parent: int, prefix: str) -> int:
        index = len(self.scopes)
        self.scopes.append(None)
        name = getattr(node, "name", "<lambda>")
        self.names.add(name)
        qualname = f"{prefix}{name}"
        parameters = tuple(self.parameters(node.args, parent, prefix))
        statements = (
            [ast.copy_location(ast.Return(node.body), node.body)] if isinstance(node, ast.Lambda) else node.body
        )
        body = self.block(statements, index, f"{qualname}.")
        bound, outer = _bindings(statements)
        decorators = tuple(self.expression(d, parent, prefix) for d in getattr(node, "decorator_list", ()))
        bound = (bound | {p.name for p in parameters}) - outer
        self.scopes[index] = f.Scope(
            index, "function", name, qualname, parent, self.span(node), parameters, (), decorators, body, bound, outer
        )
        return index

    def parameters(self, args: ast.arguments, parent: int, prefix: str) -> Iterator[f.Parameter]:
        positional = [*args.posonlyargs, *args.args]
        missing: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
        groups: list[tuple[str, Iterable[tuple[ast.arg, ast.expr | None]]]] = [
            ("positional", zip(positional, [*missing, *args.defaults], strict=True)),
            ("star", [(args.vararg, None)] if args.vararg else []),
            ("keyword", zip(args.kwonlyargs, args.kw_defaults, strict=True)),
            ("doublestar", [(args.kwarg, None)] if args.kwarg else []),
        ]
        for kind, pairs in groups:
            for arg, default in pairs:
                self.names.add(arg.arg)
                yield f.Parameter(arg.arg, kind, self.expression(default, parent, prefix) if default else None)

    def class_(self, node: ast.ClassDef, parent: int, prefix: str) -> int:
        index = len(self.scopes)
        self.scopes.append(None)
        self.names.add(node.name)
        qualname = f"{prefix}{node.name}"
        bases = tuple(self.expression(base, parent, prefix) for base in node.bases)
        decorators = tuple(self.expression(d, parent, prefix) for d in node.decorator_list)
        body = self.block(node.body, index, f"{qualname}.")
        bound, outer = _bindings(node.body)
        self.scopes[index] = f.Scope(
            index, "class", node.name, qualname, parent, self.span(node), (), bases, decorators, body, bound, outer
        )
        return index

    # Statements

    def block(self, statements: Iterable[ast.stmt], scope: int, prefix: str) -> tuple[f.Stmt, ...]:
        return tuple(self.statement(statement, scope, prefix) for statement in statements)

    def statement(self, node: ast.stmt, scope: int, prefix: str) -> f.Stmt:
        span = self.span(node)

        def expression(child: ast.expr) -> f.Expr:
            return self.expression(child, scope, prefix)

        def block(children: Iterable[ast.stmt]) -> tuple[f.Stmt, ...]:
            return self.block(children, scope, prefix)

        match node:
            case ast.Expr():
                return f.Evaluate(span, expression(node.value))
            case ast.Assign():
                return f.Assign(span, "Assign", tuple(map(expression, node.targets)), expression(node.value))
            case ast.AnnAssign() if node.value is not None:
                return f.Assign(span, "AnnAssign", (expression(node.target),), expression(node.value))
            case ast.AugAssign():
                return f.Assign(span, "AugAssign", (expression(node.target),), expression(node.value))
            case ast.Return():
                return f.Return(span, expression(node.value) if node.value else None)
            case ast.If():
                both = (block(node.body), block(node.orelse))
                return f.Branch(span, "If", expression(node.test), both, bool(node.orelse))
            case ast.For() | ast.AsyncFor():
                return f.For(
                    span,
                    expression(node.target),
                    expression(node.iter),
                    block(node.body),
                    block(node.orelse),
                    _kind(node),
                )
            case ast.While():
                return f.While(span, expression(node.test), block(node.body), block(node.orelse))
            case ast.With() | ast.AsyncWith():
                items = tuple(
                    (expression(i.context_expr), expression(i.optional_vars) if i.optional_vars else None)
                    for i in node.items
                )
                return f.With(span, items, block(node.body), _kind(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                decorators = tuple(map(expression, node.decorator_list))
                return f.Define(span, _kind(node), self.function(node, scope, prefix), decorators)
            case ast.ClassDef():
                decorators = tuple(map(expression, node.decorator_list))
                return f.Define(span, "ClassDef", self.class_(node, scope, prefix), decorators)
            case ast.Import() | ast.ImportFrom():
                return self.imported(node, span)
            case ast.Break() | ast.Continue():
                return f.Jump(span, _kind(node))
            case ast.Raise():
                return f.Jump(span, "Raise", tuple(map(expression, filter(None, (node.exc, node.cause)))))
            case ast.Match():
                arms = tuple(block(case.body) for case in node.cases)
                return f.Branch(span, "Match", expression(node.subject), arms, False)
            case ast.Global() | ast.Nonlocal():
                self.names.update(node.names)
                return f.Simple(span, _kind(node), (), tuple(node.names))
        if hasattr(node, "handlers"):
            return self.attempt(node, span, block)
        operands = tuple(expression(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
        return f.Simple(span, _kind(node), operands)

    @staticmethod
    def attempt(node: ast.stmt, span: f.Span, block: Callable[[Iterable[ast.stmt]], tuple[f.Stmt, ...]]) -> f.Try:
        """`try` and, from Python 3.11 on, `try ... except*`."""
        body, handlers, orelse, final = (getattr(node, n) for n in ("body", "handlers", "orelse", "finalbody"))
        return f.Try(
            span, block(body), tuple(block(h.body) for h in handlers), block(orelse), block(final), _kind(node)
        )

    def imported(self, node: ast.Import | ast.ImportFrom, span: f.Span) -> f.Import:
        names = []
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                name = f.ImportedName(alias.asname or alias.name, node.module or "", alias.name, node.level)
            elif alias.asname:
                name = f.ImportedName(alias.asname, alias.name, None, 0)
            else:
                name = f.ImportedName(alias.name.partition(".")[0], alias.name, None, 0)
            names.append(name)
            self.names.add(name.bound)
        return f.Import(span, _kind(node), tuple(names))

    # Expressions

    def expression(self, node: ast.expr, scope: int, prefix: str) -> f.Expr:
        span = self.span(node)

        def read(child: ast.expr) -> f.Expr:
            return self.expression(child, scope, prefix)

        match node:
            case ast.Name():
                self.names.add(node.id)
                return f.Name(span, self.renamed(node.id))
            case ast.Attribute():
                self.attributes.add(node.attr)
                return f.Attribute(span, read(node.value), node.attr)
            case ast.Call():
                keywords = tuple((k.arg, read(k.value)) for k in node.keywords)
                return f.Call(span, read(node.func), tuple(map(read, node.args)), keywords)
            case ast.Constant():
                value = node.value
                if isinstance(value, str | bytes):
                    self.count_quote(node, span)
                if value is None or isinstance(value, str | int | float):
                    return f.Constant(span, value)
                return f.Constant(span, repr(value))
            case ast.Tuple() | ast.List() | ast.Set():
                return f.Elements(span, _kind(node), tuple(map(read, node.elts)))
            case ast.Dict():
                keys = tuple(read(k) if k else None for k in node.keys)
                return f.Mapping(span, keys, tuple(map(read, node.values)))
            case ast.Subscript():
                return f.Subscript(span, read(node.value), read(node.slice))
            case ast.Starred():
                return f.Starred(span, read(node.value))
            case ast.Lambda():
                return f.Lambda(span, self.function(node, scope, prefix))
            case ast.NamedExpr():
                self.names.add(node.target.id)
                return f.Walrus(span, f.Name(self.span(node.target), self.renamed(node.target.id)), read(node.value))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node, span, scope, prefix)
        if isinstance(node, ast.JoinedStr):
            self.count_quote(node, span)
        return f.Operation(span, _kind(node), tuple(map(read, _operands(node))))

    def renamed(self, name: str) -> str:
        for mapping in reversed(self.renames):
            if name in mapping:
                return mapping[name]
        return name

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, span: f.Span, scope: int, prefix: str
    ) -> f.Comprehension:
        own = {
            n.id: f"{n.id}@{span[0]}:{span[1]}"
            for g in node.generators
            for n in ast.walk(g.target)
            if isinstance(n, ast.Name)
        }
        self.renames.append(own)
        try:
            generators = tuple(
                (
                    self.expression(g.target, scope, prefix),
                    self.expression(g.iter, scope, prefix),
                    tuple(self.expression(c, scope, prefix) for c in g.ifs),
                )
                for g in node.generators
            )
            element = node.value if isinstance(node, ast.DictComp) else node.elt
            return f.Comprehension(span, _kind(node), self.expression(element, scope, prefix), generators)
        finally:
            self.renames.pop()


def _kind(node: ast.AST) -> str:
    return type(node).__name__


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """Child expressions, through the parts of `ast` that are neither expressions nor statements."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child


def _bindings(statements: Iterable[ast.stmt]) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a scope's statements bind, and those declared global or nonlocal; nested scopes are not entered."""
    bound: set[str] = set()
    outer: set[str] = set()
    stack: list[ast.AST] = list(statements)
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
                continue
            case ast.Name():
                if isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
                continue
            case ast.Attribute():
                stack.append(node.value)
                continue
            case ast.Constant() | ast.Lambda():
                continue
            case ast.Import() | ast.ImportFrom():
                bound.update(a.asname or a.name.partition(".")[0] for a in node.names)
                continue
            case ast.Global() | ast.Nonlocal():
                outer.update(node.names)
            case ast.ExceptHandler() if node.name:
                bound.add(node.name)
            case ast.MatchAs() | ast.MatchStar() if node.name:
                bound.add(node.name)
            case ast.MatchMapping() if node.rest:
                bound.add(node.rest)
        if isinstance(node, COMPREHENSIONS):
            stack.extend(n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            continue
        stack.extend(ast.iter_child_nodes(node))
    return frozenset(bound - outer), frozenset(outer)
