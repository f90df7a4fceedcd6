"""The HTML report of a notebook: places are cells and lines in them, and the code is what is in the cells."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.report.html import html_report
from ampify.report.html.sections import sections_of
from ampify.report.links import Links
from tests.browsing import Document
from tests.reported import report_of

IMPORTS = "%matplotlib inline\nimport torch\nfrom torch import nn"
MODEL = "model = nn.Linear(4, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
LOOP = """\
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()"""
# The cells by their numbers; that of number 1 is prose, and those between are about something else.
CELLS = ["# Training", IMPORTS, "print(1)", "", "print(2)\nprint(3)", MODEL, LOOP, "%time print(loss)"]


def notebook(*cells: str) -> str:
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code" if n else "markdown", "metadata": {}, "source": text}
                | ({"outputs": [], "execution_count": None} if n else {})
                for n, text in enumerate(cells)
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return report_of(tmp_path, {"train.ipynb": notebook(*CELLS), "requirements.txt": "torch\n"})


def test_the_page_names_cells_and_shows_what_is_in_them(report: Report) -> None:
    page = html_report(report, Links())
    document = Document(page)
    assert "# notebook" not in document.text
    assert "%matplotlib inline" in document.text
    assert re.findall(r'<h4 class="cell">(.*?)</h4>', page) == ["Cell 2", "Cells 3 to 5", "Cell 6", "Cell 7", "Cell 8"]
    assert not re.search(r"train\.ipynb:\d", document.text)
    (caption,) = re.findall(r'<caption class="spoken">(.*?)</caption>', page)
    assert caption == "Sites of the loop at train.ipynb:cell 7:4"
    rows = re.findall(r'<td class="at">.*?href="#(.*?)".*?<code>(.*?)</code>', page)
    assert [label for _, label in rows] == ["cell 7:2", "cell 7:4", "cell 7:5"]
    # The line that a link leads to bears the number that the link names, and the code that is there.
    lines = {
        name: (number, unescape(re.sub("<.*?>", "", shown)))
        for name, number, shown in re.findall(r'id="(f\d+-\d+)"><span class="number">(\d+)</span>(.*?)</div>', page)
    }
    assert [lines[name] for name, _ in rows] == [(str(number), LOOP.splitlines()[number - 1]) for number in (2, 4, 5)]
    assert 'aria-label="AMP201 at cell 7, line 4"' in page
    drawn = re.findall('<svg class="flow.*?</svg>', page, re.DOTALL)
    assert len(drawn) == 2
    for drawing in drawn:
        said = Document(drawing).text
        assert "cell 7:4" in said
        assert "zero_grad cell 7:2" in said
        assert "line" not in said


def test_the_lines_that_change_are_counted_without_those_between_cells(report: Report) -> None:
    (outcome,) = (outcome for outcome in report.outcomes if outcome.path == "train.ipynb")
    assert outcome.after is not None
    page = html_report(report, Links())
    # An import, amp.initialize, and the two lines for one of the scaled backward.
    assert "4 lines added, 1 line removed" in page


def test_cells_that_are_left_out_are_counted(report: Report) -> None:
    (outcome,) = (outcome for outcome in report.outcomes if outcome.path == "train.ipynb")
    hidden = {s.title: sum(block.hidden for block in s.blocks) for s in sections_of(outcome, set()) if s.silent}
    assert hidden == {"Cells 3 to 5": 3, "Cell 8": 1}


def test_the_commands_run_a_notebook(report: Report) -> None:
    assert "AMPIFY_OPT_LEVEL=O0 jupyter nbconvert --to notebook --execute --stdout train.ipynb" in html_report(
        report, Links()
    )
