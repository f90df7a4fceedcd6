"""The HTML report: one sound document that asks no network and runs nothing of a stranger's, and that a person can use
in a real browser, with and without a mouse, wide and narrow, light and dark."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampify.model.anchor import Anchor, line_anchor
from ampify.model.finding import Finding, Related
from ampify.model.plan import LoopSummary, Outcome, Report
from ampify.model.site import LedgerEntry, Site
from ampify.report.html import html_report
from ampify.report.html.colouring import coloured, python_spans
from ampify.report.html.comparison import Block, Line, compare
from ampify.report.html.drawing import drawings
from ampify.report.html.element import element, sentence, text
from ampify.report.html.flow import flow_of
from ampify.report.html.overview import headline
from ampify.report.links import Links
from ampify.source import decode_source
from tests.browsing import CONTRAST, Document, opened, shown
from tests.reported import MIXED, report_of, report_of_case

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def mixed(tmp_path: Path) -> Report:
    return report_of(tmp_path, MIXED)


# The document


@pytest.mark.parametrize("name", ["mixed_repository", "dcgan", "checkpoint_resume", "merge_conflict", "fgsm_attack"])
def test_a_page_is_sound_and_all_its_links_lead_somewhere(name: str) -> None:
    document = Document(html_report(report_of_case(name), Links()))
    ids = [attributes["id"] for _, attributes in document.tags if "id" in attributes]
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    targets = [attributes["href"] or "" for tag, attributes in document.tags if tag in ("a", "use")]
    assert targets
    assert {target for target in targets if target[1:] not in ids} == set()
    labelled = [a for a in document.of("svg") if a.get("aria-hidden") != "true"]
    assert all(a.get("aria-label") for a in labelled)


def test_nothing_is_fetched_and_nothing_but_our_script_may_run(mixed: Report) -> None:
    page = html_report(mixed, Links())
    document = Document(page)
    assert not [a for _, a in document.tags if "src" in a or "style" in a or any(key.startswith("on") for key in a)]
    assert document.of("link") == document.of("img") == []
    (policy,) = (a["content"] for a in document.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
        assert "url(" not in content.replace("url(#", "")
    assert "http" not in page.replace("http-equiv", "")


def test_everything_that_was_found_is_on_the_page(mixed: Report) -> None:
    page = Document(html_report(mixed, Links()))
    for finding in mixed.findings:
        assert finding.message in page.text
        assert finding.hint in page.text
    codes = Counter(a["data-code"] for tag, a in page.tags if tag == "tr" and "data-code" in a)
    assert codes == Counter(entry.code for entry in mixed.ledger)
    beside = Counter(a["data-code"] for _, a in page.tags if a.get("role") == "note")
    assert beside == Counter(finding.code for finding in mixed.findings)
    assert "1 of 3 training loops can be migrated" in page.text
    assert "Nothing was written" in page.text
    assert "AMPIFY_OPT_LEVEL=O0 python train.py" in page.text


@pytest.mark.parametrize(
    ("states", "wrote", "said"),
    [
        ((), False, "No training loop found"),
        (("right",), False, "1 training loop right already"),
        (("refused", "right"), False, "0 of 2 training loops migrated"),
        (("migrated", "right"), False, "1 of 2 training loops can be migrated"),
        (("migrated", "right"), True, "1 of 2 training loops migrated"),
        (("right", "mended"), False, "1 of 2 training loops can be mended"),
        (("right", "mended"), True, "1 of 2 training loops mended"),
        (("migrated", "mended", "right"), False, "1 of 3 training loops can be migrated, 1 mended"),
    ],
)
def test_the_headline(states: Sequence[Any], wrote: bool, said: str) -> None:
    loops = tuple(
        LoopSummary(str(n), "a.py", 1, (), (), (), None, "right" if state == "mended" else state)
        for n, state in enumerate(states)
    )
    clip = Anchor("a.py", 1, 0, 1, 1, "Call")
    ledger = tuple(
        LedgerEntry(Site("clip", clip, str(n)), "rewritten", "AMP220")
        for n, state in enumerate(states)
        if state in ("migrated", "mended")
    )
    assert headline(Report((), (), loops, ledger, wrote)) == said


@pytest.mark.parametrize(("wrote", "said"), [(False, "would be mended"), (True, "mended")])
def test_a_loop_of_torch_amp_whose_place_is_rewritten_is_mended(wrote: bool, said: str) -> None:
    loop = LoopSummary("a", "a.py", 1, (), (), (), None, "right")
    entry = LedgerEntry(Site("clip", Anchor("a.py", 1, 0, 1, 1, "Call"), "a"), "rewritten", "AMP220")
    page = html_report(Report((), (), (loop,), (entry,), wrote), Links())
    assert f">{said}<" in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def test_an_empty_run_is_a_page_too() -> None:
    page = Document(html_report(Report((), (), (), ()), Links()))
    assert "Nothing was refused, and nothing needs a judgement." in page.text
    assert "Before you merge" not in page.text


def test_a_loop_whose_refusal_is_silenced_is_left_to_a_person() -> None:
    loop = LoopSummary("a", "a.py", 3, ("m",), ("o",), (("a.py", 3),), None, "refused")
    assert "what forbids it is silenced" in Document(html_report(Report((), (), (loop,), ()), Links())).text


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> \"'`"


def test_nothing_in_a_repository_becomes_markup() -> None:
    source = f"x = 1  # {HOSTILE}\ny = '\u202e\x1b[31m'\n"
    outcome = Outcome(
        f"{HOSTILE}.py", "changed", decode_source(source.encode(), f"{HOSTILE}.py"), f"z = 2  # {HOSTILE}\n"
    )
    place = Anchor(outcome.path, 1, 0, 1, 5, "Assign")
    related = (Related(line_anchor(HOSTILE, 9), HOSTILE),)
    finding = Finding("AMP204", "closure-step", place, HOSTILE, HOSTILE, refuses=True, loop="a", related=related)
    loop = LoopSummary("a", outcome.path, 1, (HOSTILE,), (HOSTILE,), (), (outcome.path, 1), "refused")
    ledger = (LedgerEntry(Site("step", place, "a"), "refused", "AMP204"),)
    report = Report((outcome,), (finding,), (loop,), ledger)
    document = Document(html_report(report, Links("https://github.com/a/b/blob/c/", "/", "/")))
    assert len(document.of("script")) == 1
    assert document.of("img") == []
    assert "U+202E" in document.text
    assert "U+001B" in document.text
    assert "\u202e" not in document.text


def test_text_that_cannot_be_encoded_or_seen() -> None:
    assert text("a\x00b\u200bc\td") == 'a<span class="unseen">U+0000</span>b<span class="unseen">U+200B</span>c\td'
    assert sentence("set `a<b` & go") == "set <code>a&lt;b</code> &amp; go"
    assert element("a", "x", href='"&', hidden=False, open=True) == '<a href="&quot;&amp;" open>x</a>'


# Two versions side by side

LINES = st.lists(st.sampled_from(["a", "b", "  a = b", "c(d)", ""]), max_size=30)


@given(before=LINES, after=st.none() | LINES, spoken=st.sets(st.integers(1, 30), max_size=4))
@settings(max_examples=200, deadline=None)
def test_blocks_hold_all_lines_in_order(before: list[str], after: list[str] | None, spoken: set[int]) -> None:
    spoken = {line for line in spoken if line <= len(before)}
    blocks = compare(before, after, spoken)
    count_old = count_new = 0
    for block in blocks:
        for number, line in enumerate(block.old, count_old + 1):
            assert (line.number, line.text) == (number, before[number - 1])
        for number, line in enumerate(block.new, count_new + 1):
            assert after is not None
            assert (line.number, line.text) == (number, after[number - 1])
        count_old += len(block.old) + block.hidden
        count_new += len(block.new) + block.hidden
        assert block.kind != "same" or after is None or [x.text for x in block.old] == [x.text for x in block.new]
        assert (block.kind == "gap") == (block.hidden > 0)
    assert count_old == len(before)
    assert after is None or count_new == len(after)
    # What is spoken of is shown; where it is unchanged it is the first of its block.
    shown = {line.number for block in blocks for line in block.old}
    assert spoken <= shown
    firsts = {block.old[0].number for block in blocks if block.kind == "same"}
    changed = {line.number for block in blocks if block.kind == "change" for line in block.old}
    assert spoken <= firsts | changed


def test_context_and_gaps() -> None:
    before = [str(number) for number in range(1, 31)]
    after = [*before[:14], "new", *before[15:]]
    kinds = [(b.kind, len(b.old), b.hidden) for b in compare(before, after, set())]
    assert kinds == [("gap", 0, 11), ("same", 3, 0), ("change", 1, 0), ("same", 3, 0), ("gap", 0, 12)]
    # Two lines take no more room than the word that they are left out.
    assert [b.kind for b in compare(before[:6], None, {6})] == ["same", "same"]


def test_what_differs_within_a_line_is_marked() -> None:
    (block,) = compare(["    loss.backward()"], ["    with scale(loss) as scaled:", "        scaled.backward()"], set())
    assert [line.marks for line in block.old] == [((4, 8),)]
    assert [line.marks for line in block.new] == [(), ((8, 14),)]
    assert compare(["alpha beta"], ["(1, 2)"], set()) == (
        Block("change", (Line(1, "alpha beta"),), (Line(1, "(1, 2)"),)),
    )


def test_words_of_python_are_told_apart_and_marks_kept() -> None:
    lines = ["", 'def f(a=1):  # "so"', "    return f'{a} b'"]
    spans = python_spans(lines[1:])
    assert [(lines[1][a:b], kind) for a, b, kind in spans[1]] == [("def", "k"), ("1", "n"), ('# "so"', "c")]
    assert ("return", "k") in [(lines[2][a:b], kind) for a, b, kind in spans[2]]
    assert python_spans(["x = (1,", "y = 2"])[1] == ((5, 6, "n"),)  # as far as it is Python, which this does not end as
    shown = coloured(Line(1, lines[1], ((0, 5),)), spans[1])
    assert shown.startswith('<mark><span class="k">def</span></mark><mark> f</mark>(a=')
    assert Document(shown).text == lines[1]
    assert Document(coloured(Line(1, "\t  <x>"), ())).text == "\t  <x>"


def test_long_changes_are_not_searched_for_what_is_alike() -> None:
    (block,) = compare(["a b c d"] * 21, ["a b c e"] * 21, set())
    assert not any(line.marks for line in (*block.old, *block.new))


def test_a_file_that_is_no_python_is_shown_without_colours(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"train.py": MIXED["train.py"], "requirements.txt": "torch>=2.4  # for x in y\n"})
    page = html_report(report, Links())
    assert '<ins class="code">ampify&gt;=0.1</ins>' in page
    assert "# for x in y</span>" in page
    assert '<span class="c"># for' not in page


# The flow


def test_the_flow_of_a_loop_has_its_parts_in_order_with_the_worst_state() -> None:
    report = report_of_case("checkpoint_resume")
    (loop,) = report.loops
    flow = flow_of(loop, [entry for entry in report.ledger if entry.site.loop == loop.id])
    assert [(stage.title, stage.state, [line for _, line in stage.places]) for stage in flow.stages] == [
        ("model", "named", []),
        ("optimizer", "named", []),
        ("initialize", "rewritten", [26]),
        ("backward", "rewritten", [70]),
        ("clip", "absent", []),
        ("step", "right", [71]),
        ("checkpoint", "rewritten", [32, 36, 54, 82]),
    ]
    assert [line for _, line in flow.cleared] == [69]
    assert (flow.stages[flow.first].title, flow.stages[flow.last].title) == ("backward", "step")


def test_a_drawing_names_the_files_of_what_is_elsewhere() -> None:
    report = report_of_case("base_and_subclass")
    (loop,) = report.loops
    entries = [entry for entry in report.ledger if entry.site.loop == loop.id]
    assert loop.initialize is not None
    assert loop.initialize[0] != loop.path
    (across, _) = re.findall("<svg.*?</svg>", drawings(flow_of(loop, entries), lambda place: None), re.DOTALL)
    name = loop.initialize[0].rpartition("/")[2]
    assert f">{name}:{loop.initialize[1]} · " in across
    (backward,) = (entry.site.anchor for entry in entries if entry.site.kind == "backward")
    assert (f">line {backward.line}<" in across) == (backward.path == loop.path)


def test_parts_that_only_some_loops_have() -> None:
    kinds = ["wrap", "backward", "grad_read", "clip", "step"]
    entries = [
        LedgerEntry(Site(kind, Anchor("a.py", n, 0, n, 4, "Call"), "a"), "right", "")  # type: ignore[arg-type]
        for n, kind in enumerate(kinds * 5, 1)
    ]
    loop = LoopSummary("a", "a.py", 2, ("m",) * 5, (), (), ("a.py", 1), "right")
    flow = flow_of(loop, entries)
    titles = [stage.title for stage in flow.stages]
    assert titles == [
        "model",
        "parallel",
        "optimizer",
        "initialize",
        "backward",
        "gradients read",
        "clip",
        "step",
        "checkpoint",
    ]
    drawn = Document(drawings(flow, lambda place: f"#f0-{place[1]}"))
    assert drawn.text.count("next batch") == 2
    assert "lines 2, 7 +3" in drawn.text
    assert "m, m +3" in drawn.text
    addresses = [a["href"] for a in drawn.of("a")]
    assert addresses == ["#f0-1", "#f0-1", "#f0-2", "#f0-3", "#f0-4", "#f0-5"] * 2


# In a browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with loops of every state, two of which are long."""
    folder = tmp_path_factory.mktemp("page")
    long = "a_folder_whose_name_is_long/and_one_below_it/train_with_many_words_in_its_name.py"
    report = report_of(folder, {**MIXED, long: MIXED["train.py"].replace("model", "the_model_of_the_experiment")})
    cases = [report_of_case(name) for name in ("dcgan", "checkpoint_resume")]
    whole = Report(
        tuple(outcome for part in (report, *cases) for outcome in part.outcomes),
        tuple(finding for part in (report, *cases) for finding in part.findings),
        tuple(loop for part in (report, *cases) for loop in part.loops),
        tuple(entry for part in (report, *cases) for entry in part.ledger),
    )
    page = folder / "report.html"
    page.write_text(html_report(whole, Links()), encoding="utf-8")
    return page.as_uri()


