"""What `amp.initialize` takes, gives back, refuses, and lets go of."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn

from .training import assert_same, make_mlp, weights_of

X = torch.linspace(-1, 1, 16).reshape(2, 8)


def sgd(*models: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.1)


class TestShapes:
    """The same objects come back, in the shape they were given."""

    @pytest.mark.parametrize("level", ["O0", "O4"])
    def test_one_of_each(self, level: str) -> None:
        model = make_mlp()
        optimizer = sgd(model)
        returned = amp.initialize(model, optimizer, opt_level=level)
        assert returned[0] is model
        assert returned[1] is optimizer

    @pytest.mark.parametrize("container", [list, tuple])
    def test_several_of_each(self, container: Any) -> None:
        models = container([make_mlp(), make_mlp()])
        optimizers = container(sgd(model) for model in models)
        returned_models, returned_optimizers = amp.initialize(models, optimizers, opt_level="O4")
        assert type(returned_models) is type(returned_optimizers) is container
        assert list(map(id, returned_models)) == list(map(id, models))
        assert list(map(id, returned_optimizers)) == list(map(id, optimizers))

    def test_models_alone(self) -> None:
        model = make_mlp()
        assert amp.initialize(model, opt_level="O4") is model
        assert model(X).dtype is torch.bfloat16

    def test_no_optimizers_in_a_list(self) -> None:
        model = make_mlp()
        assert amp.initialize(model, [], opt_level="O4") == (model, [])

    def test_a_module_list_is_one_model(self) -> None:
        models = nn.ModuleList([make_mlp()])
        assert amp.initialize(models, sgd(models), opt_level="O4")[0] is models


class TestText:
    """Choices as argparse gives them."""

    @pytest.mark.parametrize(("enabled", "dtype"), [("True", torch.bfloat16), ("False", torch.float32)])
    def test_enabled(self, enabled: str, dtype: torch.dtype) -> None:
        model = make_mlp()
        amp.initialize(model, sgd(model), enabled=enabled, opt_level="O4")
        assert model(X).dtype is dtype

    @pytest.mark.parametrize(
        ("loss_scale", "scale"), [("128.0", 128.0), ("dynamic", 65536.0), (None, 1.0), ("None", 1.0)]
    )
    def test_loss_scale(self, loss_scale: Any, scale: float) -> None:
        model = make_mlp()
        amp.initialize(model, sgd(model), opt_level="O4", loss_scale=loss_scale)
        assert amp.loss_scale() == scale

    def test_everything_else(self) -> None:
        model = make_mlp()
        amp.initialize(
            model,
            sgd(model),
            opt_level="O4",
            patch_torch_functions="True",
            keep_batchnorm_fp32="None",
            master_weights="False",
            num_losses="2",
            verbosity="0",
            min_loss_scale="1.0",
            max_loss_scale="1024",
        )
        assert amp.loss_scale(1) == 1.0


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"opt_level": "01"}, r"opt_level is '01', which is no opt level; .* letter O, not zero; use one of \"O0\""),
    ({"opt_level": 1}, r"opt_level is 1, which is no opt level; use one of"),
    (
        {"cast_model_type": torch.float16},
        r"cast_model_type=torch\.float16 contradicts opt_level='O1', which leaves weights in fp32; .*\"O2\" or \"O3\"",
    ),
    (
        {"cast_model_type": "bfloat16", "opt_level": "O4"},
        r"cast_model_type=torch\.bfloat16 contradicts opt_level='O4'.*use opt_level=\"O5\"",
    ),
    (
        {"cast_model_type": "torch.float32", "opt_level": "O2"},
        r"cast_model_type=torch\.float32 contradicts opt_level='O2', which casts .*use opt_level=\"O0\"",
    ),
    (
        {"cast_model_type": "half", "opt_level": "O5"},
        r"cast_model_type=torch\.float16 contradicts opt_level='O5'.*use opt_level=\"O2\"",
    ),
    ({"cast_model_type": torch.int8, "opt_level": "O2"}, r"cast_model_type=torch\.int8 is no type to cast to; pass"),
    ({"cast_model_outputs": "float64"}, r"cast_model_outputs='float64' is no type to cast to; pass"),
    (
        {"patch_torch_functions": "True", "opt_level": "O2"},
        r"patch_torch_functions=True contradicts opt_level='O2', which does not cast functions; .*use opt_level=\"O1\"",
    ),
    ({"master_weights": "maybe", "opt_level": "O2"}, r"master_weights='maybe' is neither true nor false"),
    ({"patch_torch_functions": False}, r"patch_torch_functions=False contradicts .*use opt_level=\"O0\""),
    (
        {"patch_torch_functions": True, "opt_level": "O0"},
        r"patch_torch_functions=True contradicts .*use opt_level=\"O1\"",
    ),
    ({"keep_batchnorm_fp32": "maybe"}, r"keep_batchnorm_fp32='maybe' is neither true nor false"),
    ({"enabled": "maybe"}, r"enabled='maybe' is neither true nor false"),
    ({"loss_scale": "static"}, r"loss_scale='static' is neither \"dynamic\" nor a positive number; pass"),
    ({"loss_scale": 0}, r"loss_scale=0 is neither"),
    ({"loss_scale": float("nan")}, r"loss_scale=nan is neither"),
    ({"verbosity": "loud"}, r"verbosity='loud' is not a whole number; pass 0"),
    ({"num_losses": 0}, r"num_losses=0 is not a whole number of at least 1"),
    ({"num_losses": "many"}, r"num_losses='many' is not a whole number"),
    ({"max_loss_scale": -1}, r"max_loss_scale=-1 is not a positive, finite number"),
    ({"min_loss_scale": 2.0**25}, r"min_loss_scale=33554432\.0 is above max_loss_scale"),
]


@pytest.mark.parametrize(("keywords", "message"), REFUSALS)
def test_what_cannot_be_had_is_refused(keywords: dict[str, Any], message: str) -> None:
    model = make_mlp()
    with pytest.raises(ValueError, match=message):
        amp.initialize(model, sgd(model), **keywords)
    assert not model._forward_pre_hooks


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"keep_batchnorm_fp32": True}, "keep_batchnorm_fp32=True has no effect at opt level O1"),
        ({"keep_batchnorm_fp32": "False"}, "keep_batchnorm_fp32=False has no effect at opt level O1"),
        ({"master_weights": "True"}, "master_weights=True has no effect at opt level O1"),
    ],
)
def test_what_changes_nothing_is_warned_of(keywords: dict[str, Any], message: str, bfloat16: torch.dtype) -> None:
    model = make_mlp()
    with pytest.warns(amp.AmpWarning, match=message):
        amp.initialize(model, sgd(model), **keywords)
    assert model(X).dtype is bfloat16


@pytest.mark.parametrize(("variable", "value"), [("AMPIFY_OPT_LEVEL", "O9"), ("AMPIFY_DTYPE", "half")])
def test_a_wrong_environment_is_refused(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    model = make_mlp()
    with pytest.raises(ValueError, match=f"environment variable {variable} is '{value}'"):
        amp.initialize(model, sgd(model))


class Holder:
    """An object around an optimizer that is none itself."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer


