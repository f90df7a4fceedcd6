"""Functions with a backward of their own: which of them must be given float32, as their backward is not cast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from ampify.index.flow import Flow
from ampify.index.programs import closure, imported_files
from ampify.index.syntax import calls, dotted_name, last_name, nodes
from ampify.index.values import ClassValue
from ampify.model import facts as f
from ampify.model.project import AutogradFunction

BASES = frozenset(
    {"torch.autograd.Function", "torch.autograd.function.Function", "torch.autograd.function.InplaceFunction"}
)
# What these compute in the type that they are given is as right in half precision as it is elsewhere in a network:
# shapes, signs, choices and products of elements, and what prepares or passes on a tensor.
INDIFFERENT = frozenset(
    """abs add all_gather bernoulli bool broadcast cat chunk clamp clamp_ clamp_max clamp_min clone contiguous cos
    cpu cuda detach device dim div div_ empty empty_like eq expand expand_as fill_ flatten flip float floor full
    full_like gather ge get_rank get_world_size gt hardtanh index_select int int_repr is_contiguous isinstance item
    le len list long lt mark_non_differentiable masked_fill masked_fill_ masked_select max maximum min minimum mul
    mul_ narrow ne neg neg_ nelement nonzero numel ones ones_like permute print range relu relu_ repeat reshape
    reshape_as round save_for_backward scatter scatter_ set_materialize_grads sigmoid sigmoid_ sign sign_ sin size
    split squeeze stack sub sub_ sum super t tanh to transpose tuple type type_as unbind unsqueeze view view_as where
    zero_ zeros zeros_like zip""".split()
)
# Products of matrices, and powers, which leave the range of float16.
OPERATORS = frozenset({"MatMult", "Pow"})
CAST = frozenset({"custom_fwd", "float_function", "half_function"})
DIRTY = "it changes what it is given in place (mark_dirty)"
APART = "it saves what it is given in setup_context"


class AutogradFunctions:
    """Answers for the files of a flow, each file read once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    @cached_property
    def by_file(self) -> dict[str, tuple[AutogradFunction, ...]]:
        """The functions to be given float32, by the file that defines them."""
        found = {path: tuple(self._of(facts)) for path, facts in self.flow.files.items() if _may_define(facts)}
        return {path: functions for path, functions in found.items() if functions}

    def reached(self, roots: Iterable[str]) -> tuple[AutogradFunction, ...]:
        """Those in files that some files import, at any remove, in the order of the text."""
        if not self.by_file:
            return ()
        files, modules = self.flow.files, self.flow.modules
        reached = closure(roots, lambda path: imported_files(path, files[path], modules) if path in files else ())
        return tuple(function for path in sorted(reached) for function in self.by_file.get(path, ()))

    def _of(self, facts: f.FileFacts) -> Iterator[AutogradFunction]:
        module = self.flow.module_frame(facts.path)
        for scope in facts.scopes:
            if scope.kind != "class" or scope.parent != 0:
                continue
            cls = self.flow.make(ClassValue, facts.path, scope.index, module)
            if BASES.intersection(self.flow.classes.external_bases(cls)):
                function = _function(facts, scope)
                if function is not None:
                    yield function


def _may_define(facts: f.FileFacts) -> bool:
    return any("Function" in dotted_name(base) for scope in facts.scopes for base in scope.bases)


def _function(facts: f.FileFacts, scope: f.Scope) -> AutogradFunction | None:
    """What a class is, if its code depends on the type that it is given; None if not, or if its author saw to that."""
    methods = {facts.scopes[s.scope].name: s for s in scope.body if isinstance(s, f.Define)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or CAST.intersection(map(last_name, map(_called, forward.decorators))):
        return None
    inner = [s for s in facts.scopes if s.span[:2] >= scope.span[:2] and s.span[2:] <= scope.span[2:]]
    if not any(_depends(s.body) for s in inner):
        return None
    obstacle = APART if "setup_context" in methods else DIRTY if _marks_dirty(inner) else ""
    return AutogradFunction(scope.name, facts.anchor(forward), facts.anchor(backward), obstacle)


def _called(decorator: f.Expr) -> f.Expr:
    return decorator.func if isinstance(decorator, f.Call) else decorator


def _depends(body: tuple[f.Stmt, ...]) -> bool:
    return any(
        last_name(node.func) not in INDIFFERENT
        if isinstance(node, f.Call)
        else isinstance(node, f.Operation) and node.operator in OPERATORS
        for node, _ in nodes(body)
    )


def _marks_dirty(scopes: Iterable[f.Scope]) -> bool:
    return any(last_name(call.func) == "mark_dirty" for scope in scopes for call in calls(scope.body))