@pytest.mark.parametrize("width", [390, 1440])
def test_no_window_has_to_be_scrolled_sideways(browser: Browser, address: str, width: int) -> None:
    page = opened(browser, address, viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    drawn = page.locator(".flow:visible")
    assert drawn.count() == 6
    box = drawn.first.bounding_box()
    assert box is not None
    assert (box["height"] > box["width"]) == (width == 390)
    # Sides stand beside each other only where there is room.
    change = page.locator(".block.change").first
    old, new = (change.locator(side).bounding_box() for side in (".old", ".new"))
    assert old is not None
    assert new is not None
    assert (new["x"] > old["x"]) == (width == 1440)


def test_landmarks_and_headings(browser: Browser, address: str) -> None:
    page = opened(browser, address)
    for role in ("banner", "main", "contentinfo", "search"):
        assert page.get_by_role(role).count() == 1  # type: ignore[arg-type]
    assert page.get_by_role("navigation", name="Sections").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.get_by_role("table", name="Sites of the loop at train.py:9").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(browser: Browser, address: str, scheme: Any) -> None:
    page = opened(browser, address, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) > 380) == (scheme == "light")
    assert page.evaluate(CONTRAST) == []


def test_by_keyboard_alone(browser: Browser, address: str) -> None:
    page = opened(browser, address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                """() => {
                const e = document.activeElement, ring = e.closest('.chip') ?? (e.querySelector('.box') ?? e);
                const style = getComputedStyle(ring);
                const visible = style.outlineStyle !== 'none' || style.strokeWidth === '3px';
                return [e.tagName + (e.name ? '.' + e.name : ''), visible];
            }"""
            )
        )
    assert [name for name, visible in seen if not visible] == []
    names = [name for name, _ in seen]
    assert names.count("INPUT.state") == 5
    assert {"SELECT.code", "BUTTON", "A", "a", "DIV"} <= set(names)


