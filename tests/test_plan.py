"""The plan: loops whole or not at all, comments that silence, edits that clash, and the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from ampify.index.extract import extract
from ampify.model.anchor import Anchor, line_anchor
from ampify.model.edit import (
    AddElement,
    AddImport,
    Delete,
    Edit,
    EditLines,
    Fix,
    InsertAfter,
    InsertBefore,
    Replace,
    Wrap,
)
from ampify.model.finding import Finding, Related
from ampify.model.plan import Plan
from ampify.model.project import BackwardCall, Initialize, Obstacle, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.model.site import Site, SiteKind
from ampify.plan.conflicts import Accepted, clash, edit_anchor
from ampify.plan.decision import group_of, make_plan
from ampify.plan.silence import asks_to_be_skipped

TRAIN = """\
for x in data:
    loss = model(x)
    loss.backward()
    optimizer.step()
"""


def at(line: int, column: int = 4, width: int = 15, kind: str = "Call", path: str = "train.py") -> Anchor:
    return Anchor(path, line, column, line, column + width, kind)


def a_loop(name: str = "a", line: int = 1, path: str = "train.py", migrated: bool = False) -> TrainingLoop:
    backward = at(line + 2, path=path)
    calls = (BackwardCall(backward, None, backward, "loss", ("optimizer",), scaled=migrated),)
    starts = (Initialize(backward, ("model",), ("optimizer",), present=migrated),)
    return TrainingLoop(name, Anchor(path, line, 0, line + 3, 20, "For"), ("model",), ("optimizer",), calls, starts)


def a_site(anchor: Anchor, kind: SiteKind = "backward", loop: str | None = "a", training: bool = True) -> Site:
    return Site(kind, anchor, loop, training)


def a_fix(
    anchor: Anchor, code: str = "AMP201", loop: str | None = "a", edit: Edit | None = None, **more: str
) -> Finding:
    fix = Fix((edit or Wrap(anchor, "with scaled:"),), group=loop, **more)  # type: ignore[arg-type]
    return Finding(code, "unscaled-backward", anchor, "it is not scaled", fix=fix, loop=loop)


def a_refusal(anchor: Anchor, code: str = "AMP204", loop: str | None = "a") -> Finding:
    return Finding(code, "closure-step", anchor, "it takes a closure", "do not", refuses=True, loop=loop)


def a_project(
    files: dict[str, str] | str = TRAIN,
    loops: Iterable[TrainingLoop] | None = None,
    sites: Iterable[Site] | None = None,
) -> Project:
    texts = {"train.py": files} if isinstance(files, str) else files
    found = (a_loop(),) if loops is None else tuple(loops)
    places = (a_site(at(3)), a_site(at(4, width=16), "step")) if sites is None else tuple(sites)
    return Project({path: extract(path, text) for path, text in texts.items()}, found, places)


def plan(project: Project, findings: Sequence[Finding], put_back: Sequence[Finding] = (), **settings: object) -> Plan:
    return make_plan(project, findings, Settings(**settings), put_back)  # type: ignore[arg-type]


def edited(made: Plan) -> dict[str, tuple[Edit, ...]]:
    return dict(made.edits)


def ledger(made: Plan) -> list[tuple[int, str, str, str]]:
    return [(entry.site.anchor.line, entry.site.kind, entry.state, entry.code) for entry in made.ledger]


# Loops, whole or not at all


def test_a_loop_whose_fixes_stand_is_migrated() -> None:
    fix = a_fix(at(3))
    made = plan(a_project(), [fix])
    assert edited(made) == {"train.py": (Wrap(at(3), "with scaled:"),)}
    assert made.groups == (("a", ("train.py",)),)
    assert made.findings == (fix,)
    assert ledger(made) == [(3, "backward", "rewritten", "AMP201"), (4, "step", "right", "")]


def test_one_refusal_keeps_the_whole_loop_in_all_its_files() -> None:
    project = a_project({"train.py": TRAIN, "engine.py": "pass\n"})
    fixes = [a_fix(at(3)), a_fix(at(1, 0, 4, path="engine.py"), "AMP101")]
    refusal = a_refusal(at(4, width=16))
    made = plan(project, [*fixes, refusal])
    assert made.edits == ()
    assert made.groups == ()
    assert refusal in made.findings
    assert ledger(made) == [(3, "backward", "refused", "AMP204"), (4, "step", "refused", "AMP204")]


def test_the_other_loops_of_the_file_are_migrated_all_the_same() -> None:
    text = TRAIN + TRAIN
    loops = [a_loop("a"), a_loop("b", 5)]
    sites = [a_site(at(3)), a_site(at(7), loop="b")]
    made = plan(a_project(text, loops, sites), [a_fix(at(3)), a_fix(at(7), loop="b"), a_refusal(at(4))])
    assert edited(made) == {"train.py": (Wrap(at(7), "with scaled:"),)}
    assert ledger(made) == [(3, "backward", "refused", "AMP204"), (7, "backward", "rewritten", "AMP201")]


def test_an_unsafe_fix_needs_to_be_asked_for() -> None:
    findings = [a_fix(at(3)), a_fix(at(4, width=16), "AMP202", applicability="unsafe")]
    made = plan(a_project(), findings)
    assert made.edits == ()
    (refusal,) = [finding for finding in made.findings if finding.refuses]
    assert (refusal.code, refusal.hint) == ("AMP202", "needs --unsafe")
    assert ledger(made)[1] == (4, "step", "refused", "AMP202")
    made = plan(a_project(), findings, unsafe=True)
    assert len(edited(made)["train.py"]) == 2
    assert ledger(made)[1] == (4, "step", "rewritten", "AMP202")
    assert {finding.code: finding.hint for finding in made.findings} == {"AMP201": "", "AMP202": "mended by --unsafe"}


def test_an_unsafe_fix_keeps_its_own_hint() -> None:
    fix = Fix((Delete(at(3)),), "unsafe", "a")
    made = plan(a_project(), [Finding("AMP202", "n", at(3), "m", "see why", fix, loop="a")])
    assert made.findings[0].hint == "see why; needs --unsafe"


def test_a_mended_place_says_what_has_to_be_looked_over() -> None:
    fix = Fix((Delete(at(3)),), "unsafe", "a", caution="it ends earlier")
    found = Finding("AMP202", "n", at(3), "m", fix=fix, loop="a")
    assert plan(a_project(), [found], unsafe=True).findings[0].hint == "mended by --unsafe: it ends earlier"
    # Where its loop is left alone for another reason, nothing is mended.
    refusal = Finding("AMP204", "n", at(4), "m", refuses=True, loop="a")
    left = [finding.hint for finding in plan(a_project(), [found, refusal], unsafe=True).findings]
    assert left == ["", ""]


@pytest.mark.parametrize("settings", [{"select": ("AMP1",)}, {"ignore": ("AMP201",)}])
def test_a_fix_that_is_not_selected_keeps_the_loop_as_it_is(settings: dict[str, object]) -> None:
    made = plan(a_project(), [a_fix(at(2, 4, 15), "AMP101"), a_fix(at(3))], **settings)
    assert made.edits == ()
    assert {finding.code for finding in made.findings} == {"AMP101"}
    assert ledger(made) == [(3, "backward", "refused", "AMP201"), (4, "step", "refused", "AMP201")]


def test_a_remark_that_is_not_selected_forbids_nothing() -> None:
    remark = Finding("AMP301", "n", at(2, 11, 8), "m", loop="a")
    made = plan(a_project(), [remark, a_fix(at(3))], ignore=("AMP3",))
    assert "train.py" in edited(made)
    assert {finding.code for finding in made.findings} == {"AMP201"}


def test_a_refusal_that_is_not_selected_still_refuses() -> None:
    made = plan(a_project(), [a_fix(at(3)), a_refusal(at(4))], ignore=("AMP204",))
    assert made.edits == ()
    assert not any(finding.refuses for finding in made.findings)


def test_a_loop_that_is_migrated_already_is_right() -> None:
    made = plan(a_project(loops=[a_loop(migrated=True)]), [])
    assert made == Plan((), (), made.ledger)
    assert [state for _, _, state, _ in ledger(made)] == ["right", "right"]


def test_a_loop_of_which_nothing_is_said_does_not_pass_for_right() -> None:
    made = plan(a_project(), [])
    (finding,) = made.findings
    assert (finding.code, finding.refuses, finding.loop) == ("AMP903", True, "a")
    assert [code for *_, code in ledger(made)] == ["AMP903", "AMP903"]


def test_an_obstacle_that_no_rule_reports_refuses_its_loop_all_the_same() -> None:
    known = Obstacle("closure-step", at(4, width=16), "", loop="a")
    project = replace(a_project(), obstacles=(known, replace(known, loop=None)))
    made = plan(project, [a_fix(at(3))])
    assert made.edits == ()
    (refusal,) = [finding for finding in made.findings if finding.refuses]
    assert (refusal.code, refusal.anchor, refusal.loop) == ("AMP903", known.anchor, "a")
    assert "closure-step" in refusal.message
    assert "AMP903" not in {f.code for f in plan(project, [a_fix(at(3)), a_refusal(at(4))]).findings}


def test_a_fix_outside_of_loops_stands_alone() -> None:
    fixes = [a_fix(at(2, 0, 4), loop=None), a_fix(at(3), loop=None, applicability="unsafe")]
    made = plan(a_project(loops=[], sites=[]), fixes)
    assert edited(made) == {"train.py": (Wrap(at(2, 0, 4), "with scaled:"),)}
    assert made.groups == ((group_of(fixes[0]), ("train.py",)),)
    assert group_of(fixes[0]) != group_of(fixes[1])


def test_groups_that_failed_later_are_left_out_and_said() -> None:
    loops = [a_loop("a"), a_loop("b", 5)]
    sites = [a_site(at(3)), a_site(at(7), loop="b")]
    failure = Finding("AMP901", "internal-failure", line_anchor("train.py", 1), "m", refuses=True, loop="b")
    made = plan(a_project(TRAIN + TRAIN, loops, sites), [a_fix(at(3)), a_fix(at(7), loop="b")], [failure])
    assert [group for group, _ in made.groups] == ["a"]
    assert failure in made.findings
    assert ledger(made)[1] == (7, "backward", "refused", "AMP901")


def test_a_single_fix_that_failed_later_belongs_to_no_loop() -> None:
    fix = a_fix(at(2, 0, 4), loop=None)
    failure = Finding("AMP901", "n", line_anchor("train.py", 1), "m", refuses=True, loop=group_of(fix))
    made = plan(a_project(loops=[], sites=[]), [fix], [failure])
    assert made.edits == ()
    assert [finding.loop for finding in made.findings if finding.refuses] == [None]


def test_edits_are_ordered_by_place_and_equal_ones_are_one() -> None:
    shared = AddImport("train.py", "ampify_runtime", "amp")
    first = InsertAfter(at(1, 0, 9, "Assign"), "one")
    second = InsertAfter(at(1, 0, 9, "Assign"), "two")
    loops = [a_loop("a"), a_loop("b", 5)]
    findings = [
        a_fix(at(7), loop="b"),
        a_fix(at(6, 4, 2), "AMP101", loop="b", edit=shared),
        a_fix(at(3)),
        a_fix(at(2, 4, 2), "AMP101", edit=shared),
        a_fix(at(1, 0, 9, "Assign"), "AMP102", edit=first),
        a_fix(at(1, 0, 9, "Assign"), "AMP103", edit=second),
    ]
    made = plan(a_project(TRAIN + TRAIN, loops, []), findings)
    wraps = [Wrap(at(line), "with scaled:") for line in (3, 7)]
    assert edited(made) == {"train.py": (shared, first, second, *wraps)}


# Comments


def silenced(comment: str) -> str:
    return TRAIN.replace("backward()", f"backward()  {comment}")


@pytest.mark.parametrize("comment", ["# ampify: ignore[AMP201]", "# noqa # ampify: ignore", "#ampify:ignore[ amp201 ]"])
def test_a_silenced_fix_keeps_the_loop_as_it_is(comment: str) -> None:
    made = plan(a_project(silenced(comment)), [a_fix(at(3))])
    assert made.edits == ()
    assert made.findings == ()
    assert ledger(made)[0] == (3, "backward", "refused", "AMP201")


def test_a_silenced_refusal_is_not_heard_and_holds() -> None:
    text = TRAIN.replace("step()", "step()  # ampify: ignore[AMP204]")
    made = plan(a_project(text), [a_fix(at(3)), a_refusal(at(4))])
    assert made.edits == ()
    assert not any(finding.refuses for finding in made.findings)
    assert [code for *_, code in ledger(made)] == ["AMP204", "AMP204"]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# ampify: ignore[AMP204]", "silences no AMP204 on its line"),
        ("# ampify: ignore[AMP201, AMP204, AMP205]", "silences no AMP204, AMP205 on its line"),
        ("# ampify: ignroe", "`# ampify: ignroe` is no comment that ampify obeys"),
    ],
)
def test_a_comment_that_does_not_work_is_reported(comment: str, said: str) -> None:
    made = plan(a_project(silenced(comment)), [a_fix(at(3))])
    (finding,) = [finding for finding in made.findings if finding.code == "AMP009"]
    assert said in finding.message
    assert (finding.anchor.line, finding.anchor.column) == (3, 21)
    assert plan(a_project(silenced(comment)), [a_fix(at(3))], ignore=("AMP009",)).findings in ((), (a_fix(at(3)),))


def test_a_bare_ignore_on_a_line_without_findings_is_reported() -> None:
    made = plan(a_project(TRAIN.replace("step()", "step()  # ampify: ignore")), [a_fix(at(3))])
    assert [finding.message for finding in made.findings if finding.code == "AMP009"] == [
        "this comment silences nothing: there is no finding on its line"
    ]
    assert "train.py" in edited(made)


def test_a_comment_at_the_end_of_a_long_call_belongs_to_it_but_not_to_a_whole_block() -> None:
    text = "for x in data:\n    loss.backward(\n        retain_graph=True)  # ampify: ignore[AMP201]\n"
    call = Anchor("train.py", 2, 4, 3, 26, "Call")
    block = Anchor("train.py", 1, 0, 3, 26, "For")
    project = a_project(text, [], [])
    assert plan(project, [a_fix(call, loop=None)]).findings == ()
    assert {f.code for f in plan(project, [a_fix(block, loop=None)]).findings} == {"AMP201", "AMP009"}


def test_words_in_a_string_are_no_comment() -> None:
    text = 'help = """\n# ampify: skip-file\n# ampify: ignore\n"""\n'
    made = plan(a_project(text, [], []), [])
    assert made.findings == ()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_skipped_file_says_nothing_and_its_loops_stay(end: str) -> None:
    text = (TRAIN + "# ampify: skip-file\n# ampify: what\nx  # ampify: ignore\n").replace("\n", end)
    made = plan(a_project(text), [a_fix(at(3))])
    assert (made.edits, made.findings) == ((), ())
    assert [state for _, _, state, _ in ledger(made)] == ["refused", "refused"]


