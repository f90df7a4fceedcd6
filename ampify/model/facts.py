"""What the index keeps of one file: a compact, picklable form of its code without syntax nodes.

Expressions and statements mirror `ast`, reduced to what the flow analysis reads. `span` is (line, column, end line, end
column) as in `Anchor`; `kind` is the `ast` class name where one type here stands for several there.
"""

from __future__ import annotations

from typing import TypeAlias

from ampify.model.anchor import Anchor
from ampify.model.node import node
from ampify.model.section import Section, SectionKind

Span: TypeAlias = tuple[int, int, int, int]


@node(frozen=True, slots=True)
class Name:
    """A name; one bound by a comprehension is spelled `name@line:column`, since it has a scope of its own."""

    span: Span
    id: str
    kind: str = "Name"


@node(frozen=True, slots=True)
class Attribute:
    """`value.attr`."""

    span: Span
    value: Expr
    attr: str
    kind: str = "Attribute"


@node(frozen=True, slots=True)
class Call:
    """A call; a keyword without a name is `**value`."""

    span: Span
    func: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str | None, Expr], ...]
    kind: str = "Call"


@node(frozen=True, slots=True)
class Constant:
    """A literal; `value` is kept for strings, numbers, booleans and None."""

    span: Span
    value: str | int | float | bool | None
    kind: str = "Constant"


@node(frozen=True, slots=True)
class Elements:
    """A tuple, list or set display."""

    span: Span
    kind: str
    items: tuple[Expr, ...]


@node(frozen=True, slots=True)
class Mapping:
    """A dict display; a key of None is `**value`."""

    span: Span
    keys: tuple[Expr | None, ...]
    values: tuple[Expr, ...]
    kind: str = "Dict"


@node(frozen=True, slots=True)
class Subscript:
    """`value[index]`."""

    span: Span
    value: Expr
    index: Expr
    kind: str = "Subscript"


@node(frozen=True, slots=True)
class Starred:
    """`*value`."""

    span: Span
    value: Expr
    kind: str = "Starred"


@node(frozen=True, slots=True)
class Comprehension:
    """A comprehension or generator; `generators` are (target, iterable, conditions); a dict's element is its value."""

    span: Span
    kind: str
    element: Expr
    generators: tuple[tuple[Expr, Expr, tuple[Expr, ...]], ...]


@node(frozen=True, slots=True)
class Lambda:
    """A lambda; `scope` is the index of its scope in `FileFacts.scopes`."""

    span: Span
    scope: int
    kind: str = "Lambda"


@node(frozen=True, slots=True)
class Walrus:
    """`(target := value)`."""

    span: Span
    target: Name
    value: Expr
    kind: str = "NamedExpr"


@node(frozen=True, slots=True)
class Operation:
    """Any other expression, as its operands in order of evaluation; `operator` is the `ast` class name of what a
    `BoolOp`, a `UnaryOp`, a `BinOp` or a `Compare` of two does with them."""

    span: Span
    kind: str
    operands: tuple[Expr, ...]
    operator: str = ""


Expr: TypeAlias = (
    Name
    | Attribute
    | Call
    | Constant
    | Elements
    | Mapping
    | Subscript
    | Starred
    | Comprehension
    | Lambda
    | Walrus
    | Operation
)


@node(frozen=True, slots=True)
class Assign:
    """An assignment; `kind` tells Assign, AnnAssign and AugAssign apart."""

    span: Span
    kind: str
    targets: tuple[Expr, ...]
    value: Expr


@node(frozen=True, slots=True)
class Evaluate:
    """An expression statement."""

    span: Span
    value: Expr
    kind: str = "Expr"


@node(frozen=True, slots=True)
class Return:
    """A return statement."""

    span: Span
    value: Expr | None
    kind: str = "Return"


@node(frozen=True, slots=True)
class Branch:
    """An `if` (two arms) or a `match` (an arm a case); without an `else`, `exhaustive` is False and no arm may run."""

    span: Span
    kind: str
    test: Expr
    arms: tuple[tuple[Stmt, ...], ...]
    exhaustive: bool


@node(frozen=True, slots=True)
class For:
    """A `for` loop."""

    span: Span
    target: Expr
    iterable: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    kind: str = "For"


@node(frozen=True, slots=True)
class While:
    """A `while` loop."""

    span: Span
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    kind: str = "While"