def test_the_filter(browser: Browser, address: str) -> None:
    page = opened(browser, address)
    everything = len(shown(page, "[data-code]"))
    for state in ("review", "rewritten", "right", "not_training"):
        page.locator(f"[name=state][value={state}]").press("Space")
    assert set(shown(page, "tr[data-code]")) == {"AMP204"}
    assert set(shown(page, "#person [data-code]")) == {"AMP003", "AMP204"}
    left = len(shown(page, "[data-code]"))
    assert page.locator("#filter output").inner_text() == f"{left} of {everything} places shown"
    assert page.locator(".loop:visible").count() == 1
    assert page.locator(".file:visible").count() == 2
    page.get_by_role("button", name="Reset").press("Enter")
    page.wait_for_function("document.querySelector('#filter output').textContent === ''")
    assert len(shown(page, "[data-code]")) == everything
    page.get_by_role("combobox", name="Rule").select_option("AMP401")
    assert set(shown(page, "[data-code]")) == {"AMP401"}
    # A section of which nothing is left goes, and comes back for a link to it.
    assert page.locator("#person").is_hidden()
    page.get_by_role("link", name="For a person").press("Enter")
    page.locator("#person").wait_for(state="visible")
    page.get_by_role("combobox", name="Rule").select_option("")
    assert len(shown(page, "[data-code]")) == everything


