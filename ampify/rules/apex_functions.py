"""What takes the place of apex's functions that say what is cast: `half_function` and its kin, `disable_casts`."""

from __future__ import annotations

from ampify.model.apex import ApexMention
from ampify.model.edit import AddElement, Delete, Edit, Replace
from ampify.model.project import Project

# What the functions of `amp` have their arguments cast to.
_CASTS = {"apex.amp.half_function": "torch.float16", "apex.amp.float_function": "torch.float32"}
# Functions of torch that autocast casts as the registration would: registering them says nothing new.
_HALF_ANYWAY = frozenset(
    """addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d einsum linear matmul mm mv prelu""".split()
)
_FLOAT_ANYWAY = frozenset(
    """acos asin cosh cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm kl_div l1_loss
    layer_norm log log10 log1p log2 log_softmax mse_loss nll_loss norm normalize pow prod reciprocal renorm rsqrt sinh
    smooth_l1_loss softmax softmin softplus sum tan""".split()
)
_REGISTERED = {
    "apex.amp.register_half_function": _HALF_ANYWAY,
    "apex.amp.register_float_function": _FLOAT_ANYWAY,
}
_MODULES = frozenset({"torch", "F", "torch.nn.functional", "nn.functional", "functional"})


def function_edits(project: Project, mention: ApexMention) -> tuple[Edit, ...] | None:
    """The edits of a mention of such a function; None if it is of another, or is used in a way that has no equal."""
    quote = project.files[mention.anchor.path].quote
    cast = _CASTS.get(mention.dotted)
    torch = any(f.path == mention.anchor.path and f.torch for group in project.apex for f in group.files)
    if cast is not None and torch:
        device = f"device_type={quote}cuda{quote}"
        if mention.role == "decorator":
            return (Replace(mention.anchor, f"torch.amp.custom_fwd({device}, cast_inputs={cast})"),)
        if mention.call is not None and mention.arguments is not None and len(mention.arguments) == 1:
            added = (AddElement(mention.call, device), AddElement(mention.call, f"cast_inputs={cast}"))
            return (Replace(mention.anchor, "torch.amp.custom_fwd"), *added)
    if mention.dotted == "apex.amp.disable_casts" and torch and mention.call is not None and not mention.arguments:
        return (Replace(mention.call, f"torch.autocast(device_type={quote}cuda{quote}, enabled=False)"),)
    known = _REGISTERED.get(mention.dotted)
    if known is not None and mention.arguments is not None and len(mention.arguments) == 2:
        module, name = (argument.text for argument in mention.arguments)
        alone = mention.call is not None and mention.call.start == mention.statement.start
        if module in _MODULES and name.strip("\"'") in known and alone and mention.statement.kind == "Expr":
            return (Delete(mention.statement),)
    return None
