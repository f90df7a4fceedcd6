"""Lines of the migrated copy lead to those of the user's file that they were made of."""

from __future__ import annotations

from pathlib import Path

from ampify import pipeline
from ampify.model.settings import Settings
from ampify.verify.origins import Origins, line_origins

BEFORE = """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


def migrated(tmp_path: Path) -> tuple[Origins, list[str]]:
    """The origins of a script that is migrated for this, and the lines of its migrated version."""
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "train.py").write_text(BEFORE)
    settings = Settings(root=str(new), cache=False)
    pipeline.write(pipeline.run([new], settings), settings)
    return line_origins(old, new, ["train.py", "made.py"]), (new / "train.py").read_text().splitlines()


def test_every_line_that_trains_leads_to_what_it_was(tmp_path: Path) -> None:
    origins, after = migrated(tmp_path)
    before = BEFORE.splitlines()
    assert len(after) > len(before)
    expected = {"backward()": 8, "clip_grad_norm_": 9, "optimizer.step()": 10, "zero_grad": 6, "loss = model": 7}
    for word, line in expected.items():
        (there,) = [number for number, text in enumerate(after, 1) if word in text]
        assert origins.place(f"train.py:{there}") == f"train.py:{line}", word
    inserted = [number for number, text in enumerate(after, 1) if "amp.initialize" in text]
    assert [origins.line("train.py", number) for number in inserted] == [4]


def test_what_is_no_place_in_a_changed_file_stays_as_it_is(tmp_path: Path) -> None:
    origins, after = migrated(tmp_path)
    for place in ("other.py:12", "", "train.py", f"train.py:{len(after) + 5}", "made.py:3"):
        assert origins.place(place) == place
    assert Origins().place("train.py:12") == "train.py:12"


def test_a_traceback_names_the_users_file(tmp_path: Path) -> None:
    origins, after = migrated(tmp_path)
    line = next(number for number, text in enumerate(after, 1) if "optimizer.step()" in text)
    tree, root = Path("/copies/tree"), Path("/home/project")
    text = f'  File "/copies/tree/train.py", line {line}, in <module>\n  File "/lib/torch.py", line 7, in step\n'
    expected = '  File "/home/project/train.py", line 10, in <module>\n  File "/lib/torch.py", line 7, in step\n'
    assert origins.traceback(text, tree, root) == expected
