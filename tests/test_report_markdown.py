"""The report for a pull request: says what a reviewer needs, worst first, fits GitHub, and renders as it means."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from markdown_it import MarkdownIt

from ampify.model.anchor import Anchor, line_anchor
from ampify.model.finding import Finding, Related
from ampify.model.plan import LoopSummary, Report
from ampify.model.site import LedgerEntry, Site
from ampify.report.advice import scripts_of
from ampify.report.budget import Part, fitted
from ampify.report.links import Links
from ampify.report.markdown import LIMIT, changed_lines, markdown_report
from ampify.report.markup import code, inline, row
from ampify.report.repository import find_links, remote_base
from tests.reported import MIXED, report_of, report_of_case

BASE = Links("https://github.com/acme/models/blob/abc123/", "/repo", "/repo")


def html(text: str) -> str:
    """The document as a renderer with GitHub's tables shows it."""
    return MarkdownIt("commonmark").enable("table").render(text)


def test_what_a_reviewer_needs_in_order(tmp_path: Path) -> None:
    text = markdown_report(report_of(tmp_path, MIXED), BASE)
    titles = re.findall(r"^## (\w[\w ,]*\w)", text, re.MULTILINE)
    assert titles == [
        "For a person",
        "What would be done, and why",
        "Training loops",
        "Files",
        "Risk",
        "Test plan",
        "Verify",
        "Undo",
    ]
    person = text[text.index("## For a person") : text.index("## What would")]
    assert re.findall(r"\*\*(AMP\d+)\*\*", person) == ["AMP003", "AMP204", "AMP110"]
    assert "left as it was in all its files" in text
    link = "https://github.com/acme/models/blob/abc123/train.py#L9"
    assert f"| [9]({link}) | backward | **rewritten** | AMP201 | `loss.backward()` |" in text
    assert "| **refused** | AMP204 | `optimizer.step(closure)` |" in text
    assert "Trains `model` with `optimizer`. `amp.initialize` follows [`train.py:5`]" in text
    assert "| AMP201 `unscaled-backward` | 1 | A backward that feeds an optimizer" in text
    assert "| [`train.py`](https://github.com/acme/models/blob/abc123/train.py#L1) | +6 -3 |" in text
    assert "resume from one that was saved before the migration" in text
    assert "Run `train.py` (or what starts it) with `AMPIFY_OPT_LEVEL=O0`: it prints what it printed before" in text
    assert "AMPIFY_OPT_LEVEL=O0 python train.py\n" in text
    assert "ampify verify train.py\n" in text
    assert "ampify undo\n" in text


def test_the_counts_of_a_file_are_those_of_git(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"train.py": MIXED["train.py"]})
    (outcome,) = (o for o in report.outcomes if o.status == "changed")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "train.py").write_text(outcome.after or "")
    counts = subprocess.run(["git", "diff", "--numstat"], cwd=tmp_path, check=True, capture_output=True, text=True)
    added, removed = map(int, counts.stdout.split()[:2])
    assert changed_lines(MIXED["train.py"].splitlines(), (outcome.after or "").splitlines()) == (added, removed)


def test_a_run_without_anything_to_do_promises_no_tests() -> None:
    text = markdown_report(report_of_case("fgsm_attack"), Links())
    assert "Nothing was refused, and nothing needs a judgement." in text
    for title in ("## Risk", "## Test plan", "## Undo", "## Training loops", "## Files"):
        assert title not in text


def test_a_loop_whose_refusal_is_silenced_is_not_passed_over() -> None:
    loop = LoopSummary("a", "train.py", 3, ("m",), ("o",), (("train.py", 3),), ("train.py", 1), "refused")
    text = markdown_report(Report((), (), (loop,), ()), Links())
    assert "what forbids it is silenced" in text
    assert "amp.initialize" not in text


@pytest.mark.parametrize(("wrote", "said"), [(False, "would be "), (True, "")])
def test_a_loop_is_told_by_what_becomes_of_it(wrote: bool, said: str) -> None:
    kinds: list[tuple[str, Literal["migrated", "right", "refused"]]] = [
        ("m", "migrated"), ("c", "right"), ("r", "right"), ("n", "refused"),
    ]  # fmt: skip
    loops = tuple(LoopSummary(id, f"{id}.py", 1, (), (), (), None, state) for id, state in kinds)
    clip = LedgerEntry(Site("clip", Anchor("c.py", 2, 0, 2, 5, "Call"), "c"), "rewritten", "AMP220")
    save = LedgerEntry(Site("save", Anchor("n.py", 2, 0, 2, 5, "Call"), "n"), "rewritten", "AMP420")
    text = markdown_report(Report((), (), loops, (clip,), wrote), Links())
    assert re.findall(r"^### \[`(\w)\.py:1`\]\(.*\): (.*)$", text, re.MULTILINE) == [
        ("m", f"{said}migrated"),
        ("c", f"{said}mended"),
        ("n", "not migrated"),
        ("r", "right already"),
    ]
    untouched = "is left as it was in all its files"
    assert untouched in text
    assert untouched not in markdown_report(Report((), (), loops, (clip, save), wrote), Links())