@node(frozen=True, slots=True)
class With:
    """A `with` statement; `items` are (context expression, target)."""

    span: Span
    items: tuple[tuple[Expr, Expr | None], ...]
    body: tuple[Stmt, ...]
    kind: str = "With"


@node(frozen=True, slots=True)
class Try:
    """A `try` statement."""

    span: Span
    body: tuple[Stmt, ...]
    handlers: tuple[tuple[Stmt, ...], ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]
    kind: str = "Try"


@node(frozen=True, slots=True)
class Define:
    """A function or class definition; `scope` is its index in `FileFacts.scopes`."""

    span: Span
    kind: str
    scope: int
    decorators: tuple[Expr, ...]


@node(frozen=True, slots=True)
class ImportedName:
    """One name an import binds: `module` as written, `level` leading dots, `attribute` None for `import module`."""

    bound: str
    module: str
    attribute: str | None
    level: int


@node(frozen=True, slots=True)
class Import:
    """An import statement; a star import has one name bound as `*`."""

    span: Span
    kind: str
    names: tuple[ImportedName, ...]


@node(frozen=True, slots=True)
class Jump:
    """`break`, `continue` or `raise`."""

    span: Span
    kind: str
    operands: tuple[Expr, ...] = ()


@node(frozen=True, slots=True)
class Simple:
    """Any other statement, as the expressions it evaluates."""

    span: Span
    kind: str
    operands: tuple[Expr, ...]
    names: tuple[str, ...] = ()


Stmt: TypeAlias = Assign | Evaluate | Return | Branch | For | While | With | Try | Define | Import | Jump | Simple


@node(frozen=True, slots=True)
class Parameter:
    """A parameter; `kind` is positional, keyword, star or doublestar."""

    name: str
    kind: str
    default: Expr | None = None


@node(frozen=True, slots=True)
class Scope:
    """A module, class, function or lambda. `parent` is the index of the enclosing scope; `outer` lists names declared
    `global` or `nonlocal`, `globally` the former; `decorators` and `bases` are expressions of the enclosing scope."""

    index: int
    kind: str
    name: str
    qualname: str
    parent: int | None
    span: Span
    parameters: tuple[Parameter, ...] = ()
    bases: tuple[Expr, ...] = ()
    decorators: tuple[Expr, ...] = ()
    body: tuple[Stmt, ...] = ()
    bound: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    globally: frozenset[str] = frozenset()


@node(frozen=True, slots=True)
class FileFacts:
    """One file: its scopes (the first is the module), all its import statements, the names it uses and the methods it
    calls anywhere (and `grad`, if it reads one), the variables and attributes it reads, its lines with their ends, and
    the quote character that most of its strings use."""

    path: str
    scopes: tuple[Scope, ...]
    imports: tuple[Import, ...]
    names: frozenset[str]
    methods: frozenset[str]
    read: frozenset[str]
    lines: tuple[str, ...]
    quote: str

    def anchor(self, node: Expr | Stmt) -> Anchor:
        """The anchor of a node of this file."""
        return Anchor(self.path, *node.span, node.kind)

    def sections(self) -> tuple[Section, ...]:
        """The parts of the module that can be read on their own, in the order of the text."""
        sections: list[Section] = []
        for statement in self.scopes[0].body:
            section = _section(statement)
            if sections and section.first <= sections[-1].last:
                section = _merged(sections.pop(), section)
            sections.append(section)
        return tuple(sections)

    def text(self, span: Span) -> str:
        """The source text of a range."""
        line, column, end_line, end_column = span
        if line == end_line:
            return self.lines[line - 1][column:end_column]
        parts = [self.lines[line - 1][column:], *self.lines[line : end_line - 1], self.lines[end_line - 1][:end_column]]
        return "".join(parts)


def _section(statement: Stmt) -> Section:
    first, _, last, _ = statement.span
    kind: SectionKind = "simple"
    if isinstance(statement, Import):
        kind = "import"
    elif isinstance(statement, Define | For | While | With):
        kind = "block"
    if isinstance(statement, Define) and statement.decorators:
        first = statement.decorators[0].span[0]
    return Section(first, last, kind)


def _merged(one: Section, other: Section) -> Section:
    # What shares a line with an import is looked at with it.
    kind: SectionKind = "import" if "import" in (one.kind, other.kind) else one.kind
    return Section(one.first, max(one.last, other.last), kind)
