"""The page of a verification, in a real browser: nothing is asked of the network, and nothing runs off the side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ampify.model.settings import Settings
from ampify.verify.command import Command
from ampify.verify.copies import Copied
from ampify.verify.judging import Compared, judge_level
from ampify.verify.migrating import Migration
from ampify.verify.page.chart import MOST_POINTS, Line, chart
from ampify.verify.reports import written
from ampify.verify.request import Request
from ampify.verify.session import Verification
from tests.verify.test_judging import compared, falling, process, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def verification(level_factor: float = 1.2) -> Verification:
    """One of made-up curves, with a name in it that would be markup if it were let."""
    original = replace(run(process(falling(count=900))), name="original")
    level = replace(run(process(falling(level_factor, count=900))), name="level")
    seed = replace(run(process(falling(1.05, count=900))), name="seed 1")
    against: Compared = compared(original, level, seed)
    request = Request(Command("train.py", ("--name", "<b>&")), Path(), Path(), Settings())
    migration = Migration(("train.py",), 1, ("other.py:3: AMP204 [closure-step] a step with a closure",))
    verdict = judge_level(original, level, against)
    return Verification(
        request, request.command, "bfloat16", verdict, migration, Copied(1, 0, ()), (original, level, seed), against
    )


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    line = Line("original", range(3001), [float(index) for index in range(3001)])
    drawn = chart([line], "Loss")
    points = drawn.split('points="')[1].split('"')[0].split()
    assert len(points) <= MOST_POINTS + 1
    assert points[-1].startswith("870.0,")


def test_values_that_are_not_finite_are_left_out() -> None:
    drawn = chart([Line("original", range(4), [1.0, float("nan"), float("inf"), 2.0])], "Loss")
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert chart([Line("original", range(1), [float("nan")])], "Loss") == ""


def test_what_a_script_is_called_is_no_markup() -> None:
    for form in ("html", "markdown"):
        assert "<b>" not in written(verification(), form).replace("`python train.py --name '<b>&'`", "")


@pytest.mark.parametrize(("width", "shown"), [(1280, "wide"), (390, "narrow")])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_at_two_widths(browser: Browser, tmp_path: Path, width: int, shown: str, scheme: Any) -> None:
    page_file = tmp_path / "v.html"
    page_file.write_text(written(verification(), "html"), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(page_file.as_uri())
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").inner_text() == "It drifts from the original"
    first = page.locator("figure").first
    assert first.locator(f"svg.{shown}").is_visible()
    assert first.locator("svg.chart:visible").count() == 1
    assert first.locator(f"svg.{shown} .mark").count() == 1
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 27)"
    assert dark == (scheme == "dark")
    context.close()