def test_a_run_that_wrote_says_so(tmp_path: Path) -> None:
    text = markdown_report(replace(report_of(tmp_path, MIXED), wrote=True), BASE)
    assert "1 file changed" in text
    assert "## What was done, and why" in text
    assert "ampify verify --base HEAD train.py\n" in text


def test_the_native_target_is_not_told_to_be_verified(tmp_path: Path) -> None:
    """`ampify verify` compares at O0, which only what imports the runtime obeys."""
    text = markdown_report(report_of(tmp_path, MIXED, target="native"), BASE)
    assert "ampify --target native --check train.py\n" in text
    assert "ampify verify" not in text


def test_a_copied_runtime_is_one_row(tmp_path: Path) -> None:
    text = markdown_report(report_of(tmp_path, {"train.py": MIXED["train.py"]}, vendor="lib"), Links())
    assert re.search(r"\| `lib/ampify_runtime/` \| \d+ new files: a copy of the runtime \|", text)


# Length


def many(number: int) -> Report:
    places = [Anchor(f"a_long_folder_name/train_{n}.py", 3, 4, 3, 19, "Call") for n in range(number)]
    findings = tuple(
        Finding("AMP204", "closure-step", p, "x" * 80, "y" * 80, refuses=True, loop=p.path) for p in places
    )
    loops = tuple(LoopSummary(p.path, p.path, 3, ("m",), ("o",), (), None, "refused") for p in places)
    ledger = tuple(LedgerEntry(Site("backward", p, p.path), "refused", "AMP204") for p in places)
    return Report((), findings, loops, ledger)


@pytest.mark.parametrize("number", [1, 200, 3000])
def test_it_fits_and_counts_what_it_leaves_out(number: int) -> None:
    text = markdown_report(many(number), BASE)
    assert len(text) <= LIMIT == 65_536
    told = text.count("**AMP204** `closure-step`")
    loops = text.count("\n### ")
    if number == 1:
        assert "left out" not in text
        return
    left = [int(n.replace(",", "")) for n in re.findall(r"_([\d,]+) more (?:finding|training loop)s? left out", text)]
    assert left == [number - told, number - loops]
    assert min(told, loops) > 20
    assert len(text) > LIMIT * 0.95


def test_one_loop_with_thousands_of_sites() -> None:
    places = [Anchor("train.py", n + 1, 4, n + 1, 19, "Call") for n in range(5000)]
    ledger = [LedgerEntry(Site("step", place, "a"), "right", "") for place in places]
    ledger[4000] = replace(ledger[4000], state="refused", code="AMP204")
    loop = LoopSummary("a", "train.py", 1, ("m",), ("o",), (), None, "refused")
    text = markdown_report(Report((), (), (loop,), tuple(ledger)), BASE)
    assert "_4,960 more sites left out here" in text
    assert "train.py#L4001) | step | **refused** | AMP204 |" in text


def test_a_budget_shares_and_gives_back_what_is_not_used() -> None:
    one, two = Part("A:", ("aaaa",) * 10, "a", share=0.5), Part("B:", ("b",) * 4, "b", closing="!")
    assert fitted([one, two], 10_000, "elsewhere.") == "A:" + "aaaa" * 10 + "B:bbbb!"
    notices = len(fitted([replace(one, items=()), two], 10_000, "")) + 2 * len(
        "\n_10 more as left out here: elsewhere._\n"
    )
    cut = fitted([one, two], notices + 20, "elsewhere.")
    assert "B:bbbb!" in cut
    assert f"_{10 - cut.count('aaaa')} more as left out here: elsewhere._" in cut
    assert 2 <= cut.count("aaaa") < 10
    assert len(cut) <= notices + 20


# Rendering

HOSTILE = "<img src=x onerror=alert(1)> @torvalds #12 **bold** [a](http://b) | `x` ~~y~~ ![z](q) $x$"