def two_files(skipped: str) -> Project:
    files = {"train.py": TRAIN, "engine.py": "optimizer.step()\n"}
    files[skipped] += "# ampify: skip-file\n"
    return a_project(files, sites=[a_site(at(3)), a_site(at(1, 0, 16, path="engine.py"), "step")])


@pytest.mark.parametrize(("skipped", "reported"), [("engine.py", "train.py"), ("train.py", "engine.py")])
def test_a_loop_with_a_part_in_a_skipped_file_stays_and_says_so(skipped: str, reported: str) -> None:
    made = plan(two_files(skipped), [a_fix(at(3))])
    assert made.edits == ()
    (finding,) = [finding for finding in made.findings if finding.refuses]
    assert (finding.code, finding.anchor.path, finding.loop) == ("AMP008", reported, "a")
    assert {state for _, _, state, _ in ledger(made)} == {"refused"}
    assert not any(f.refuses for f in plan(two_files(skipped), [a_fix(at(3))], ignore=("AMP008",)).findings)


def test_a_loop_that_would_edit_a_skipped_file_stays() -> None:
    project = a_project({"train.py": TRAIN, "build.py": "# ampify: skip-file\n"})
    made = plan(project, [a_fix(at(3)), a_fix(at(3), "AMP101", edit=AddImport("build.py", "ampify_runtime", "amp"))])
    assert made.edits == ()
    assert "AMP008" in {finding.code for finding in made.findings}


