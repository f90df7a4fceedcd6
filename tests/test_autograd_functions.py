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


BODIES = """\
def forth(ctx, x, weight):
    ctx.save_for_backward(x, weight)
    return x @ weight


def back(ctx, grad):
    x, weight = ctx.saved_tensors
    return grad @ weight.t(), x.t() @ grad

"""
ASSIGNED = f"""\
import torch

{BODIES}
class Product(torch.autograd.Function):
    forward = staticmethod(forth)
    backward = staticmethod(back)
"""
MADE = f"""\
import torch

{BODIES}
Product = type("Product", (torch.autograd.Function,), {{"forward": staticmethod(forth), "backward": staticmethod(back)}})
"""
AFTERWARDS = f"""\
import torch

{BODIES}
class Product(torch.autograd.Function):
    backward = staticmethod(back)


Product.forward = staticmethod(forth)
"""
LAMBDA = """\
    forward = staticmethod(lambda ctx, x, weight: (ctx.save_for_backward(x, weight), x @ weight)[1])

"""
# A product under a name that multiplies elements elsewhere.
NAMED_ALIKE = function(ELEMENTS.replace("(x * weight).clamp(-1, 1)", "mul(x, weight)"), "mul(grad, weight.t()), None")
IN_PLACE_PRODUCT = ELEMENTS.replace("        return (x * weight).clamp(-1, 1)", "        x @= weight\n        return x")
INNER = function(FORWARD).partition("class ")[2].replace("\n", "\n    ")
HALF = function("", base="Half")
HALF_BASE = HALF.replace("class Product(Half)", "class Half(Function)") + "\n\nclass Product(Half):\n" + FORWARD


@pytest.mark.parametrize(
    "text",
    [
        f"import torch\nfrom torch.autograd import Function\n\n\ndef make():\n    class {INNER}\n    return Product\n\n\n"
        "Product = make()\n",
        f"from torch.autograd import Function\n\n\nclass Layer:\n    class {INNER}\n\nProduct = Layer.Product\n",
        HALF_BASE,
        ASSIGNED,
        function(FORWARD, base="Fn", imports="from torch.autograd import Function as Fn\n"),
        "from torch.autograd import *\n" + function(FORWARD).replace("from torch.autograd import Function\n", ""),
        NAMED_ALIKE.replace("import torch\n", "import torch\nfrom torch import mm as mul\n", 1),
        NAMED_ALIKE.replace("class ", "def mul(a, b):\n    return torch.einsum('ij,jk->ik', a, b)\n\n\nclass ", 1),
        function(IN_PLACE_PRODUCT, "grad * x, None"),
    ],
    ids=["function", "class", "base", "assigned", "alias", "star", "imported-name", "own-name", "in-place"],
)
@pytest.mark.parametrize(
    ("target", "mark"), [("runtime", "@amp.float_function"), ("native", "custom_fwd(device_type=")]
)
def test_it_is_decorated_wherever_it_stands(text: str, target: Target, mark: str, tmp_path: Path) -> None:
    after, found = told(tmp_path, target, ops=text, train=TRAIN.format(module="ops", name="Product"))
    assert after["ops"].count(mark) == 1
    assert after["ops"].count("custom_bwd(") == (target == "native")
    assert [fixed for _, _, fixed in found] == [True]


@pytest.mark.parametrize(
    "text",
    [
        MADE,
        AFTERWARDS,
        function(LAMBDA),
        ASSIGNED + "\n\nprint(forth)\n",
        function(FORWARD, base="Known", imports="from elsewhere import Known\n"),
    ],
    ids=["type", "afterwards", "lambda", "used-twice", "unknown-base"],
)
def test_what_is_not_defined_like_others_is_told_of(text: str, tmp_path: Path) -> None:
    after, found = told(tmp_path, ops=text, train=TRAIN.format(module="ops", name="Product"))
    assert "train" in after
    assert "ops" not in after
    assert [fixed for _, _, fixed in found] == [False]