class TestTypes:
    def test_a_model_that_is_none(self) -> None:
        with pytest.raises(TypeError, match=r"models: function is no torch\.nn\.Module"):
            amp.initialize([lambda x: x], None)

    def test_an_optimizer_that_is_none(self) -> None:
        with pytest.raises(TypeError, match=r"optimizers: str is no torch\.optim\.Optimizer; pass the torch"):
            amp.initialize(make_mlp(), ["adam"])

    def test_an_object_around_an_optimizer(self) -> None:
        model = make_mlp()
        holder = Holder(sgd(model))
        with pytest.raises(TypeError, match=r"Holder is no torch\.optim\.Optimizer; pass its `\.optimizer`"):
            amp.initialize(model, holder)
        with pytest.raises(TypeError, match=r"amp\.master_params: Holder is no"):
            amp.master_params(holder)  # type: ignore[arg-type]


class Unhooked(torch.optim.Optimizer):
    """Does not call its parent's constructor, as some published optimizers do not."""

    def __init__(self, params: Any) -> None:
        self.param_groups = [{"params": list(params)}]
        self.state = {}  # type: ignore[assignment]
        self.cast_inside: list[torch.dtype] = []

    def step(self, closure: Any = None) -> None:
        self.cast_inside.append(torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                if p.grad is not None:
                    p.sub_(p.grad)


class TestScaledTraining:
    def test_lbfgs_is_refused(self, float16: torch.dtype) -> None:
        model = make_mlp()
        with pytest.raises(ValueError, match=r"LBFGS evaluates its closure many times .*\"O4\""):
            amp.initialize(model, torch.optim.LBFGS(model.parameters()))

    @pytest.mark.parametrize("level", ["O0", "O1", "O4"])
    def test_an_optimizer_that_has_no_hooks_gets_them(self, level: str, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = Unhooked(model.parameters())
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        steps = []
        for factor in (1e-4, float("inf"), 1e-4):
            loss = model(X).float().square().mean() * (factor if level == "O1" else 1.0)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            before = weights_of(model)
            optimizer.step()
            steps.append(not torch.equal(before[0], weights_of(model)[0]))
            model.zero_grad()
        assert steps == [True, level != "O1", True]
        assert optimizer.cast_inside == [torch.float32] * 3

    def test_float16_parameters_are_refused(self, float16: torch.dtype) -> None:
        model = make_mlp().half()
        with pytest.raises(ValueError, match=r"SGD has float16 parameters.*remove the script's own \.half\(\)"):
            amp.initialize(model, sgd(model))


class TestScaleLossRefusals:
    def test_before_initialize(self) -> None:
        with (
            pytest.raises(RuntimeError, match=r"amp\.initialize has not been called; call"),
            amp.scale_loss(torch.ones(())),
        ):
            pass

    def test_an_optimizer_that_was_not_initialized(self) -> None:
        model = make_mlp()
        amp.initialize(model, sgd(model), opt_level="O4")
        with (
            pytest.raises(RuntimeError, match=r"this SGD was not given to amp\.initialize"),
            amp.scale_loss(torch.ones(()), sgd(model)),
        ):
            pass

    def test_what_is_no_optimizer(self) -> None:
        model = make_mlp()
        amp.initialize(model, sgd(model), opt_level="O4")
        with pytest.raises(TypeError, match=r"optimizers: int is no torch\.optim"), amp.scale_loss(torch.ones(()), 3):
            pass

    @pytest.mark.parametrize("loss", [1.0, "loss", {"a": torch.ones(())}, [1.0], []])
    def test_what_is_no_loss(self, loss: Any, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = sgd(model)
        amp.initialize(model, optimizer)
        with (
            pytest.raises(TypeError, match=f"loss is {type(loss).__name__}; pass a tensor"),
            amp.scale_loss(loss, optimizer),
        ):
            pass

    @pytest.mark.parametrize(
        ("loss_id", "hint"), [(2, "pass num_losses=3 there"), (-1, "count from 0"), ("a", "count")]
    )
    def test_a_loss_that_was_not_announced(self, loss_id: Any, hint: str, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = sgd(model)
        amp.initialize(model, optimizer, num_losses=2)
        with (
            pytest.raises(ValueError, match=f"loss_id={loss_id!r}, but .* num_losses=2; {hint}"),
            amp.scale_loss(torch.ones(()), optimizer, loss_id=loss_id),
        ):
            pass


def test_unscaled_levels_hand_the_loss_through() -> None:
    model = make_mlp()
    optimizer = sgd(model)
    amp.initialize(model, optimizer, opt_level="O4")
    loss = model(X).sum()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss


class TestAgain:
    def test_the_same_again_changes_nothing(self, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = sgd(model)
        for _ in range(2):
            amp.initialize(model, optimizer, verbosity=0)
            loss = model(X).sum() * float("inf")
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert amp.loss_scale() == 16384.0
        # One that ends the casts, one that watches for unscaled backwards.
        assert (len(model._forward_pre_hooks), len(model._forward_hooks)) == (1, 2)
        assert len(optimizer._optimizer_step_pre_hooks) == 1

    def test_folds_start_with_a_fresh_scale_and_train_alike(self, float16: torch.dtype) -> None:
        results = []
        for _ in range(2):
            model = make_mlp()
            optimizer = sgd(model)
            amp.initialize(model, optimizer, verbosity=0)
            assert amp.loss_scale() == 65536.0
            for _ in range(3):
                optimizer.zero_grad()
                with amp.scale_loss(model(X).float().square().mean(), optimizer) as scaled_loss:
                    scaled_loss.backward()
                optimizer.step()
            results.append(weights_of(model))
        assert_same(*results)

    def test_a_new_optimizer_for_a_known_model(self, float16: torch.dtype) -> None:
        model = make_mlp()
        amp.initialize(model, sgd(model), verbosity=0)
        optimizer = sgd(model)
        amp.initialize(model, optimizer, verbosity=0)
        assert len(model._forward_pre_hooks) == 1
        before = weights_of(model)
        with amp.scale_loss(model(X).float().square().mean() * float("inf"), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        assert_same(weights_of(model), before)

    def test_models_alone_leave_scales_as_they_are(self, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = sgd(model)
        amp.initialize(model, optimizer, verbosity=0)
        with amp.scale_loss(model(X).sum() * float("inf"), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        amp.initialize(make_mlp())
        assert amp.loss_scale() == 32768.0


def test_models_and_optimizers_can_be_collected(float16: torch.dtype) -> None:
    model = make_mlp()
    optimizer = sgd(model)
    amp.initialize(model, optimizer, verbosity=0)
    with amp.scale_loss(model(X).float().sum(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    watched = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(model[0].weight)]
    del model, optimizer, scaled_loss
    gc.collect()
    assert [ref() for ref in watched] == [None, None, None]


@pytest.mark.parametrize("level", ["O1", "O4"])
def test_other_devices_stay_in_fp32_and_say_so(level: str) -> None:
    model = nn.Linear(8, 3, device="meta")
    optimizer = sgd(model)
    with pytest.warns(amp.AmpWarning, match=f"opt level {level} is not available on meta devices .* goes on in fp32"):
        amp.initialize(model, optimizer, opt_level=level)
    loss = model(torch.ones(1, 8, device="meta")).sum()
    assert loss.dtype is torch.float32
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss
