"""Long lists of numbers are blanked for the stages, and come out of a run as they went in."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
from pathlib import Path

import pytest

from ampify.model.settings import Settings
from ampify.pipeline import run, run_text
from ampify.pipeline.thinning import Thinned, thin_sources
from ampify.source import decode_source

TRAINING = """import torch
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
{table}
for x in torch.ones(4, 8, 4):
    opt.zero_grad()
    loss = model(x).sum()
    loss.backward()
    opt.step()
print(len(TABLE))
"""


def numbers(count: int, seed: int = 0) -> list[str]:
    source = random.Random(seed)
    kinds = (lambda: f"{source.random():.6f}", lambda: str(source.randrange(1000)), lambda: f"-{source.random():.2e}")
    return [source.choice(kinds)() for _ in range(count)]


def rows(items: list[str], width: int, end: str = "\n") -> str:
    return ("," + end + "    ").join(", ".join(items[i : i + width]) for i in range(0, len(items), width))


def flat(end: str = "\n") -> str:
    return f"TABLE = [{end}    {rows(numbers(20_000), 10, end)},{end}]"


def nested() -> str:
    items = numbers(20_000)
    return "TABLE = [\n" + "".join(f"    [{', '.join(items[i : i + 5])}],\n" for i in range(0, len(items), 5)) + "]"


def in_one_line() -> str:
    return f"TABLE = ({', '.join(numbers(20_000))})"


def narrow() -> str:
    return "TABLE = [\n" + "".join(f"{n % 10},\n" for n in range(60_000)) + "]"


def several() -> str:
    return f"{in_one_line()}\nOTHER = {nested()}\nSAME = {in_one_line()}"


TABLES = {"flat": flat(), "nested": nested(), "one line": in_one_line(), "narrow": narrow(), "several": several()}


def thinned(text: str) -> Thinned:
    return thin_sources({"train.py": decode_source(text.encode(), "train.py")})["train.py"]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_places_stay_and_the_text_comes_back(table: str) -> None:
    text = TRAINING.format(table=table)
    thin = thinned(text)
    assert [len(line) for line in thin.after.text.splitlines()] == [len(line) for line in text.splitlines()]
    assert len(list(ast.walk(ast.parse(thin.after.text)))) < 500
    assert thin.restored(thin.after.text) == text
    assert thin.restored("# first\n" + thin.after.text + "# last\n") == "# first\n" + text + "# last\n"


def test_an_edit_in_a_list_is_noticed() -> None:
    thin = thinned(TRAINING.format(table=flat()))
    blank = thin.left[0]
    assert thin.restored(thin.after.text.replace(blank, blank[:100])) is None


def test_a_list_that_stands_twice_is_told_apart_by_its_order() -> None:
    text = TRAINING.format(table=f"{in_one_line()}\nAGAIN = {in_one_line().replace('0', '1')}")
    assert thinned(text).restored(thinned(text).after.text) == text


@pytest.mark.parametrize(
    "table",
    [
        "TABLE = [" + "1, 2 3, " * 20_000 + "]",
        "TABLE = [" + "007, " * 30_000 + "]",
        "TABLE = [" + "[1, 2, " * 20_000 + "]",
    ],
    ids=["no comma", "old octal", "unclosed"],
)
def test_what_is_no_python_is_left_as_it_is(table: str) -> None:
    source = decode_source(TRAINING.format(table=table).encode(), "train.py")
    assert thin_sources({"train.py": source}) == {}


def test_short_lists_and_text_stay() -> None:
    filler = "# a comment of some length, with 1, 2, 3 in it\n" * 3_000
    source = decode_source(TRAINING.format(table=filler + "TABLE = [1, 2, 3]").encode(), "train.py")
    assert thin_sources({"train.py": source}) == {}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_run_changes_what_it_changes_beside_a_short_list(end: str) -> None:
    settings = Settings()
    long = TRAINING.replace("\n", end).format(table=flat(end))
    short = TRAINING.replace("\n", end).format(table=f"TABLE = [{end}    1,{end}]")
    found, wanted = (run_text(text.encode(), settings).outcomes[0] for text in (long, short))
    assert found.before is not None
    assert found.before.text == long
    assert found.after is not None
    assert wanted.after is not None
    assert found.after == wanted.after.replace(f"TABLE = [{end}    1,{end}]", flat(end))


def test_a_syntax_error_behind_a_long_list_has_its_own_place() -> None:
    report = run_text((TRAINING.format(table=flat()) + "def (:\n").encode(), Settings())
    line = TRAINING.format(table=flat()).count("\n") + 1
    assert [(finding.code, finding.anchor.line) for finding in report.findings] == [("AMP003", line)]


def test_what_is_written_has_the_whole_list(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(table=nested()))
    report = run([script], replace(Settings(), root=str(tmp_path)), writing=True)
    after = next(outcome.after for outcome in report.outcomes if outcome.path.endswith("train.py"))
    assert after is not None
    assert nested() in after
    assert "amp.scale_loss(loss, opt)" in after
