"""The page of many repositories: sound, without network, and of use in a real browser with hundreds of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ampify.bulk.page import page
from ampify.bulk.sources import Source
from ampify.bulk.state import State
from ampify.bulk.summary import Summary
from tests.browsing import CONTRAST, Document, opened, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MANY = 300
HOST = "https://git.example.org/a-group-with-a-long-name"


def state(source: Source, status: str, **facts: Any) -> State:
    loops = {"migrated": 0, "right": 0, "refused": 0, **facts.pop("loops", {})}
    counts = {"loops": loops, "sites": {"rewritten": 2, "refused": 1}}
    return State(source.shown, source.digest, "", "", status, counts=counts, **facts)  # type: ignore[arg-type]


def summary_of(count: int = 1) -> Summary:
    """Repositories of every kind, and `count` that are migrated."""
    sources = [Source(f"{HOST}/{name}") for name in ("hard", "partly", "right", "plain", "renamed", "broken", "<b>&")]
    hard, partly, right, plain, renamed, broken, strange = sources
    rows: list[tuple[Source, State | None]] = [
        (hard, state(hard, "unchanged", loops={"refused": 2}, refusals={"AMP204": ("closure-step", 2)})),
        (partly, state(partly, "migrated", loops={"migrated": 1, "refused": 1}, refusals={"AMP102": ("n", 1)})),
        (right, state(right, "unchanged", loops={"right": 1})),
        (plain, state(plain, "unchanged", refusals={"AMP601": ("lightning-loop", 1), "AMP611": ("l", 12)})),
        (renamed, state(renamed, "migrated", commit="b" * 40)),
        (broken, state(broken, "failed", reason="cannot be cloned: <no> such host", internal=True)),
        (strange, None),
    ]
    for number in range(count):
        source = Source(f"{HOST}/project-{number}", "feature/amp" if number == 0 else "")
        rows.append((source, state(source, "migrated", loops={"migrated": 1}, commit="a" * 40)))
    return Summary(tuple(rows))


def test_the_page_is_sound_and_tells_of_every_repository() -> None:
    summary = summary_of()
    document = Document(page(summary))
    assert not [a for _, a in document.tags if "src" in a or "style" in a or any(key.startswith("on") for key in a)]
    assert "2 of 6 training loops migrated" in document.text
    assert "Of the repositories, 3 changed, 3 unchanged, 1 failed, 1 not reached." in document.text
    assert "cannot be cloned: <no> such host" in document.text
    assert "project-0@feature/amp" in document.text
    assert "<b>&" in document.text
    rows = [a for a in document.of("tr") if "data-state" in a]
    assert [a["data-state"] for a in rows] == [
        "refused", "partly", "right", "nothing", "other", "failed", "not_reached", "migrated",
    ]  # fmt: skip
    addresses = {a["href"] for a in document.of("a") if not (a["href"] or "").startswith("#")}
    reported = [source.name for source, done in summary.rows if done and done.status != "failed"]
    (broken,) = (source.name for source, done in summary.rows if done and done.status == "failed")
    assert addresses == {
        f"{broken}/log.txt",
        *(f"{name}/{report}" for name in reported for report in ("out.html", "pr.md", "report.json")),
    }


def test_no_repository_at_all_is_a_page_too() -> None:
    assert "0 of 0 training loops migrated" in Document(page(Summary(()))).text


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("bulk") / "index.html"
    path.write_text(page(summary_of(MANY)), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_at_both_widths(browser: Browser, address: str, width: int, scheme: Any) -> None:
    window = opened(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert window.evaluate("document.documentElement.scrollWidth") == width
    assert window.evaluate(CONTRAST) == []


def test_the_filter_by_what_became_of_it_by_rule_and_by_text(browser: Browser, address: str) -> None:
    window = opened(browser, address)
    told = window.locator("#filter output")
    everything = MANY + 7
    assert len(shown(window, "tr[data-code]")) == everything
    window.locator("[name=state][value=migrated]").press("Space")
    assert told.inner_text() == f"7 of {everything} repositories shown"
    window.get_by_role("button", name="Reset").press("Enter")
    window.wait_for_function("document.querySelector('#filter output').textContent === ''")
    # One rule of several that refuse.
    window.get_by_role("combobox", name="Rule").select_option("AMP611")
    assert shown(window, "tr[data-code]") == ["AMP601 AMP611"]
    window.get_by_role("combobox", name="Rule").select_option("")
    window.get_by_role("searchbox", name="Text").fill("PROJECT-29")
    # 29, and 290 to 299.
    assert told.inner_text() == f"11 of {everything} repositories shown"


def test_a_repository_is_opened_without_a_mouse(browser: Browser, address: str) -> None:
    window = opened(browser, address)
    window.get_by_role("searchbox", name="Text").fill("renamed")
    window.get_by_role("searchbox", name="Text").press("Tab")
    window.keyboard.press("Tab")
    assert window.evaluate("document.activeElement.getAttribute('href')").endswith("/out.html")
    assert window.evaluate("document.activeElement.textContent") == "renamed"
