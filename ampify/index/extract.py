"""Turns the text of one file into facts; the only place that reads `ast`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ampify.model import facts as f
from ampify.source.lines import split_lines


def extract(path: str, text: str) -> f.FileFacts:
    """Facts of a file's text.

    Raises SyntaxError, ValueError, RecursionError or MemoryError as `ast.parse` does.
    """
    tree = ast.parse(text)
    return _Extraction(path, text).facts(tree)


@dataclass(slots=True)
class _Bindings:
    """Names that a scope binds, those it declares global or nonlocal, and the former of these."""

    bound: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)
    globally: set[str] = field(default_factory=set)

    def frozen(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """As the last fields of a scope have them."""
        return frozenset(self.bound - self.outer), frozenset(self.outer), frozenset(self.globally)


class _Extraction:
    """One pass over a tree. Scopes are numbered in the order of the text, the module first."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = tuple(split_lines(text))
        # `ast` counts columns in bytes of UTF-8; anchors count characters.
        self.span: Callable[[ast.expr | ast.stmt], f.Span] = _span if text.isascii() else self.counted_span
        self.scopes: list[f.Scope | None] = []
        self.names: set[str] = set()
        self.methods: set[str] = set()
        self.read: set[str] = set()
        self.imports: list[f.Import] = []
        self.quotes: Counter[str] = Counter()
        self.renames: list[dict[str, str]] = []
        # Of each scope being read, innermost last.
        self.bound: list[_Bindings] = []
        # The scope being read, and what the qualified names of those inside begin with.
        self.scope = 0
        self.prefix = ""

    def facts(self, tree: ast.Module) -> f.FileFacts:
        self.scopes.append(None)
        body, bindings = self.body(tree.body, 0, "")
        end = (len(self.lines), len(self.lines[-1]) if self.lines else 0)
        bound, outer, globally = bindings.frozen()
        span = (1, 0, *end)
        self.scopes[0] = f.Scope(
            0, "module", "<module>", "", None, span, body=body, bound=bound, outer=outer, globally=globally
        )
        scopes = tuple(scope for scope in self.scopes if scope is not None)
        names, methods, read = frozenset(self.names), frozenset(self.methods), frozenset(self.read)
        return f.FileFacts(self.path, scopes, tuple(self.imports), names, methods, read, self.lines, self.quote())

    def quote(self) -> str:
        """The quote character that most one-line strings of the file use."""
        return "'" if self.quotes["'"] > self.quotes['"'] else '"'

    def count_quote(self, span: f.Span) -> None:
        line, column, _, _ = span
        # Two letters and three quotes, not the rest of what may be a very long line.
        opening = self.lines[line - 1][column : column + 5].lstrip("rRbBuUfF")[:3]
        if opening not in ("'''", '"""'):
            self.quotes[opening[:1]] += 1

    # Positions

    def column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())

    def counted_span(self, node: ast.expr | ast.stmt) -> f.Span:
        line, column, end_line, end = _span(node)
        return (line, self.column(line, column), end_line, self.column(end_line, end))

    # Scopes

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
        index, parent = len(self.scopes), self.scope
        self.scopes.append(None)
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        self.names.add(name)
        qualname = f"{self.prefix}{name}"
        parameters = tuple(self.parameters(node.args))
        statements = (
            [ast.copy_location(ast.Return(node.body), node.body)] if isinstance(node, ast.Lambda) else node.body
        )
        # A comprehension around a lambda does not rename its parameters.
        self.renames.append({p.name: p.name for p in parameters})
        body, names = self.body(statements, index, f"{qualname}.")
        self.renames.pop()
        decorators = () if isinstance(node, ast.Lambda) else self.expressions(node.decorator_list)
        names.bound.update(p.name for p in parameters)
        span = self.span(node)
        self.scopes[index] = f.Scope(
            index, "function", name, qualname, parent, span, parameters, (), decorators, body, *names.frozen()
        )
        return index

    def parameters(self, args: ast.arguments) -> Iterator[f.Parameter]:
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
                yield f.Parameter(arg.arg, kind, self.expression(default) if default else None)

    def class_(self, node: ast.ClassDef) -> int:
        index, parent = len(self.scopes), self.scope
        self.scopes.append(None)
        self.names.add(node.name)
        qualname = f"{self.prefix}{node.name}"
        bases = self.expressions(node.bases)
        decorators = self.expressions(node.decorator_list)
        body, names = self.body(node.body, index, f"{qualname}.")
        span = self.span(node)
        self.scopes[index] = f.Scope(
            index, "class", node.name, qualname, parent, span, (), bases, decorators, body, *names.frozen()
        )
        return index

    def body(self, statements: Iterable[ast.stmt], scope: int, prefix: str) -> tuple[tuple[f.Stmt, ...], _Bindings]:
        """A scope's statements, and the names they bind or declare."""
        around = self.scope, self.prefix
        self.scope, self.prefix = scope, prefix
        self.bound.append(_Bindings())
        block = self.block(statements)
        self.scope, self.prefix = around
        return block, self.bound.pop()

    # Statements

    def block(self, statements: Iterable[ast.stmt]) -> tuple[f.Stmt, ...]:
        return tuple([self.statement(statement) for statement in statements])

    def statement(self, node: ast.stmt) -> f.Stmt:
        span = self.span(node)
        expression, block = self.expression, self.block
        match node:
            case ast.Expr():
                return f.Evaluate(span, expression(node.value))
            case ast.Assign():
                return f.Assign(span, "Assign", self.expressions(node.targets), expression(node.value))
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
                around = (expression(node.target), expression(node.iter))
                return f.For(span, *around, block(node.body), block(node.orelse), _kind(node))
            case ast.While():
                return f.While(span, expression(node.test), block(node.body), block(node.orelse))
            case ast.With() | ast.AsyncWith():
                items = tuple(
                    (expression(i.context_expr), expression(i.optional_vars) if i.optional_vars else None)
                    for i in node.items
                )
                return f.With(span, items, block(node.body), _kind(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.bound[-1].bound.add(node.name)
                decorators = self.expressions(node.decorator_list)
                return f.Define(span, _kind(node), self.function(node), decorators)
            case ast.ClassDef():
                self.bound[-1].bound.add(node.name)
                decorators = self.expressions(node.decorator_list)
                return f.Define(span, "ClassDef", self.class_(node), decorators)
            case ast.Import() | ast.ImportFrom():
                return self.imported(node, span)
            case ast.Break() | ast.Continue():
                return f.Jump(span, _kind(node))
            case ast.Raise():
                return f.Jump(span, "Raise", self.expressions(filter(None, (node.exc, node.cause))))
            case ast.Match():
                self.bound[-1].bound.update(_captures(node))
                arms = tuple(block(case.body) for case in node.cases)
                tests = [node.subject, *(case.guard for case in node.cases if case.guard is not None)]
                test = f.Operation(span, "Match", self.expressions(tests))
                return f.Branch(span, "Match", test, arms, False)
            case ast.Global() | ast.Nonlocal():
                self.names.update(node.names)
                self.bound[-1].outer.update(node.names)
                self.bound[-1].globally.update(node.names if isinstance(node, ast.Global) else ())
                return f.Simple(span, _kind(node), (), tuple(node.names))
        if hasattr(node, "handlers"):
            return self.attempt(node, span)
        operands = self.expressions(c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
        return f.Simple(span, _kind(node), operands)

    def attempt(self, node: ast.stmt, span: f.Span) -> f.Try:
        """`try` and, from Python 3.11 on, `try ... except*`."""
        body, handlers, orelse, final = (getattr(node, n) for n in ("body", "handlers", "orelse", "finalbody"))
        self.bound[-1].bound.update(handler.name for handler in handlers if handler.name)
        block = self.block
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
            self.read.add(alias.name)
            self.bound[-1].bound.add(name.bound)
        statement = f.Import(span, _kind(node), tuple(names))
        self.imports.append(statement)
        return statement

    # Expressions

    def expressions(self, found: Iterable[ast.expr]) -> tuple[f.Expr, ...]:
        return tuple(map(self.expression, found))

    def expression(self, node: ast.expr) -> f.Expr:
        make = READERS.get(type(node))
        return make(self, node, self.span(node)) if make is not None else self.operation(node, self.span(node))

    def operation(self, node: ast.expr, span: f.Span) -> f.Expr:
        if isinstance(node, ast.JoinedStr):
            self.count_quote(span)
        return f.Operation(span, _kind(node), self.expressions(_operands(node)), _operator(node))

    def attribute(self, node: ast.Attribute, span: f.Span) -> f.Attribute:
        name = node.attr
        self.read.add(name)
        if name == "grad":
            self.methods.add(name)
        return f.Attribute(span, self.expression(node.value), name)

    def call(self, node: ast.Call, span: f.Span) -> f.Call:
        if isinstance(node.func, ast.Attribute):
            self.methods.add(node.func.attr)
        keywords = tuple([(k.arg, self.expression(k.value)) for k in node.keywords]) if node.keywords else ()
        return f.Call(span, self.expression(node.func), self.expressions(node.args), keywords)

    def elements(self, node: ast.Tuple | ast.List | ast.Set, span: f.Span) -> f.Elements:
        return f.Elements(span, _kind(node), self.expressions(node.elts))

    def mapping(self, node: ast.Dict, span: f.Span) -> f.Mapping:
        keys = tuple([self.expression(k) if k else None for k in node.keys])
        return f.Mapping(span, keys, self.expressions(node.values))

    def subscript(self, node: ast.Subscript, span: f.Span) -> f.Subscript:
        return f.Subscript(span, self.expression(node.value), self.expression(node.slice))

    def walrus(self, node: ast.NamedExpr, span: f.Span) -> f.Walrus:
        self.names.add(node.target.id)
        self.bound[-1].bound.add(node.target.id)
        target = f.Name(self.span(node.target), self.renamed(node.target.id))
        return f.Walrus(span, target, self.expression(node.value))

    def name(self, node: ast.Name, span: f.Span) -> f.Name:
        self.names.add(node.id)
        name = self.renamed(node.id) if self.renames else node.id
        if not isinstance(node.ctx, ast.Store):
            self.read.add(name)
        elif name == node.id:
            self.bound[-1].bound.add(name)
        return f.Name(span, name)

    def constant(self, node: ast.Constant, span: f.Span) -> f.Constant:
        value = node.value
        if isinstance(value, (str, bytes)):
            self.count_quote(span)
        if value is None or isinstance(value, (str, int, float)):
            return f.Constant(span, value)
        return f.Constant(span, repr(value))

    def renamed(self, name: str) -> str:
        for mapping in reversed(self.renames):
            if name in mapping:
                return mapping[name]
        return name

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, span: f.Span
    ) -> f.Comprehension:
        own = {
            n.id: f"{n.id}@{span[0]}:{span[1]}"
            for g in node.generators
            for n in ast.walk(g.target)
            if isinstance(n, ast.Name)
        }
        self.bound[-1].bound.update(own.values())
        # The first iterable is evaluated outside, where its names may be others.
        source = self.expression(node.generators[0].iter)
        self.renames.append(own)
        generators = tuple(
            (self.expression(g.target), self.expression(g.iter) if number else source, self.expressions(g.ifs))
            for number, g in enumerate(node.generators)
        )
        element = self.expression(node.value if isinstance(node, ast.DictComp) else node.elt)
        self.renames.pop()
        return f.Comprehension(span, _kind(node), element, generators)

    def lambda_(self, node: ast.Lambda, span: f.Span) -> f.Lambda:
        return f.Lambda(span, self.function(node))

    def starred(self, node: ast.Starred, span: f.Span) -> f.Starred:
        return f.Starred(span, self.expression(node.value))


# A table, for every expression asks: what stands in it not at all is an operation.
READERS: Final[dict[type[ast.expr], Callable[[_Extraction, Any, f.Span], f.Expr]]] = {
    ast.Name: _Extraction.name,
    ast.Constant: _Extraction.constant,
    ast.Attribute: _Extraction.attribute,
    ast.Call: _Extraction.call,
    ast.Dict: _Extraction.mapping,
    ast.Subscript: _Extraction.subscript,
    ast.Starred: _Extraction.starred,
    ast.Lambda: _Extraction.lambda_,
    ast.NamedExpr: _Extraction.walrus,
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), _Extraction.elements),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _Extraction.comprehension),
}


def _span(node: ast.expr | ast.stmt) -> f.Span:
    return (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


def _kind(node: ast.AST) -> str:
    return type(node).__name__


def _operator(node: ast.expr) -> str:
    match node:
        case ast.BoolOp() | ast.UnaryOp() | ast.BinOp():
            return _kind(node.op)
        case ast.Compare(ops=[only]):
            return _kind(only)
    return ""


def _operands(node: ast.expr) -> Iterable[ast.expr]:
    """Child expressions, through the parts of `ast` that are neither expressions nor statements."""
    match node:
        case ast.BinOp():
            return (node.left, node.right)
        case ast.Compare():
            return (node.left, *node.comparators)
        case ast.BoolOp():
            return node.values
        case ast.UnaryOp():
            return (node.operand,)
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _captures(match: ast.Match) -> Iterator[str]:
    """Names that the patterns of a `match` bind."""
    for node in (n for case in match.cases for n in ast.walk(case.pattern)):
        name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
        if isinstance(name, str):
            yield name