def test_children_of_one_backward_are_decorated_alike(tmp_path: Path) -> None:
    twice = HALF_BASE + "\n\nclass Twice(Half):\n" + ELEMENTS
    after, found = told(tmp_path, "native", ops=twice, train=TRAIN.format(module="ops", name="Product"))
    assert (after["ops"].count("custom_fwd("), after["ops"].count("custom_bwd(")) == (2, 1)
    assert len(found) == 2
    seen = HALF_BASE + "\n\nclass Seen(Half):\n" + DECORATED
    after, found = told(tmp_path, "native", ops=seen, train=TRAIN.format(module="ops", name="Product"))
    assert "ops" not in after
    assert [fixed for _, _, fixed in found] == [False]


def test_a_base_in_another_file_is_followed(tmp_path: Path) -> None:
    base = "from torch.autograd import Function\n\n\nclass Named(Function):\n    label = 'op'\n"
    ops = function(FORWARD, base="Named", imports="from base import Named\n")
    after, _ = told(tmp_path, base=base, ops=ops, train=TRAIN.format(module="ops", name="Product"))
    assert set(after) == {"ops", "train"}


@pytest.mark.parametrize(
    "importer", ["importlib.import_module('parts.ops')", "importlib.import_module('.ops', 'parts')"]
)
def test_a_module_that_is_asked_for_by_a_text_is_reached(importer: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "ops.py").write_text(function(FORWARD))
    asked = f"import importlib\n\nProduct = {importer}.Product\n"
    train = TRAIN.format(module="torch", name="nn").replace("nn.apply", "Product.apply")
    after, found = told(tmp_path, train=asked + train)
    assert "@amp.float_function" in after["ops"]
    assert [fixed for _, _, fixed in found] == [True]


GIVEN = """\
    @staticmethod
    def forward(ctx, x, weight, more):
        ctx.save_for_backward(x, weight)
        return x @ weight * {use}
"""


@pytest.mark.parametrize(
    ("given", "use", "fixed"),
    [
        ("2", "more", True),
        ("[1, 2]", "len(more)", True),
        ("weight.shape", "more[0]", True),
        ("range(2)", "len(more)", False),
        ("{1, 2}", "len(more)", False),
        ("(i for i in (1, 2))", "sum(more)", False),
        ("namedtuple('Pair', 'a b')(1, 2)", "more.a", False),
        ("torch.nn.Sequential(torch.nn.Tanh())", "more(x)", False),
        ("model.extra", "more(x)", False),
        ("torch.tanh", "more(x)", True),
        ("scale", "more(x)", True),
    ],
)
def test_torchs_own_decorator_is_for_what_it_hands_on(given: str, use: str, fixed: bool, tmp_path: Path) -> None:
    ops = function(GIVEN.format(use=use), "grad @ weight.t(), x.t() @ grad, None")
    train = TRAIN.format(module="ops", name="Product").replace("model.weight)", f"model.weight, {given})")
    train = "from collections import namedtuple\n" + train.replace("weight.shape", "model.weight.shape")
    train = train.replace("\nmodel =", "\ndef scale(x):\n    return x\n\n\nmodel =", 1)
    _, found = told(tmp_path, "native", ops=ops, train=train)
    assert [done for _, _, done in found] == [fixed]
    _, found = told(tmp_path, "runtime", ops=ops, train=train)
    assert [done for _, _, done in found] == [True]


LAYERS = """\
    @staticmethod
    def forward(ctx, x, weight, layers):
        ctx.save_for_backward(x, weight)
        for layer in layers:
            x = layer(x)
        return x @ weight

"""


@pytest.mark.parametrize(
    ("given", "fixed"),
    [("model(rows), model.weight, layers()", False), ("model(rows), model.weight, [torch.tanh]", True)],
)
def test_what_a_forward_goes_through_is_known_to_be_a_list_or_told_of(given: str, fixed: bool, tmp_path: Path) -> None:
    train = TRAIN.format(module="ops", name="Product").replace(
        "import Product\n", "import Product\nfrom x import layers\n"
    )
    train = train.replace("model(torch.ones(2, 4)), model.weight", given).replace(
        "    loss =", "    rows = torch.ones(2, 4)\n    loss ="
    )
    text = function(LAYERS, f"{PRODUCTS}, None")
    after, found = told(tmp_path, "native", ops=text, train=train)
    assert [with_fix for _, _, with_fix in found] == [fixed]
    assert ("custom_fwd(" in after.get("ops", "")) is fixed
