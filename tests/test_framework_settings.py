"""Settings of precision that frameworks have: where one is added, left alone, replaced, or left to a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.edit import Applicability
from ampify.model.settings import Settings
from ampify.pipeline import run

LIGHTNING = "import lightning\n\n{}\n"


def migrated(
    folder: Path, text: str, level: str = "O1", *, unsafe: bool = True
) -> tuple[str, list[tuple[str, Applicability]]]:
    """The text after a run, and the codes of the findings with their applicability."""
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    report = run([script], Settings(root=str(folder), opt_level=level, unsafe=unsafe))
    outcome = next(o for o in report.outcomes if o.path.endswith("train.py"))
    found = [(f.code, f.applicability) for f in report.findings if f.code[:4] == "AMP6"]
    return text if outcome.after is None else outcome.after, found


@pytest.mark.parametrize(
    ("imports", "call", "level", "after"),
    [
        ("import lightning", "lightning.Trainer()", "O1", 'lightning.Trainer(precision="16-mixed")'),
        ("import lightning", "lightning.Fabric()", "O4", 'lightning.Fabric(precision="bf16-mixed")'),
        ("from lightning.pytorch import Trainer as T", "T(devices=2)", "O1", 'T(devices=2, precision="16-mixed")'),
        ("import pytorch_lightning as pl", "pl.Trainer(gpus=1)", "O1", "pl.Trainer(gpus=1, precision=16)"),
        ("import pytorch_lightning as pl", "pl.Trainer(gpus=1)", "O4", 'pl.Trainer(gpus=1, precision="bf16")'),
        ("import lightning", 'lightning.Trainer(precision="32")', "O1", 'lightning.Trainer(precision="32")'),
        ("import lightning", "lightning.Trainer()", "O2", "lightning.Trainer()"),
        ("import lightning", "lightning.Trainer()", "O0", "lightning.Trainer()"),
        ("import lightning", "lightning.Trainer(**options)", "O1", "lightning.Trainer(**options)"),
        ("from mine import Trainer", "Trainer()", "O1", "Trainer()"),
        ("from accelerate import Accelerator", "Accelerator()", "O4", 'Accelerator(mixed_precision="bf16")'),
        ("from accelerate import Accelerator", "Accelerator(fp16=True)", "O1", 'Accelerator(mixed_precision="fp16")'),
        ("import transformers", "transformers.TrainingArguments('a')", "O4", "transformers.TrainingArguments('a', bf16=True)"),
        ("import transformers", "transformers.TrainingArguments('a', fp16=on)", "O1", "transformers.TrainingArguments('a', fp16=on)"),
        ("from fastai.vision.all import *", "vision_learner(data)", "O1", "vision_learner(data).to_fp16()"),
        ("from fastai.vision.all import *", "vision_learner(data).to_fp16()", "O1", "vision_learner(data).to_fp16()"),
    ],
)  # fmt: skip
def test_a_setting_is_added_where_there_is_none(
    imports: str, call: str, level: str, after: str, tmp_path: Path
) -> None:
    before = f"{imports}\n\ntrainer = {call}\n"
    assert migrated(tmp_path, before, level)[0] == f"{imports}\n\ntrainer = {after}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LIGHTNING.format("lightning.Trainer()"), [("AMP611", "safe")]),
        (LIGHTNING.format('lightning.Trainer(accelerator="cpu")'), []),
        (LIGHTNING.format("lightning.Trainer(accelerator=chosen)"), [("AMP611", "unsafe")]),
        (LIGHTNING.format("lightning.Trainer(plugins=[half])"), [("AMP611", "none")]),
        (LIGHTNING.format("lightning.Trainer()\nprint(weight.grad)"), [("AMP611", "unsafe")]),
        ("import pytorch_lightning\n\npytorch_lightning.Trainer()\n", [("AMP611", "unsafe")]),
        ("import pytorch_lightning\n\npytorch_lightning.Trainer(gpus=1)\n", [("AMP611", "safe")]),
        (LIGHTNING.format("lightning.Trainer(**options)"), [("AMP611", "none")]),
        (LIGHTNING.format('lightning.Trainer(precision="16-mixed")'), []),
    ],
)
def test_a_setting_is_safe_where_nothing_works_on_gradients_by_hand(
    text: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert migrated(tmp_path, text)[1] == expected


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ('Trainer(amp_backend="apex", amp_level="O2", precision=16)', "Trainer(precision=16)"),
        ('Trainer(1, amp_backend="apex", precision=32)', "Trainer(1, precision=32)"),
        ("Trainer(gpus=1, use_amp=True)", "Trainer(gpus=1, precision=16)"),
        ('Trainer(\n    precision=16,\n    amp_level="O2",\n)', "Trainer(\n    precision=16,\n)"),
        ("Trainer(precision=16, amp_level=level)", "Trainer(precision=16, amp_level=level)"),
        ('Trainer(\n    precision=16,  # half\n    amp_level="O2",\n)', None),
    ],
)
def test_an_obsolete_setting_goes_where_nothing_else_goes_with_it(call: str, after: str | None, tmp_path: Path) -> None:
    before = f"from pytorch_lightning import Trainer\n\ntrainer = {call}\n"
    text, found = migrated(tmp_path, before)
    assert text == f"from pytorch_lightning import Trainer\n\ntrainer = {after or call}\n"
    assert "AMP617" in {code for code, _ in found}


def test_a_configuration_that_is_assigned_twice_is_left_alone(tmp_path: Path) -> None:
    lines = ["import deepspeed", "ds = {'a': 1}", "ds = {'b': 1}", "deepspeed.initialize(model=model, config=ds)"]
    text = "\n".join(lines) + "\n"
    assert migrated(tmp_path, text)[0] == text
    said = text.replace("{'b': 1}", "{'b': 1, 'bf16': on}").replace("ds = {'a': 1}\n", "")
    assert migrated(tmp_path, said)[0] == said


@pytest.mark.parametrize(
    "text",
    [
        "ds = {'a': 1}\nds['bf16'] = {'enabled': True}\ndeepspeed.initialize(model=model, config=ds)\n",
        "def start(ds):\n    deepspeed.initialize(model=model, config=ds)\n\n\nds = {'a': 1}\nstart(ds)\n",
    ],
)
def test_a_configuration_that_may_be_another_by_then_is_left_alone(text: str, tmp_path: Path) -> None:
    assert migrated(tmp_path, f"import deepspeed\n\n{text}")[0] == f"import deepspeed\n\n{text}"
