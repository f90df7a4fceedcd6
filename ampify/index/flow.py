"""Which objects every expression of a project may evaluate to.

A whole-program points-to analysis: flow-insensitive, so that it needs no order of statements, save for local names that
are assigned again (ampify.index.definitions). There is a frame for each of the last two call sites, so that a factory
called twice makes two objects; only a function that is called from very many places shares one frame among the rest of
its calls. Sets only grow and objects are finite, so it ends; a budget of evaluations bounds the time it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ampify.catalog import is_module_class
from ampify.index.calls import Calls
from ampify.index.classes import Classes
from ampify.index.contexts import PRECISE, Contexts, Precision
from ampify.index.expressions import GENERATOR, Evaluator, Expressions
from ampify.index.link import ModuleTable
from ampify.index.store import Store
from ampify.index.syntax import statements, subscript_key
from ampify.index.tasks import Queue, Task
from ampify.index.values import (
    NOTHING,
    ClassValue,
    Container,
    Derived,
    External,
    Frame,
    FunctionValue,
    Instance,
    Interner,
    ModuleValue,
    Opaque,
    Parameters,
    Place,
    State,
    Value,
    Values,
)
from ampify.index.variables import Variables
from ampify.model import facts as f

# Expressions evaluated and values looked at: some seconds.
WORK_BUDGET = 2_000_000
# Methods that are called without being named.
IMPLICIT = frozenset(
    {"forward", "__init__", "__call__", "__enter__", "__exit__", "__iter__", "__next__", "__getitem__"}
)
# What stands for its elements where none are known of it.
_OWN_ELEMENTS = (Derived, Parameters, Opaque, State)


class Flow:
    """The solved analysis of a project; `evaluate` answers what an expression may be in a frame."""

    def __init__(
        self,
        files: Mapping[str, f.FileFacts],
        leading: frozenset[str] | None = None,
        modules: ModuleTable | None = None,
        shortfall: str = "",
        precision: Precision = PRECISE,
    ) -> None:
        self.files = files
        # The files whose functions are followed even if nothing in the project calls them.
        self.leading = frozenset(files) if leading is None else leading
        self.modules = modules or ModuleTable(files)
        self.make = Interner()
        # Sets of one value, by its type and fields; and the statements of each scope, by its path and number.
        self._ones: dict[tuple[object, ...], Values] = {}
        self._statements: dict[tuple[str, int], tuple[f.Stmt, ...]] = {}
        self.queue = Queue()
        self.store = Store(self.make, self.queue)
        self.frames: dict[Frame, None] = {}
        self.frames_of: dict[tuple[str, int], list[Frame]] = {}
        self.callers: dict[Frame, dict[tuple[Frame, f.Span], None]] = {}
        self.called: set[tuple[str, int]] = set()
        self.created: dict[Instance, tuple[Frame, f.Call]] = {}
        self.reader: Task | None = None
        # The attribute under evaluation: a property is called from there.
        self.access: tuple[Frame, f.Span] | None = None
        # The arguments that were last searched for what flows on, and what was found.
        self.carried: tuple[Sequence[Values], Mapping[str, Values], Values] | None = None
        self.opaque_missing = False
        # What read an attribute which nothing had set.
        self.missed: dict[Task, None] = {}
        # Nothing it finds is all that there is, either since time ran out or for the reason given.
        self.exhausted = bool(shortfall)
        self.shortfall = shortfall
        self.work = 0
        self.variables = Variables(self)
        self.classes = Classes(self)
        self.calls = Calls(self)
        self._evaluators: dict[type[f.Expr], Evaluator] = {
            **Expressions(self).evaluators(),
            f.Name: self.variables.read,
            f.Attribute: self.attribute_of,
            f.Call: self.calls.call,
        }
        self.contexts = Contexts(self, precision)

    # Solving

    def solve(self, share: float = 1.0) -> None:
        """Evaluates everything reachable from the modules, then what nothing in the project calls; `share` is the part
        of the budget that it may take."""
        most = share * WORK_BUDGET
        for path in sorted(self.files):
            self.enter(self.module_frame(path))
        if not self._drain(most):
            return
        self.opaque_missing = True
        self.classes.settle()
        for task in tuple(self.missed):
            self.queue.put(task)
        if not self._drain(most):
            return
        self.classes.settle()
        # First what nothing refers to: it may call the rest, and knows what it hands on.
        named = frozenset[str]().union(*(facts.read for facts in self.files.values()))
        for first in (True, False):
            for path in sorted(self.leading):
                for scope in self.files[path].scopes:
                    due = not first or not (scope.name in named or scope.name in IMPLICIT)
                    if due and scope.kind == "function" and (path, scope.index) not in self.called:
                        self.calls.enter_uncalled(path, scope)
                if not self._drain(most):
                    return
        self.reader = None

    def _drain(self, most: float) -> bool:
        """Does what is waiting; whether there is any use in going on: with a part alone nobody can do anything, save
        where it was known from the start that there is no more."""
        while self.work < most:
            task = self.queue.take()
            if task is None:
                return True
            self._do(task)
        self.exhausted = True
        return bool(self.shortfall)

    def _do(self, task: Task) -> None:
        self.work += 1
        self.reader = task
        self.statement(task.statement, task.frame)

    def enter(self, frame: Frame) -> None:
        """Has the statements of a frame evaluated if they never were."""
        for task in self._tasks(frame):
            self.queue.put(task)

    def _tasks(self, frame: Frame) -> list[Task]:
        """The tasks of a frame that is met for the first time; none of one that is known."""
        if frame in self.frames:
            return []
        self.frames[frame] = None
        key = (frame.path, frame.scope)
        self.frames_of.setdefault(key, []).append(frame)
        if key not in self._statements:
            self._statements[key] = tuple(statements(self.scope(frame).body))
        return [Task(frame, statement) for statement in self._statements[key]]

    def module_frame(self, path: str) -> Frame:
        """The frame of a module's body."""
        return self.make(Frame, path, 0, (), None)

    def scope(self, frame: Frame) -> f.Scope:
        """The scope that a frame runs."""
        return self.files[frame.path].scopes[frame.scope]

    def one(self, kind: type[Value], *parts: object) -> Values:
        """A set of one value."""
        key = (kind, *parts)
        values = self._ones.get(key)
        if values is None:
            values = self._ones[key] = frozenset((self.make(kind, *parts),))
        return values

    # Statements

    def statement(self, statement: f.Stmt, frame: Frame) -> None:
        """Evaluates a statement, without those of its blocks."""
        match statement:
            case f.Assign():
                values = self.evaluate(statement.value, frame)
                for target in statement.targets:
                    self.assign(target, values, frame)
            case f.Evaluate():
                self.evaluate(statement.value, frame)
            case f.Return():
                if statement.value is not None:
                    self.store.add(frame, "return", self.evaluate(statement.value, frame))
            case f.Branch() | f.While():
                self.evaluate(statement.test, frame)
            case f.For():
                self.assign(statement.target, self.elements(self.evaluate(statement.iterable, frame)), frame)
            case f.With():
                for context, name in statement.items:
                    values = self.evaluate(context, frame)
                    if name is not None:
                        self.assign(name, self.entered(values), frame)
            case f.Define():
                self.define(statement, frame)
            case f.Import():
                self.variables.imported(statement, frame)
            case f.Jump() | f.Simple():
                for operand in statement.operands:
                    self.evaluate(operand, frame)

    def define(self, statement: f.Define, frame: Frame) -> None:
        scope = self.files[frame.path].scopes[statement.scope]
        for decorator in statement.decorators:
            self.evaluate(decorator, frame)
        if scope.kind == "class":
            for base in scope.bases:
                self.evaluate(base, frame)
            cls = self.one(ClassValue, frame.path, scope.index, frame)
            self.variables.bind(frame, scope.name, cls)
            self.calls.decorate(statement.decorators, cls, frame)
            self.run_class(self.make(Frame, frame.path, scope.index, (), frame))
        else:
            self.variables.bind(frame, scope.name, self.one(FunctionValue, frame.path, scope.index, frame, None))

    def run_class(self, frame: Frame) -> None:
        """Evaluates the body of a class where it stands: what follows may call its methods."""
        reader = self.reader
        for task in self._tasks(frame):
            self._do(task)
        self.reader = reader

    def assign(self, target: f.Expr, values: Values, frame: Frame) -> None:
        match target:
            case f.Name():
                self.store.add(self.variables.home(frame, target.id), target.id, values, (frame, target.span))
            case f.Attribute():
                for owner in self.evaluate(target.value, frame):
                    self.store.add(self.owner(owner), target.attr, values, (frame, target.span))
            case f.Subscript():
                key = subscript_key(target.index)
                for owner in self.evaluate(target.value, frame):
                    self.store.add(owner, key, values, (frame, target.span))
            case f.Elements():
                for index, item in enumerate(target.items):
                    if isinstance(item, f.Starred):
                        self.assign(item.value, self.elements(values), frame)
                    else:
                        self.assign(item, self.element(values, f"[{index}]"), frame)
            case f.Starred():
                self.assign(target.value, values, frame)

    def owner(self, value: Value) -> Value:
        """Whose fields an attribute of `value` is stored with."""
        if isinstance(value, ModuleValue):
            return self.module_frame(value.path)
        if isinstance(value, ClassValue):
            return self.make(Frame, value.path, value.scope, (), value.outer)
        return value

    # Elements

    def element(self, values: Values, key: str) -> Values:
        """One element of whatever `values` are; what is no container stands for its own elements."""
        self.work += len(values)
        if len(values) == 1:
            (value,) = values
            return self._element(value, key)
        found: set[Value] = set()
        for value in values:
            found |= self._element(value, key)
        return frozenset(found)

    def _element(self, value: Value, key: str) -> Values:
        store, reader = self.store, self.reader
        if isinstance(value, Container):
            if key == "[*]":
                return store.elements(value, reader)
            return store.read(value, key, reader) | store.read(value, "[*]", reader)
        if isinstance(value, Instance) and value.cls is None and not is_module_class(value.dotted):
            part = store.read(value, key, reader) | store.read(value, "[*]", reader)
            return part or self.one(Opaque, value, key)
        if isinstance(value, _OWN_ELEMENTS):
            return store.read(value, key, reader) or frozenset((value,))
        if isinstance(value, External):
            return self.classes.attribute(value, "*", called=False)
        if key == "[*]" and isinstance(value, Instance) and value.cls and self.classes.is_module(value.cls):
            # Its parts, if it has any to go through; what it was made of, which is kept as well, is none of them.
            return frozenset((value,))
        if isinstance(value, Instance) and value.cls and self.classes.is_one(value.cls):
            return NOTHING
        found = store.read(value, key, reader) | store.read(value, "[*]", reader)
        return found | {value} if isinstance(value, Instance) and value.cls is None else found

    def elements(self, values: Values) -> Values:
        """All elements of whatever `values` are."""
        return self.element(values, "[*]")

    def container(self, place: Place, frame: Frame, part: str, fields: Mapping[str, Values]) -> Values:
        """A new container with these fields."""
        value = self.make(Container, place, frame.sites, part)
        for name, values in fields.items():
            self.store.add(value, name, values)
        return frozenset((value,))

    # Expressions

    def evaluate(self, expr: f.Expr, frame: Frame) -> Values:
        """What an expression may evaluate to in a frame."""
        self.work += 1
        return self._evaluators[type(expr)](expr, frame)

    def entered(self, values: Values) -> Values:
        """What `with` binds: of a generator, which is a context manager's function then, what it yields."""
        generators = frozenset(v for v in values if isinstance(v, Container) and v.part == GENERATOR)
        return (values - generators) | self.elements(generators) if generators else values

    def attribute_of(self, expr: f.Attribute, frame: Frame, called: bool = False) -> Values:
        """What an attribute access may give in a frame."""
        owners = self.evaluate(expr.value, frame)
        self.access = (frame, expr.span)
        found = self.attribute(owners, expr.attr, called)
        self.access = None
        return found

    def attribute(self, owners: Values, name: str, called: bool) -> Values:
        """What an attribute of any of `owners` may be; `called` asks for methods that the project does not define."""
        self.work += len(owners)
        if len(owners) == 1:
            (owner,) = owners
            values = self.classes.attribute(owner, name, called)
            # A set is gone through in an order that hangs on how it was made, and that order tells chains of evidence
            # apart: several values are gathered anew here, as those of several owners are.
            return values if len(values) < 2 else frozenset(set(values))
        found: set[Value] = set()
        for owner in owners:
            found |= self.classes.attribute(owner, name, called)
        return frozenset(found)
