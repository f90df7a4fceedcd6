"""Which code computes alike whatever floating-point type its tensors have."""

from __future__ import annotations

from ampify.index.autograd_methods import frames_in
from ampify.index.flow import Flow
from ampify.index.syntax import dotted_name, last_name, nodes, parts, statements
from ampify.index.values import ClassValue, External, FunctionValue, Partial, Value
from ampify.model import facts as f

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
_IN_PLACE = ("@=", "**=")
# Packages whose functions of these names are what they are called; a kernel of another may know float32 alone.
_PLAIN = frozenset({"torch", "math", "numpy", "builtins"})


def depends(flow: Flow, path: str, scope: f.Scope) -> bool:
    """Whether the code of a function, without those that it defines, depends on the type that it is given."""
    facts = flow.files[path]
    if any(_multiplies_in_place(facts, statement) for statement in statements(scope.body)):
        return True
    return any(
        not _is_indifferent(flow, path, scope, node.func)
        if isinstance(node, f.Call)
        else isinstance(node, f.Operation) and node.operator in OPERATORS
        for node, _ in nodes(scope.body)
    )


def _multiplies_in_place(facts: f.FileFacts, statement: f.Stmt) -> bool:
    if not isinstance(statement, f.Assign) or statement.kind != "AugAssign":
        return False
    between = (*statement.targets[0].span[2:], *statement.value.span[:2])
    return facts.text(between).strip(" \t\\\r\n(").startswith(_IN_PLACE)


def _is_indifferent(flow: Flow, path: str, scope: f.Scope, called: f.Expr) -> bool:
    """Whether what is called is one of those, and not another thing by its name."""
    if last_name(called) not in INDIFFERENT:
        return False
    if not dotted_name(called) or any(isinstance(node, f.Call) for node in parts((f.Evaluate(called.span, called),))):
        return True
    values = [v for frame in frames_in(flow, path, scope.index) for v in flow.evaluate(called, frame)]
    return not any(map(_is_other, values))


def _is_other(value: Value) -> bool:
    """Whether a value is the project's own, or a stranger's, by the name of something indifferent."""
    if not isinstance(value, External):
        return isinstance(value, FunctionValue | ClassValue | Partial)
    first, _, rest = value.dotted.partition(".")
    return value.dotted.rpartition(".")[2] not in INDIFFERENT or bool(rest and first not in _PLAIN)
