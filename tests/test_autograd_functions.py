"""Functions with a backward of their own: which are given float32, which are told of, and which are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.settings import Settings, Target
from ampify.pipeline import run

FUNCTION = """\
import torch
from torch.autograd import Function
{imports}

class Product({base}):
{forward}
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return {backward}
"""
FORWARD = """\
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight
"""
APART = """\
    @staticmethod
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

"""
IN_PLACE = """\
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.mark_dirty(x)
        return x.mul_(weight).exp_()
"""
ELEMENTS = """\
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return (x * weight).clamp(-1, 1)
"""
DECORATED = FORWARD.replace("    def", '    @torch.amp.custom_fwd(device_type="cuda")\n    def')
PRODUCTS = "grad @ weight.t(), x.t() @ grad"
TRAIN = """\
import torch
from {module} import {name}

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = {name}.apply(model(torch.ones(2, 4)), model.weight).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def function(forward: str, backward: str = PRODUCTS, base: str = "Function", imports: str = "") -> str:
    return FUNCTION.format(forward=forward, backward=backward, base=base, imports=imports)


def told(folder: Path, target: Target = "runtime", **files: str) -> tuple[dict[str, str], list[tuple[str, int, bool]]]:
    """The texts of modules after a run, and where AMP310 is told with or without a fix."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    report = run([folder], Settings(root=str(folder), target=target))
    after = {Path(o.path).stem: o.after for o in report.outcomes if o.after is not None}
    found = [(f.anchor.path, f.anchor.line, f.fix is not None) for f in report.findings if f.code == "AMP310"]
    return after, found


@pytest.mark.parametrize(
    ("text", "decorated"),
    [
        (function(FORWARD), True),
        (function(FORWARD, base="torch.autograd.Function"), True),
        (function(FORWARD, base="autograd.Function", imports="from torch import autograd"), True),
        (function(FORWARD, base="Own", imports="class Own(Function):\n    pass\n"), True),
        (function(FORWARD, base="torch.autograd.function.InplaceFunction"), True),
        (function(ELEMENTS, "grad * weight, grad * x"), False),
        (function(ELEMENTS, "grad * weight ** 2, kernel(grad, x)"), True),
        (function(DECORATED), False),
        (function(FORWARD, base="Stranger", imports="class Stranger:\n    pass\n"), False),
    ],
)
@pytest.mark.parametrize("target", ["runtime", "native"])
def test_what_depends_on_the_type_is_given_float32(text: str, decorated: bool, target: Target, tmp_path: Path) -> None:
    mark = "    @amp.float_function\n" if target == "runtime" else '(device_type="cuda", cast_inputs=torch.float32)\n'
    after, found = told(tmp_path, target, ops=text, train=TRAIN.format(module="ops", name="Product"))
    assert "train" in after
    assert (mark in after.get("ops", "")) is decorated
    assert len(found) == decorated


@pytest.mark.parametrize("forward", [APART, IN_PLACE])
def test_what_cannot_be_decorated_is_told_of(forward: str, tmp_path: Path) -> None:
    after, found = told(tmp_path, ops=function(forward), train=TRAIN.format(module="ops", name="Product"))
    assert "ops" not in after
    assert [fixed for _, _, fixed in found] == [False]


def test_a_function_that_the_loop_does_not_reach_is_left_alone(tmp_path: Path) -> None:
    other = TRAIN.format(module="ops", name="Product").replace("optimizer.step()", "optimizer.step(lambda: loss)")
    train = TRAIN.format(module="plain", name="Plain")
    plain = function(ELEMENTS, "grad * weight, grad * x").replace("Product", "Plain")
    after, _ = told(tmp_path, ops=function(FORWARD), plain=plain, train=train, other=other)
    assert set(after) == {"train"}


def test_a_function_in_a_third_file_is_reached(tmp_path: Path) -> None:
    after, _ = told(
        tmp_path,
        ops=function(FORWARD),
        layers="from ops import Product\n",
        train=TRAIN.format(module="layers", name="Product"),
    )
    assert "@amp.float_function" in after["ops"]