def test_loops_without_a_part_in_the_skipped_file_are_migrated() -> None:
    project = a_project({"train.py": TRAIN, "other.py": "# ampify: skip-file\n"})
    assert "train.py" in edited(plan(project, [a_fix(at(3))]))


def test_bytes_that_ask_to_be_skipped() -> None:
    assert asks_to_be_skipped(b"print 'x'\n#ampify: skip-file\n")
    assert not asks_to_be_skipped(b"# ampify: ignore\n")


# Edits that clash


CALL, INSIDE, STATEMENT = at(3), at(3, 4, 4, "Name"), at(3, kind="Expr")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Replace(CALL, "a"), Replace(CALL, "b")),
        (Replace(CALL, "a"), Replace(INSIDE, "b")),
        (Replace(CALL, "a"), AddElement(CALL, "b")),
        (Replace(CALL, "a"), AddElement(INSIDE, "b")),
        (Delete(STATEMENT), Replace(CALL, "a")),
        (Delete(STATEMENT), Replace(INSIDE, "a")),
        (Delete(STATEMENT), Wrap(STATEMENT, "with a:")),
        (Delete(Anchor("train.py", 1, 0, 4, 20, "For")), InsertAfter(STATEMENT, "a")),
        (Wrap(STATEMENT, "with a:"), Wrap(STATEMENT, "with b:")),
        (AddImport("train.py", "m", "amp"), AddImport("train.py", "n", "amp")),
        (AddImport("train.py", "m", "amp"), AddImport("train.py", "m", "other", "amp")),
        (EditLines("r.txt", 1, 2, "a\n"), EditLines("r.txt", 2, 1, "b\n")),
        (EditLines("r.txt", 1, 2, "a\n"), EditLines("r.txt", 2, 0, "b\n")),
    ],
)
def test_edits_that_cannot_both_be_made(one: Edit, other: Edit) -> None:
    assert clash(one, other)
    assert clash(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Replace(CALL, "a"), Replace(CALL, "a")),
        (Replace(INSIDE, "a"), Wrap(STATEMENT, "with a:")),
        (Replace(CALL, "a"), Wrap(STATEMENT, "with a:")),
        (Replace(CALL, "a"), InsertBefore(STATEMENT, "b")),
        (Replace(INSIDE, "a"), AddElement(CALL, "b")),
        (AddElement(CALL, "a"), AddElement(CALL, "b")),
        (Delete(STATEMENT), InsertBefore(STATEMENT, "a")),
        (Delete(STATEMENT), InsertAfter(STATEMENT, "a")),
        (Replace(CALL, "a"), Replace(at(4), "b")),
        (InsertAfter(STATEMENT, "a"), InsertAfter(STATEMENT, "b")),
        (Wrap(STATEMENT, "with a:"), Wrap(Anchor("train.py", 1, 0, 4, 20, "For"), "with b:")),
        (AddImport("train.py", "m", "amp"), AddImport("train.py", "m", "amp")),
        (AddImport("train.py", "m", "amp"), AddImport("train.py", "m", "other")),
        (AddImport("train.py", "m", "amp"), Delete(STATEMENT)),
        (EditLines("r.txt", 1, 1, "a\n"), EditLines("r.txt", 2, 1, "b\n")),
        (EditLines("r.txt", 1, 0, "a\n"), EditLines("r.txt", 1, 0, "b\n")),
        (EditLines("r.txt", 1, 0, "a\n"), Delete(STATEMENT)),
    ],
)
def test_edits_that_go_together(one: Edit, other: Edit) -> None:
    assert not clash(one, other)
    assert not clash(other, one)


