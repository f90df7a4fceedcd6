"""`amp.master_params` outside of clips under the native target: what reads it trains, and prints, as on the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_apex_to_native import PLAIN, forced, migrated, printed

CLIP = "    torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1)\n"
STEP = "    optimizer.step()\n"
HEAD = "from apex import amp\n"
GROUPS = 'p for group in optimizer.param_groups for p in group["params"]'
# What is done with gradients or weights, where the clip stood; what is to be in the migrated script.
USES = {
    "norm in a loop": (
        "    total = 0.0\n    for p in amp.master_params(optimizer):\n        total += p.grad.norm().item() ** 2\n"
        "    print(total)\n",
        f"    scaler.unscale_(optimizer)\n    for p in [{GROUPS}]:\n",
    ),
    "norm in one expression": (
        "    print(max(p.grad.abs().max().item() for p in amp.master_params(optimizer)))\n",
        f"    scaler.unscale_(optimizer)\n    print(max(p.grad.abs().max().item() for p in [{GROUPS}]))\n",
    ),
    "kept, clipped and looked at": (
        "    params = list(amp.master_params(optimizer))\n    torch.nn.utils.clip_grad_norm_(params, 0.05)\n"
        "    print(sum(p.grad.pow(2).sum().item() for p in params))\n",
        f"    params = list(({GROUPS}))\n    scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_norm_(params, 0.05)\n",
    ),
    "clipped under a name": (
        "    params = amp.master_params(optimizer)\n    torch.nn.utils.clip_grad_norm_(params, 0.05)\n",
        f"    params = ({GROUPS})\n    scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_norm_(params, 0.05)\n",
    ),
    "in a function": (
        "    print(norm_of(amp.master_params(optimizer)))\n",
        f"    scaler.unscale_(optimizer)\n    print(norm_of(({GROUPS})))\n",
    ),
    "bounded by hand": (
        "    for p in amp.master_params(optimizer):\n        p.grad.data.clamp_(-0.001, 0.001)\n",
        f"    scaler.unscale_(optimizer)\n    for p in [{GROUPS}]:\n",
    ),
    "bounded by torch": (
        "    torch.nn.utils.clip_grad_value_(amp.master_params(optimizer), 0.001)\n",
        "    scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_value_(model.parameters(), 0.001)\n",
    ),
    "averaged": (
        f"{STEP}    with torch.no_grad():\n        for mean, p in zip(means, amp.master_params(optimizer)):\n"
        "            mean.mul_(0.9).add_(p, alpha=0.1)\n    print(means[0].sum().item())\n    continue\n",
        f"    scaler.update()\n    with torch.no_grad():\n        for mean, p in zip(means, ({GROUPS})):\n",
    ),
}
FUNCTION = "def norm_of(params):\n    return sum(p.grad.pow(2).sum().item() for p in params)\n\n\n"


def script(use: str) -> str:
    """The plain script with another use of master parameters in place of its clip."""
    text = PLAIN.replace(CLIP, use).replace(HEAD, f"{HEAD}\n\n{FUNCTION}" if "norm_of" in use else HEAD)
    means = "means = [p.detach().float().clone() for p in model.parameters()]\n"
    return text.replace("for step in", f"{means}for step in") if "means" in use else text


@pytest.mark.parametrize("name", USES)
def test_what_reads_master_parameters_reads_the_optimizers(name: str, tmp_path: Path) -> None:
    use, expected = USES[name]
    text = script(use)
    after, report = migrated(text, tmp_path / "native")
    assert [loop.state for loop in report.loops] == ["migrated"], [f.message for f in report.findings]
    assert "amp.master_params" not in after
    assert expected in after
    if "unscale_" not in expected:
        assert "unscale_" not in after
    native = printed(forced(after), tmp_path / "a")
    assert native == printed(text.replace("apex", "ampify_runtime"), tmp_path / "b")
    assert migrated(after, tmp_path / "again")[0] == after


@pytest.mark.parametrize(
    "use",
    [
        "    print(monitor.norm(amp.master_params(optimizer)))\n",
        "    params = list(amp.master_params(optimizer))\n    monitor.look(params)\n",
        "    monitor.params = amp.master_params(optimizer)\n",
        "    print(norm_of(amp.master_params(optimizer)))\n",
        "    look = lambda: [p.grad for p in params]\n    params = list(amp.master_params(optimizer))\n    print(look())\n",
    ],
)
def test_what_goes_out_of_sight_keeps_the_loop_on_apex(use: str, tmp_path: Path) -> None:
    """A function that is not there to read may look at gradients, and a scaler would have them scaled."""
    text = PLAIN.replace(CLIP, use).replace(HEAD, f"{HEAD}import monitor\n")
    if "norm_of" in use:
        text = text.replace(
            "import monitor\n", "import monitor\n\n\ndef norm_of(params):\n    return monitor.norm(params)\n\n\n"
        )
    after, report = migrated(text, tmp_path / "native")
    assert after == text
    assert [loop.state for loop in report.loops] == ["refused"]
    (told,) = {f.message for f in report.findings if f.code == "AMP513" and "cannot be followed" in f.message}
    assert "amp.master_params" in told