def test_nothing_in_a_repository_becomes_markup() -> None:
    place = Anchor("a|b`c[d](e).py", 1, 0, 1, 9, "Call")
    related = (Related(line_anchor("<script>.py", 2), HOSTILE),)
    finding = Finding("AMP204", "closure-step", place, HOSTILE, HOSTILE, refuses=True, loop="a", related=related)
    loop = LoopSummary("a", place.path, 1, ("m|`n`", HOSTILE), (), (), None, "refused")
    report = Report((), (finding,), (loop,), (LedgerEntry(Site("step", place, "a"), "refused", "AMP204"),))
    shown = html(markdown_report(report, Links()))
    assert "<img" not in shown
    assert "<script" not in shown
    assert "<strong>bold" not in shown
    assert 'href="http://b"' not in shown
    # Neither name stands right behind its mark, so that nobody is called and no issue is named.
    outside_code = re.sub(r"<code>.*?</code>", "", shown, flags=re.DOTALL)
    assert "@torvalds" not in outside_code
    assert "#12" not in outside_code
    assert "a|b`c[d](e).py" in shown
    assert shown.count("<table>") == 1
    (cells,) = (re.findall("<td", row) for row in re.findall(r"<tr>.*?</tr>", shown, re.DOTALL) if "<td" in row)
    assert len(cells) == 5


@pytest.mark.parametrize("text", ["x", "a `tick`", "``", "`", "a | b", "*x*", "  spaced  out ", "x" * 300])
def test_code_is_shown_as_it_is_on_one_line(text: str) -> None:
    shown = html(row("h") + "|---|\n" + row(code(text)))
    expected = " ".join(text.split())
    expected = expected if len(expected) <= 90 else f"{expected[:89]}…"
    assert f"<td><code>{expected}</code></td>" in shown


def test_our_own_backticks_mark_code() -> None:
    assert html(inline("set `a_b` not a_b")) == "<p>set <code>a_b</code> not a_b</p>\n"
    assert code("") == ""


# Links


@pytest.mark.parametrize(
    ("remote", "base"),
    [
        ("https://github.com/acme/models.git", "https://github.com/acme/models/blob/abc/"),
        ("https://me:secret@github.com/acme/models", "https://github.com/acme/models/blob/abc/"),
        ("git@github.com:acme/models.git", "https://github.com/acme/models/blob/abc/"),
        ("ssh://git@github.example.org:2222/acme/models.git", "https://github.example.org/acme/models/blob/abc/"),
        ("https://gitlab.com/group/sub/models.git", "https://gitlab.com/group/sub/models/-/blob/abc/"),
        ("https://example.org/models.git", ""),
        ("https://github.com/acme/a)b.git", "https://github.com/acme/a%29b/blob/abc/"),
        ("/srv/git/models.git", ""),
        ("", ""),
    ],
)
def test_addresses_of_remotes(remote: str, base: str) -> None:
    assert remote_base(remote, "abc") == base


def test_links_of_a_checkout(tmp_path: Path) -> None:
    assert find_links(tmp_path, {}) == Links()
    for arguments in (
        ["init", "-q"],
        ["remote", "add", "origin", "https://token@github.com/acme/models.git"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True)
    folder = tmp_path / "a folder"
    folder.mkdir()
    links = find_links(folder, {})
    base = f"https://github.com/acme/models/blob/{commit.stdout.strip()}/"
    assert links.line("train.py", 3) == f"{base}a%20folder/train.py#L3"
    assert links.line("../train.py", 3, 5) == f"{base}train.py#L3-L5"
    assert links.line(str(tmp_path.resolve() / "train.py"), 3, 3) == f"{base}train.py#L3"
    assert links.line("/elsewhere/train.py", 3) is None
    workflow = {"GITHUB_SERVER_URL": "https://ghe.org", "GITHUB_REPOSITORY": "a/b", "GITHUB_SHA": "f00"}
    assert find_links(tmp_path, workflow).line("train.py", 3) == "https://ghe.org/a/b/blob/f00/train.py#L3"


def test_links_without_a_repository() -> None:
    assert Links().line("./lab/train.py", 3) == "lab/train.py#L3"
    assert Links().line("/abs/train.py", 3) is None
    assert Links().line("<stdin>", 3) is None


def test_scripts_are_words_of_a_shell(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"my train.py": MIXED["train.py"]})
    assert scripts_of(report) == ("'my train.py'",)


def test_links_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_links(tmp_path, {}) == Links()


def test_a_finding_with_many_places_says_how_many_more_there_are() -> None:
    related = tuple(Related(line_anchor("b.py", number), f"place {number}") for number in range(1, 11))
    finding = Finding("AMP204", "closure-step", line_anchor("a.py", 1), "x", refuses=True, related=related)
    text = markdown_report(Report((), (finding,), (), ()), Links())
    assert "place 8\n  - and 2 more places\n" in text
    assert "What to do" not in text


def test_parallel_training_and_what_was_left_are_to_be_tried(tmp_path: Path) -> None:
    assert "Run on two devices" in markdown_report(report_of_case("dataparallel_after_optimizer"), Links())
    assert "Run on two devices" not in markdown_report(report_of(tmp_path, MIXED), Links())
    assert "Run what was not migrated, too" in markdown_report(report_of(tmp_path, MIXED), Links())
    assert "several optimizers" in markdown_report(report_of_case("dcgan"), Links())