def test_edits_of_other_files_never_clash() -> None:
    accepted = Accepted()
    assert accepted.clash([Replace(CALL, "a"), Replace(at(3, path="other.py"), "b")]) is None
    assert accepted.clash([Replace(CALL, "c"), Delete(at(9))]) == (Replace(CALL, "c"), Replace(CALL, "a"))
    assert accepted.clash([Replace(at(9), "d")]) is None, "edits that were not taken in are no hindrance"


def test_edit_anchors() -> None:
    assert edit_anchor(Delete(STATEMENT)) == STATEMENT
    assert edit_anchor(AddImport("train.py", "m", "n")) is None


def test_the_later_of_two_loops_that_clash_is_refused_whole() -> None:
    loops = [a_loop("a"), a_loop("b", 5)]
    findings = [
        a_fix(at(2, 4, 15, "Assign"), "AMP101", edit=Replace(at(2, 11, 8), "one")),
        a_fix(at(2, 4, 15, "Assign"), "AMP101", loop="b", edit=Replace(at(2, 11, 8), "two")),
        a_fix(at(7), loop="b"),
    ]
    made = plan(a_project(TRAIN + TRAIN, loops, [a_site(at(7), loop="b")]), findings)
    assert edited(made) == {"train.py": (Replace(at(2, 11, 8), "one"),)}
    (refusal,) = [finding for finding in made.findings if finding.refuses]
    assert (refusal.code, refusal.loop, refusal.anchor) == ("AMP902", "b", at(2, 11, 8))
    assert "(line 2)" in refusal.message
    assert ledger(made) == [(7, "backward", "refused", "AMP902")]