def test_a_link_to_a_line_opens_its_file_even_if_it_was_filtered_out(browser: Browser, address: str) -> None:
    page = opened(browser, address)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.get_by_role("combobox", name="Rule").select_option("AMP201")
    row = page.locator("tr:visible", has_text="AMP201").first
    target = row.locator("a").get_attribute("href")
    assert target is not None
    row.locator("a").press("Enter")
    line = page.locator(target)
    line.wait_for(state="visible")
    assert "backward()" in line.inner_text()
    box = line.bounding_box()
    assert box is not None
    assert 0 < box["y"] < 900


def test_parts_of_the_drawing_lead_to_their_lines(browser: Browser, address: str) -> None:
    page = opened(browser, address)
    loop = page.locator("article.loop", has_text="train.py:9").first
    loop.locator(".flow:visible a", has_text="clip").press("Enter")
    target = page.evaluate("location.hash")
    assert "clip_grad_norm_" in page.locator(target).inner_text()


def test_the_theme_can_be_chosen(browser: Browser, address: str) -> None:
    page = opened(browser, address, color_scheme="light")
    button = page.get_by_role("button", name="Theme")
    dark = []
    for _ in range(3):
        button.press("Enter")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark.append((button.inner_text(), sum(map(int, re.findall(r"\d+", background))) < 380))
    assert dark == [("Theme: light", False), ("Theme: dark", True), ("Theme: automatic", False)]


