"""A function with a backward of its own meets float16 beside float32 there, as no backward is cast.

What it does
------------
Has the forward of a `torch.autograd.Function` of the project computed in float32, uncast: by `amp.float_function`, or
under the native target by `custom_fwd(cast_inputs=torch.float32)` and `custom_bwd`. Left alone are those that only
shape, choose and multiply elements, and those whose author has decorated them.

Why it matters
--------------
Autocast reaches into the forward: a product there is float16, while what was saved for the backward is float32. The
backward runs without autocast and is handed float16 gradients, so that its products stop with two types that do not
match; kernels of the project's own may not know float16 at all.

Before
------
    import torch


    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, rows, weight):
            ctx.save_for_backward(rows, weight)
            return rows.mm(weight)

        @staticmethod
        def backward(ctx, grad):
            rows, weight = ctx.saved_tensors
            return grad.mm(weight.t()), rows.t().mm(grad)


    model = torch.nn.Linear(4, 3)
    last = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *last.parameters()], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = Product.apply(model(torch.ones(2, 4)), last.weight.t()).pow(2).mean()
        loss.backward()
        optimizer.step()

After
-----
    import torch
    from ampify_runtime import amp


    class Product(torch.autograd.Function):
        @staticmethod
        @amp.float_function
        def forward(ctx, rows, weight):
            ctx.save_for_backward(rows, weight)
            return rows.mm(weight)

        @staticmethod
        def backward(ctx, grad):
            rows, weight = ctx.saved_tensors
            return grad.mm(weight.t()), rows.t().mm(grad)


    model = torch.nn.Linear(4, 3)
    last = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *last.parameters()], lr=0.1)
    [model, last], optimizer = amp.initialize([model, last], optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = Product.apply(model(torch.ones(2, 4)), last.weight.t()).pow(2).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

Fix safety
----------
Safe: the function computes in float32, as it did; modules that it runs do so as well, and are then no faster.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.anchor import Anchor
from ampify.model.edit import AddDecorator, Fix
from ampify.model.finding import Finding
from ampify.model.project import AutogradFunction, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CONDITIONAL_AMP, migrating
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP310"
NAME = "autograd-function-under-autocast"
MESSAGE = "{} has a backward of its own, which no autocast reaches: it computes in float32 here, forward included"
FLAWED = "{} has a backward of its own, which no autocast reaches: what it is given in half precision may stop it"
_AMP = "torch.amp"
_GPU, _CPU = '"cuda"', '"cpu"'
HINTS = {
    "runtime": "{}; call it as amp.float_function({}.apply)(...), and look at what it does then",
    "native": "{}; call it on float32, under torch.autocast(..., enabled=False), and look at what it does then",
}


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every such function in the files of a loop that is cast; one that is only told of, once."""
    told: set[Anchor] = set()
    for finding in _findings(project, settings):
        if finding.fix is not None or finding.anchor not in told:
            yield finding
        told.add(finding.anchor)


def _findings(project: Project, settings: Settings) -> Iterator[Finding]:
    if settings.target == "native":
        for loop, _ in plans(project, settings):
            for function in loop.functions:
                yield _finding(function, settings, loop, _native(project, settings, loop, function))
        return
    for loop in project.loops:
        for function in loop.functions if loop.native is None and not loop.masters else ():
            decorated = AddDecorator(function.forward, f"{project.amp(function.forward.path)}.float_function")
            fix = migrating(project, settings, loop, function.forward.path, decorated)
            yield _finding(function, settings, loop, fix)


def _finding(function: AutogradFunction, settings: Settings, loop: TrainingLoop, fix: Fix | None) -> Finding:
    obstacle = function.obstacle or (function.spoilt if settings.target == "native" else "")
    if fix is not None and not obstacle:
        return Finding(CODE, NAME, function.forward, MESSAGE.format(function.name), fix=fix, loop=loop.id)
    hint = HINTS[settings.target].format(obstacle or CONDITIONAL_AMP, function.name)
    return Finding(CODE, NAME, function.forward, FLAWED.format(function.name), hint, loop=loop.id)


def _native(project: Project, settings: Settings, loop: TrainingLoop, function: AutogradFunction) -> Fix:
    spelling = Spelling(project, settings, function.forward, whole=True)
    device = f"device_type={spelling.code(_GPU)}"
    if not scales(settings):
        # Bfloat16 is cast to wherever the script runs.
        device = f"{device} if {spelling.torch('torch.cuda', 'is_available')}() else {spelling.code(_CPU)}"
    types = f"cast_inputs={spelling.torch('torch', 'float32')}"
    forward = AddDecorator(function.forward, f"{spelling.torch(_AMP, 'custom_fwd')}({device}, {types})")
    backward = AddDecorator(function.backward, f"{spelling.torch(_AMP, 'custom_bwd')}({device})")
    return spelling.fix(loop, forward, backward)