@pytest.mark.parametrize(
    ("one", "other", "line"),
    [
        (AddImport("train.py", "m", "amp"), AddImport("train.py", "n", "amp"), 1),
        (EditLines("train.py", 2, 2, "a\n"), EditLines("train.py", 2, 2, "b\n"), 2),
    ],
)
def test_a_clash_that_is_bound_to_no_node_is_reported_too(one: Edit, other: Edit, line: int) -> None:
    made = plan(a_project(), [a_fix(at(3), edit=one), a_fix(at(4), edit=other)])
    assert made.edits == ()
    (refusal,) = [finding for finding in made.findings if finding.refuses]
    assert (refusal.code, refusal.anchor) == ("AMP902", line_anchor("train.py", line))


# The ledger


def test_sites_outside_of_training() -> None:
    made = plan(a_project(loops=[], sites=[a_site(at(3), loop=None, training=False)]), [])
    assert ledger(made) == [(3, "backward", "not_training", "")]
    assert made.findings == ()


def test_a_training_site_that_nobody_speaks_of_is_refused_and_said() -> None:
    project = a_project(loops=[], sites=[a_site(at(4, width=16), "step", loop=None)])
    made = plan(project, [])
    assert ledger(made) == [(4, "step", "refused", "AMP209")]
    (finding,) = made.findings
    assert (finding.code, finding.name, finding.anchor.line) == ("AMP209", "unresolved-receiver", 4)
    assert plan(project, [], ignore=("AMP209",)).findings == ()