def test_without_scripts_all_is_there_but_the_filter(browser: Browser, address: str) -> None:
    page = opened(browser, address, java_script_enabled=False)
    assert page.locator("#filter").is_hidden()
    assert page.get_by_role("button").count() == 0
    assert page.get_by_role("heading", level=1).is_visible()
    assert page.locator(".block.change").first.is_visible()


def test_many_of_one_rule_do_not_hide_the_others(tmp_path: Path, browser: Browser) -> None:
    fit = MIXED["fit.py"]
    files = {f"fit_{number:02}.py": fit for number in range(20)}
    report = report_of(tmp_path, {**files, "torn.py": MIXED["torn.py"]})
    page = tmp_path / "report.html"
    page.write_text(html_report(report, Links()), encoding="utf-8")
    window = opened(browser, page.as_uri())
    seen = Counter(shown(window, "#person [data-code]"))
    assert seen == {"AMP204": 6, "AMP003": 1}
    more = window.locator("#person details")
    assert more.locator("summary").inner_text().split() == ["14", "more", "of", "AMP204", "closure-step"]
    more.locator("summary").press("Enter")
    assert Counter(shown(window, "#person [data-code]")) == {"AMP204": 20, "AMP003": 1}
    # Each file once, in the order in which the files are.
    places = window.locator("#person .where").all_inner_texts()
    assert [place.partition(":")[0] for place in places if place.startswith("fit")] == sorted(files)
    window.get_by_role("searchbox", name="Text").fill("fit_07")
    assert window.locator("#person .where:visible").all_inner_texts() == ["fit_07.py:14"]
