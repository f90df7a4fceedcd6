"""What an expression can evaluate to: abstract objects, told apart by where they were created, and run from where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ampify import catalog
from ampify.model.facts import Span

# What a container is if `part` is one of these: a list or tuple, or the tuple of a starred parameter.
LISTS = ("", "*")

Place: TypeAlias = tuple[str, Span]


@dataclass(eq=False, slots=True)
class Value(float):
    """Values are interned: one object a value. The number gives them an order that does not change between runs.

    A value is its number as well, for the sake of its hash: one that is written in Python is called so often that it
    takes a fifth of the time of an analysis, and the one that any object has is another in every run. (An `int` cannot
    have slots.)
    """

    number: int

    def __new__(cls, number: int, *_: object) -> Value:
        """The object, by its number alone; the fields are set later."""
        return float.__new__(cls, number)

    def __bool__(self) -> bool:
        return True


@dataclass(eq=False, slots=True)
class Frame(Value):
    """A scope as run from certain call sites (the last two), within the frame that defined it."""

    path: str
    scope: int
    sites: tuple[Place, ...]
    outer: Frame | None


@dataclass(eq=False, slots=True)
class External(Value):
    """A name outside the project, or a builtin."""

    dotted: str


@dataclass(eq=False, slots=True)
class ModuleValue(Value):
    """A module of the project."""

    path: str


@dataclass(eq=False, slots=True)
class ClassValue(Value):
    """A class of the project, defined in a frame."""

    path: str
    scope: int
    outer: Frame


@dataclass(eq=False, slots=True)
class FunctionValue(Value):
    """A function of the project, bound to a receiver if it is a method."""

    path: str
    scope: int
    outer: Frame
    receiver: Value | None


@dataclass(eq=False, slots=True)
class Partial(Value):
    """What `functools.partial` made, at `place`, of a function or class: the arguments in front are its fields, as many
    by position as `given` says."""

    of: Value
    place: Place
    sites: tuple[Place, ...]
    given: int


@dataclass(eq=False, slots=True)
class Instance(Value):
    """What a call at `place` created: an object of a project class, or what an external callable returned."""

    place: Place
    sites: tuple[Place, ...]
    cls: ClassValue | None
    dotted: str


@dataclass(eq=False, slots=True)
class Container(Value):
    """A tuple, list, set, dict or comprehension; `part` tells several apart that one expression makes, and a list or
    tuple of its own (`LISTS`) from what cannot be handed on like one."""

    place: Place
    sites: tuple[Place, ...]
    part: str


@dataclass(eq=False, slots=True)
class Parameters(Value):
    """Parameters (or submodules) of a module."""

    of: Value


@dataclass(eq=False, slots=True)
class Derived(Value):
    """A tensor computed by calling a module: its gradient reaches that module's parameters."""

    of: Value


@dataclass(eq=False, slots=True)
class State(Value):
    """The `state_dict()` of an object."""

    of: Value


@dataclass(eq=False, slots=True)
class Method(Value):
    """A method that the project does not define, of some object."""

    of: Value
    name: str


@dataclass(eq=False, slots=True)
class Text(Value):
    """A string constant."""

    text: str


@dataclass(eq=False, slots=True)
class NoneValue(Value):
    """None."""


@dataclass(eq=False, slots=True)
class Super(Value):
    """`super()` in a method of `cls` for `receiver`."""

    receiver: Value
    cls: ClassValue


@dataclass(eq=False, slots=True)
class Opaque(Value):
    """Something the project does not show: a parameter of a function nobody calls, an attribute nobody sets.

    `of` is what it belongs to, `name` what it is called there: the place where the trail ends.
    """

    of: Value
    name: str


V = TypeVar("V", bound=Value)
Values: TypeAlias = frozenset[Value]
NOTHING: Values = frozenset()


class Interner:
    """Makes each value once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Value] = {}

    def __call__(self, kind: type[V], *parts: object) -> V:
        """The value of a type with these fields."""
        key = (kind, *parts)
        value = self._known.get(key)
        if value is None:
            value = kind(len(self._known), *parts)
            self._known[key] = value
        return value  # type: ignore[return-value]  # the key holds the type

    def has_made(self, kind: type[Value], *parts: object) -> bool:
        """Whether there is a value of a type with these fields."""
        return (kind, *parts) in self._known


def is_amp_handle(value: Value) -> bool:
    """Whether a value is what `amp.init` returned."""
    return isinstance(value, Instance) and value.dotted == catalog.OLDER_AMP


def is_masters(value: Value) -> bool:
    """Whether a value is what `amp.master_params` gave."""
    return isinstance(value, Instance) and value.dotted.endswith("amp.master_params")


def ordered(values: Iterable[V]) -> list[V]:
    """Values in the order in which they were made."""
    return sorted(values, key=lambda value: value.number)


def trail(values: Values) -> str:
    """Where the trail of an unknown value ends, in words that are true also of a value that is set but not followed."""
    for value in values:
        if isinstance(value, Opaque) and isinstance(value.of, Opaque):
            return f"{value.name!r} belongs to {value.of.name!r}, of which nothing is known here"
        if isinstance(value, Opaque) and isinstance(value.of, Instance) and value.of.cls is None:
            return f"{value.name!r} belongs to what {value.of.dotted.lstrip('.')}() makes, which is not known"
        if isinstance(value, Opaque):
            return f"{value.name!r} is not set anywhere in the files given"
        if isinstance(value, Instance) and value.cls is None:
            return f"what {value.dotted.lstrip('.')}() returns is not known"
    return "nothing in the files given shows what it is"
