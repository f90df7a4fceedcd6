"""Binary cross entropy of probabilities is known by whatever name it is called: autocast on CUDA refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings, Target
from ampify.pipeline import run

HEAD = """\
import functools
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = torch.rand(4, 8, device=device), torch.ones(4, 1, device=device)
"""
NET = """\
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).to(device)
"""
LOOP = """\
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
GIVEN = """\
class Net(nn.Module):
    def __init__(self{parameter}):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        {field}

    def forward(self, x, y):
        return self.criterion(torch.sigmoid(self.layer(x)), y)


{made}
"""
DERIVED = """\
class Weighted(nn.BCELoss):
    def forward(self, p, t):
        return super().forward(p, t) * 2


weighted = Weighted()
"""
STATIC = """\
class Losses:
    bce = staticmethod(lambda p, t: F.binary_cross_entropy(p, t, reduction="sum"))


"""
CASES = {
    "partial": ("bce = functools.partial(F.binary_cross_entropy, reduction='mean')\n" + NET, "bce(net(x), y)"),
    "lambda": ("bce = lambda p, t: F.binary_cross_entropy(p, t)\n" + NET, "bce(net(x), y)"),
    "torch's own": (NET, "torch.binary_cross_entropy(net(x), y, None, 1)"),
    "derived": (DERIVED + NET, "weighted(net(x), y)"),
    "static": (STATIC + NET, "Losses.bce(net(x), y)"),
    "given to a model": (
        GIVEN.format(
            parameter=", criterion", field="self.criterion = criterion", made="net = Net(nn.BCELoss()).to(device)"
        ),
        "net(x, y)",
    ),
    "set on a model later": (
        GIVEN.format(parameter="", field="", made="net = Net().to(device)\nnet.criterion = nn.BCELoss()"),
        "net(x, y)",
    ),
}


def check(folder: Path, case: str, target: Target) -> tuple[Report, str | None]:
    made, loss = CASES[case]
    (folder / "train.py").write_text(HEAD + made + LOOP.format(loss=loss), encoding="utf-8")
    report = run([folder], Settings(root=str(folder), target=target))
    return report, report.outcomes[0].after


@pytest.mark.parametrize("case", CASES)
def test_the_runtime_computes_the_loss_in_float32_and_it_is_told(case: str, tmp_path: Path) -> None:
    report, after = check(tmp_path, case, "runtime")
    assert {"AMP301", "AMP302"} & {f.code for f in report.findings}
    assert after is not None
    assert "amp.scale_loss" in after


@pytest.mark.parametrize("case", CASES)
def test_native_keeps_the_loss_out_of_autocast(case: str, tmp_path: Path) -> None:
    report, after = check(tmp_path, case, "native")
    assert "AMP307" in {f.code for f in report.findings}
    assert after is not None
    # The call alone, or its whole statement, with what goes into it in float32.
    assert after.count("enabled=False") == 1
    assert after.count(".float()") == 1


def test_a_loss_that_derives_and_computes_by_itself_is_none(tmp_path: Path) -> None:
    own = DERIVED.replace("super().forward(p, t) * 2", "(p - t).pow(2).mean()")
    text = HEAD + own + NET + LOOP.format(loss="weighted(net(x), y)")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    assert "AMP307" not in {f.code for f in report.findings}
    assert report.outcomes[0].after is not None


def test_probabilities_that_were_filled_in_before_are_refused(tmp_path: Path) -> None:
    text = HEAD + NET + LOOP.format(loss="functools.partial(F.binary_cross_entropy, net(x))(y)")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    report = run([tmp_path], Settings(root=str(tmp_path), target="native"))
    assert report.outcomes[0].after is None
    assert {f.code for f in report.findings if f.refuses} == {"AMP230"}