def test_a_training_site_outside_of_loops_takes_the_code_of_what_is_said_there() -> None:
    sites = [a_site(at(3), loop=None), a_site(at(4, width=16), "step", loop=None)]
    remark = Finding("AMP301", "n", at(3), "m")
    related = Finding("AMP204", "n", at(1), "m", refuses=True, related=(Related(at(4, width=16), "here"),))
    made = plan(a_project(loops=[], sites=sites), [remark, related])
    assert ledger(made) == [(3, "backward", "refused", "AMP301"), (4, "step", "refused", "AMP204")]
    assert {finding.code for finding in made.findings} == {"AMP301", "AMP204"}


def test_a_fix_outside_of_loops_rewrites_its_site() -> None:
    made = plan(a_project(loops=[], sites=[a_site(at(3), loop=None)]), [a_fix(at(3), loop=None)])
    assert ledger(made) == [(3, "backward", "rewritten", "AMP201")]


def test_a_finding_on_the_whole_loop_does_not_speak_of_every_site_in_it() -> None:
    whole = a_fix(Anchor("train.py", 1, 0, 4, 20, "For"), "AMP101", edit=InsertBefore(at(1, 0, 9, "For"), "x"))
    made = plan(a_project(), [whole, a_fix(at(3, kind="Expr"))])
    assert ledger(made) == [(3, "backward", "rewritten", "AMP201"), (4, "step", "right", "")]


def test_a_remark_in_a_migrated_loop_leaves_its_site_right() -> None:
    remark = Finding("AMP301", "n", at(4, width=16), "m", loop="a")
    made = plan(a_project(), [a_fix(at(3)), remark])
    assert ledger(made)[1] == (4, "step", "right", "")


def test_a_refusal_of_one_place_refuses_that_site_alone() -> None:
    made = plan(a_project(), [a_fix(at(3)), a_refusal(at(4, width=16), loop=None)])
    assert "train.py" in edited(made)
    assert ledger(made) == [(3, "backward", "rewritten", "AMP201"), (4, "step", "refused", "AMP204")]


def test_in_a_refused_loop_a_site_with_its_own_refusal_bears_that_code() -> None:
    made = plan(a_project(), [a_refusal(at(3), "AMP203"), a_refusal(at(4, width=16), "AMP204")])
    assert ledger(made) == [(3, "backward", "refused", "AMP203"), (4, "step", "refused", "AMP204")]
