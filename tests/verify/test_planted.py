"""Faults planted into migrated scripts: each gets the right verdict, and its place."""

from __future__ import annotations

from pathlib import Path

from tests.verify.planted import line_of, plant, verified

SCALED = """\
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
"""
CLIP = "        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e-6)\n"


def test_missing_scaling(tmp_path: Path) -> None:
    script = plant(tmp_path, "sgd", SCALED, "        loss.backward()\n")
    verdict = verified(tmp_path, script, dtype="float16", base="HEAD", seeds=0).verdict
    assert verdict.judgement == "fails", verdict
    assert verdict.rule == "AMP201"
    assert verdict.places == (line_of(tmp_path, "sgd", "loss.backward()"),)


def test_clip_before_unscale(tmp_path: Path) -> None:
    script = plant(tmp_path, "sgd", SCALED + CLIP, SCALED + "    " + CLIP)
    verdict = verified(tmp_path, script, dtype="float16", base="HEAD", seeds=0).verdict
    assert verdict.judgement == "fails", verdict
    assert verdict.rule == "AMP202"
    assert verdict.places == (line_of(tmp_path, "sgd", "clip_grad_norm_"),)


def test_wrong_optimizer(tmp_path: Path) -> None:
    script = plant(tmp_path, "gan", "(loss_g, optimizer_g,", "(loss_g, optimizer_d,")
    verdict = verified(tmp_path, script, dtype="float16", base="HEAD", seeds=0).verdict
    assert verdict.judgement == "fails", verdict
    assert verdict.rule == "AMP201"
    assert verdict.places == (line_of(tmp_path, "gan", "amp.scale_loss(loss_g"),)


def test_loss_that_overflows(tmp_path: Path) -> None:
    script = plant(tmp_path, "energy", 'opt_level="O1"', 'opt_level="O1", verbosity=0')
    verification = verified(tmp_path, script, dtype="float16", base="HEAD", seeds=0)
    verdict = verification.verdict
    assert verdict.judgement == "fails", verdict
    assert "not finite from step 1 on" in verdict.reason
    assert verdict.places == (line_of(tmp_path, "energy", "scaled_loss.backward()"),)


def test_weights_not_restored(tmp_path: Path) -> None:
    script = plant(tmp_path, "restore", 'model.load_state_dict(torch.load("best.pt"))\n', "")
    verdict = verified(tmp_path, script, base="HEAD").verdict
    assert verdict.judgement == "fails", verdict
    assert "at O0" in verdict.reason
    # Ten steps, five on noise; the next one begins from other weights.
    assert "step 16: the loss" in verdict.reason


def test_learning_rate(tmp_path: Path) -> None:
    script = plant(tmp_path, "sgd", "lr=3e5", "lr=3.3e5")
    verdict = verified(tmp_path, script, base="HEAD").verdict
    assert verdict.judgement == "fails", verdict
    assert "step 1: the learning rate of SGD is 330000 instead of 300000" in verdict.reason
    assert verdict.places[-1] == line_of(tmp_path, "sgd", "optimizer.step()")
