"""What the table of apex's names says is there is there, and what it does not say has something nearest."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest

from ampify.apex_catalog import EQUALS, EXTENSIONS, NEAREST, UNKNOWN, has_equal, nearest


def of_the_runtime(dotted: str) -> str:
    return dotted.replace("apex", "ampify_runtime", 1)


@pytest.mark.parametrize("module", EQUALS)
def test_every_name_with_an_equal_is_in_the_runtime(module: str) -> None:
    ours = import_module(of_the_runtime(module))
    # What is reached through `amp._amp_state` is reached in the object of that name.
    state = getattr(ours, "_amp_state", None)
    known = {*dir(ours), *dir(state)}
    package = hasattr(ours, "__path__")
    missing = [n for n in EQUALS[module] if n not in known and not (package and find_spec(f"{ours.__name__}.{n}"))]
    assert missing == []


@pytest.mark.parametrize("dotted", [*NEAREST, *EXTENSIONS])
def test_what_is_said_to_be_near_has_no_equal_itself(dotted: str) -> None:
    assert dotted in EXTENSIONS or dotted in EQUALS or not has_equal(dotted)


@pytest.mark.parametrize(
    ("dotted", "equal"),
    [
        ("apex", True),
        ("apex.amp", True),
        ("apex.amp.scale_loss", True),
        ("apex.amp.scale_loss.__doc__", True),
        ("apex.amp._amp_state.loss_scalers", True),
        ("apex.optimizers.*", True),
        ("apex.amp.wrap", False),
        ("apex.amp._amp_state.saved_tensors", False),
        ("apex.transformer.parallel_state", False),
        ("apex.contrib.sparsity.ASP", False),
        ("apex.contrib.*", False),
        ("apex.__version__", False),
        ("apex.amp.__dict__", True),
    ],
)
def test_a_name_has_an_equal_if_the_module_that_holds_it_lists_it(dotted: str, equal: bool) -> None:
    assert has_equal(dotted) is equal


def test_the_longest_name_says_what_is_nearest() -> None:
    assert nearest("apex.contrib.layer_norm.FastLayerNorm") == NEAREST["apex.contrib.layer_norm"]
    assert nearest("amp_C.multi_tensor_scale") == EXTENSIONS["amp_C"]
    assert nearest("apex.contrib.openfold_triton") == UNKNOWN
