"""Every rule, on the scripts of its own documentation and on what its neighbours could take it for."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from ampify.index import build_project
from ampify.index.framework import in_charge
from ampify.model.anchor import Anchor
from ampify.model.finding import Finding
from ampify.model.plan import Report
from ampify.model.project import Obstacle, Project
from ampify.model.settings import Settings
from ampify.model.site import Site
from ampify.model.source import SourceFile
from ampify.pipeline import run
from ampify.rules import Rule, all_rules, run_rules
from ampify.rules.documentation import FINDING, FIXING, read_documentation
from ampify.source.failure import UNREADABLE_NAMES

RULES = {rule.code: rule for rule in all_rules()}
# The first line of the rule's Before on which it has something to say.
TELLING = {
    "AMP102": "torch.optim.SGD(model.parameters(), lr=0.1).step()",
    "AMP103": "model = torch.nn.DataParallel(model)",
    "AMP104": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "AMP105": 'body, slow = amp.initialize(body, slow, opt_level="O1")',
    "AMP122": "main(train)",
    "AMP123": "loss.backward()",
    "AMP230": "loss = criterion(*pair)",
    "AMP231": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "AMP203": "noise = (noise.detach() + 0.1 * noise.grad.sign()).requires_grad_()",
    "AMP204": "optimizer.step(closure)",
    "AMP205": "loss.backward()",
    "AMP206": "(gradient,) = torch.autograd.grad(model(inputs).mean(), inputs)",
    "AMP207": "model(batch).mean().backward()",
    "AMP208": "loss.backward()",
    "AMP210": "engine.backward(loss)",
    "AMP211": "loss.backward() if step else None",
    "AMP212": "optimizer.step()",
    "AMP213": "loss.backward()",
    "AMP215": "parameter.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))",
    "AMP217": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    "AMP216": "torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)",
    "AMP302": "model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid())",
    "AMP221": "print(model.weight.grad.norm())",
    "AMP222": "scaler.unscale_(optimizer)",
    "AMP224": "scaler.update()",
    "AMP225": "optimizer.step()",
    "AMP320": "scaler.scale(loss).backward()",
    "AMP321": 'scaler = torch.amp.GradScaler("cuda")',
    "AMP322": "loss = torch.nn.functional.binary_cross_entropy(score, torch.ones(2, 1))",
    "AMP323": "loss = model(torch.ones(2, 4)).half().pow(2).mean()",
    "AMP324": 'scaler = torch.amp.GradScaler("cuda")',
    "AMP325": "scaler.scale(loss).backward()",
    "AMP304": "model = torch.nn.Linear(4, 1).half()",
    "AMP311": "model = FullyShardedDataParallel(torch.nn.Linear(4, 1))",
    "AMP305": "model = torch.nn.Linear(4, 1).double()",
    "AMP312": "model(image).sum().backward()",
    "AMP306": "(gradient,) = torch.autograd.grad(scores, inputs, create_graph=True)",
    "AMP402": 'torch.save(optimizer.state_dict(), "optimizer.pt")',
    "AMP501": 'with torch.autocast("cpu", dtype=torch.bfloat16):',
    "AMP507": "total += model(Variable(batch, volatile=True)).mean()",
    "AMP503": "from apex.contrib.sparsity import ASP",
    "AMP512": "optimizer = FusedLAMB(model.parameters(), lr=1e-3)",
    "AMP514": "model.weight.norm().backward()",
    "AMP601": "import lightning",
    "AMP602": "from accelerate import Accelerator",
    "AMP603": "from transformers import AutoModelForSequenceClassification, Trainer",
    "AMP604": "import deepspeed",
    "AMP214": "loss.backward()",
    "AMP106": 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")',
    "AMP124": "scaler.scale(loss).backward()",
    "AMP240": "scheduler.step()",
    "AMP107": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "AMP243": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "AMP308": "scores = scores.masked_fill(mask == 0, -1e9)",
    "AMP309": "parameter.data.clamp_(-0.01, 0.01)",
    "AMP404": 'torch.save(model, "model.pt")',
    "AMP241": "scaler.step(optimizer)  # not updated",
    "AMP326": 'scaler = torch.amp.GradScaler("cuda")',
    "AMP424": 'scaler.load_state_dict(checkpoint["scaler"])',
    "AMP327": 'with torch.autocast("cuda"):',
    "AMP423": 'torch.save({"optimizer": optimizer.state_dict()}, "last.pt")',
}
# What says something and forbids nothing.
ADVISORY = {
    "AMP424",
    "AMP106",
    "AMP107",
    "AMP243",
    "AMP308",
    "AMP309",
    "AMP404",
    "AMP124",
    "AMP240",
    "AMP241",
    "AMP326",
    "AMP327",
    "AMP423",
    "AMP221",
    "AMP507",
    "AMP320",
    "AMP321",
    "AMP323",
    "AMP104",
    "AMP302",
    "AMP306",
    "AMP312",
    "AMP402",
}
# A rule that speaks only under options other than the default ones.
OPTIONS = {
    "AMP103": {"opt_level": "O2"},
    "AMP104": {"add_flag": True},
    "AMP220": {"unsafe": True},
    "AMP223": {"unsafe": True},
    **{f"AMP{code}": {"unsafe": True} for code in range(612, 618)},
    "AMP123": {"opt_level": "O2"},
}

MODEL = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
"""


def code_of(rule: Rule, heading: str) -> str | None:
    text = read_documentation(rule.documentation).section(heading)
    return None if text is None else f"{text}\n"


def documented(headings: tuple[str, ...]) -> list[Rule]:
    return [r for r in RULES.values() if r.check and read_documentation(r.documentation).headings == headings]


def each(rule: Rule) -> str:
    return rule.code


def settings_of(rule: Rule, folder: Path) -> Settings:
    options = OPTIONS.get(rule.code, {})
    return Settings(root=str(folder), target=rule.target or "runtime", **options)  # type: ignore[arg-type]


def migrate(folder: Path, text: str, rule: Rule) -> Report:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return run([script], settings_of(rule, folder))


def result(report: Report, text: str) -> str:
    """The script's text after the run."""
    outcome = next(o for o in report.outcomes if o.path.endswith("train.py"))
    return text if outcome.after is None else outcome.after


def project_of(**files: str) -> Project:
    """A project of modules by their names."""
    sources = [
        SourceFile(f"{name}.py", dedent(text).encode(), dedent(text), "utf-8", b"", "\n")
        for name, text in files.items()
    ]
    return build_project(sources, Settings())


def findings_of(project: Project, settings: Settings | None = None) -> list[Finding]:
    return [f for f in run_rules(project, settings or Settings()) if f.fix is None]


def said(project: Project) -> list[tuple[str, str, int, bool]]:
    return [(f.code, f.anchor.path, f.anchor.line, f.refuses) for f in findings_of(project)]


# The scripts of the documentation


@pytest.mark.parametrize("rule", documented(FINDING), ids=each)
def test_the_rule_speaks_of_the_right_line_and_nothing_is_changed(rule: Rule, tmp_path: Path) -> None:
    before = code_of(rule, "Before")
    assert before is not None
    lines = [line.strip() for line in before.splitlines()]
    report = migrate(tmp_path, before, rule)
    found = [f for f in report.findings if f.code == rule.code]
    assert lines[found[0].anchor.line - 1] == TELLING[rule.code]
    assert all(f.refuses == (rule.code not in ADVISORY) and f.hint for f in found)
    if rule.code not in ADVISORY:
        assert result(report, before) == before
        assert [loop.state for loop in report.loops if loop.state != "refused"] == []
        assert all(entry.state in ("refused", "right", "not_training") for entry in report.ledger)
        # A framework that runs the loop itself leaves no site in the file, nor is there one where nothing is trained yet.
        siteless = ("AMP512", "AMP601", "AMP603")
        assert any(entry.state == "refused" for entry in report.ledger) or rule.code in siteless


@pytest.mark.parametrize("rule", documented(FIXING), ids=each)
def test_the_fix_makes_after_of_before_and_stops_there(rule: Rule, tmp_path: Path) -> None:
    before, after = code_of(rule, "Before"), code_of(rule, "After")
    assert before is not None
    assert after is not None
    report = migrate(tmp_path, before, rule)
    assert result(report, before) == after
    assert rule.code in {f.code for f in report.findings}
    again = migrate(tmp_path, after, rule)
    assert result(again, after) == after
    assert [f.code for f in again.findings if f.fix] == []


def test_names_of_unreadable_files_are_those_of_their_rules() -> None:
    assert {code: RULES[code].name for code in UNREADABLE_NAMES} == UNREADABLE_NAMES
    assert UNREADABLE_NAMES.keys() == {code for code in RULES if code <= "AMP006"}


# Messages


def test_the_message_says_where_the_trail_ends_and_points_to_the_step_once() -> None:
    project = project_of(
        engine="""\
            def train(model, optimizer, batches):
                for batch in batches:
                    loss = model(batch).mean()
                    loss.backward()
                    optimizer.step()
            """
    )
    (finding,) = findings_of(project)
    assert finding.code == "AMP207"
    assert finding.message.endswith(": 'optimizer' is not set anywhere in the files given")
    assert [(r.anchor.line, r.anchor.path) for r in finding.related] == [(5, "engine.py")]


def test_an_optimizer_of_an_unknown_object_is_not_said_to_be_set_nowhere() -> None:
    project = project_of(
        engine="""\
            def train(model, batches):
                for batch in batches:
                    model(batch).mean().backward()
                    model.optim.step()
            """
    )
    (finding,) = findings_of(project)
    assert finding.code == "AMP207"
    assert finding.message.endswith(": 'optim' belongs to 'model', of which nothing is known here")


def test_gradients_in_a_context_are_said_to_be_there() -> None:
    project = project_of(
        engine="""\
            import torch.distributed.autograd as contexts

            def train(model, batches):
                for batch in batches:
                    with contexts.context() as number:
                        contexts.backward(number, [model(batch).mean()])
            """
    )
    (finding,) = findings_of(project)
    assert finding.code == "AMP210"
    assert finding.message.endswith("keeps the gradients in its context, where no scaler finds them")


def test_an_optimizer_that_is_set_by_what_cannot_be_followed_is_not_said_to_be_set_nowhere() -> None:
    project = project_of(
        engine="""\
            def train(model, holder, batches):
                optimizer = getattr(holder, "opt" + "imizer")
                for batch in batches:
                    model(batch).mean().backward()
                    optimizer.step()
            """
    )
    (finding,) = findings_of(project)
    assert finding.code == "AMP207"
    assert finding.message.endswith(": nothing in the files given shows what it is")


def test_an_obstacle_that_is_met_twice_is_told_once() -> None:
    where = Anchor("train.py", 3, 4, 3, 9, "Call")
    other = Anchor("train.py", 5, 4, 5, 9, "Call")
    twice = Obstacle("closure-step", where, "", loop="a")
    project = Project({}, obstacles=(twice, twice, Obstacle("closure-step", other, "", loop="a")))
    assert [f.anchor for f in findings_of(project)] == [where, other]


def test_obstacles_that_point_to_each_other_are_not_both_dropped() -> None:
    one, other = (Anchor("train.py", line, 4, line, 9, "Call") for line in (3, 5))
    obstacles = (
        Obstacle("unresolved-optimizer", one, "", ((other, "see"),)),
        Obstacle("unresolved-optimizer", other, "", ((one, "see"),)),
    )
    assert [f.anchor for f in findings_of(Project({}, obstacles=obstacles))] == [one]


# Opt levels and checkpoints


@pytest.mark.parametrize("level", ["O0", "O1", "O4"])
def test_an_early_wrap_is_right_where_no_parameter_is_cast(level: str) -> None:
    project = project_of(train=code_of(RULES["AMP103"], "Before") or "")
    (finding,) = findings_of(project, Settings(opt_level=level))
    assert (finding.code, finding.anchor.line, finding.refuses) == ("AMP103", 4, False)
    assert f"right at {level}" in finding.message


def test_an_early_wrap_is_no_matter_once_amp_is_there(tmp_path: Path) -> None:
    before = code_of(RULES["AMP103"], "Before") or ""
    script = tmp_path / "train.py"
    script.write_text(before, encoding="utf-8")
    report = run([script], Settings(root=str(tmp_path)))
    assert [loop.state for loop in report.loops] == ["migrated"]
    assert findings_of(project_of(train=result(report, before))) == []


@pytest.mark.parametrize("level", ["O2", "O3", "O5"])
def test_an_early_wrap_is_refused_where_parameters_are_cast(level: str) -> None:
    project = project_of(train=code_of(RULES["AMP103"], "Before") or "")
    (finding,) = findings_of(project, Settings(opt_level=level))
    assert (finding.code, finding.anchor.line, finding.loop) == ("AMP103", 4, project.loops[0].id)
    assert level in finding.message


def test_a_wrap_after_the_optimizer_is_right_at_every_level() -> None:
    project = project_of(train=f"{MODEL}model = torch.nn.DataParallel(model)\n{LOOP}")
    assert findings_of(project, Settings(opt_level="O2")) == []


def test_optimizer_state_alone_is_no_matter_where_the_loop_is_refused() -> None:
    save = 'torch.save(optimizer.state_dict(), "optimizer.pt")\n'
    assert [f.code for f in findings_of(project_of(train=MODEL + LOOP + save))] == ["AMP402"]
    refused = MODEL.replace("(4, 1)", "(4, 1).double()")
    assert [f.code for f in findings_of(project_of(train=refused + LOOP + save))] == ["AMP305"]


# Frameworks in charge of a file


def test_what_a_framework_causes_is_not_told_beside_it() -> None:
    project = project_of(train=code_of(RULES["AMP604"], "Before") or "")
    (finding,) = findings_of(project)
    assert (finding.code, finding.refuses) == ("AMP604", True)
    assert [r.anchor.line for r in finding.related] == [8, 9]


def test_a_loop_beside_a_framework_is_refused_and_takes_the_rest_of_the_file_along() -> None:
    project = project_of(
        train=f"""\
import deepspeed
{MODEL}{LOOP}

def other(engine, batches):
    for batch in batches:
        engine.backward(engine(batch).mean())
"""
    )
    (finding,) = findings_of(project)
    assert (finding.code, finding.loop) == ("AMP604", project.loops[0].id)
    assert [r.anchor.line for r in finding.related] == [14]


def test_another_file_of_the_project_keeps_what_is_said_of_it() -> None:
    engine = """\
        def train(engine, batches):
            for batch in batches:
                engine.backward(engine(batch).mean())
        """
    project = project_of(one=f"{dedent(engine)}\nimport deepspeed\n", two=engine)
    assert said(project) == [("AMP604", "one.py", 5, True), ("AMP210", "two.py", 3, True)]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("import pytorch_lightning as pl\n\nclass M(pl.LightningModule):\n    pass\n", ["AMP601"]),
        ("from lightning.pytorch import Trainer as Runner\n\nRunner().fit(None)\n", []),
        ("import lightning\n\nlightning.seed_everything(1)\n", []),
        ("from mine import Trainer\nimport lightning\n\nTrainer().fit(None)\n", []),
        ("from lightning.pytorch import Trainer as Runner\n\nRunner(**options).fit(None)\n", ["AMP611"]),
        ("from accelerate import Accelerator\n\naccelerator = Accelerator()\n", ["AMP602"]),
        ("from accelerate.utils import set_seed\n\nset_seed(1)\n", []),
        ("from transformers import Trainer\n\nclass Mine(Trainer):\n    pass\n", ["AMP603"]),
        ("import transformers\n\ntrainer = transformers.Trainer()\n", ["AMP603"]),
        ("from transformers import Trainer\n\n\ndef f(trainer: 'Trainer'):\n    pass\n", []),
        ("import deepspeed\n\nengine = deepspeed.initialize(model=None)\n", ["AMP604"]),
        ("import deepspeed\n\nprint(deepspeed.__version__)\n", []),
        ("import torch\n\nwith torch.autocast('cuda'):\n    pass\n", []),
        ("from apex import amp\n", []),
    ],
)
def test_a_file_without_sites_is_told_of_where_it_puts_a_framework_to_work(text: str, codes: list[str]) -> None:
    findings = findings_of(project_of(train=text))
    assert [f.code for f in findings] == codes
    assert all(f.refuses for f in findings)


def test_a_loop_that_is_not_refused_for_the_framework_keeps_its_other_obstacles() -> None:
    files = project_of(train="import deepspeed\n").files
    where = Anchor("train.py", 1, 0, 1, 5, "Call")
    site = Site("backward", where, "a")
    ours = Obstacle("foreign-backward", where, "", loop="a")
    assert in_charge([ours], [site], files) == (ours,)
    charge = Obstacle("deepspeed-loop", where, "deepspeed", loop="a")
    assert in_charge([ours, charge], [site], files) == (charge,)


def test_obstacles_that_no_framework_causes_stay_beside_it() -> None:
    files = project_of(train="from torch.cuda.amp import autocast\n").files
    where = Anchor("train.py", 1, 0, 1, 5, "Call")
    charge = Obstacle("torch-amp-loop", where, "torch.cuda.amp.autocast", loop="a")
    closure = Obstacle("closure-step", where, "", loop="a")
    assert in_charge([closure, charge], [], files) == (closure, charge)


def test_sites_that_do_not_train_are_left_out_of_what_a_framework_takes() -> None:
    files = project_of(train="import deepspeed\n").files
    where = Anchor("train.py", 1, 0, 1, 5, "Call")
    assert in_charge([], [Site("backward", where, None, training=False)], files) == ()
    (held,) = in_charge([], [Site("backward", where, None)], files)
    assert (held.kind, held.loop, [place for place, _ in held.related]) == ("deepspeed-loop", None, [where])


SAVE = """\
checkpoint = torch.load("last.pt")
{use}
optimizer.load_state_dict(checkpoint["optimizer"])
weights = torch.load("pretrained.pt")
model.load_state_dict({{name[7:]: value for name, value in weights.items()}})
state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
torch.save(state, "last.pt")
{then}
"""


@pytest.mark.parametrize(
    ("use", "then", "fixed"),
    [
        ("model.load_state_dict(checkpoint['model'])", "best = state['model']", {"AMP401", "AMP403"}),
        ("epochs = checkpoint['epochs'] if 'epochs' in checkpoint else 3", "state.clear()", {"AMP401", "AMP403"}),
        ("for name, part in checkpoint.items(): print(name)", "", set()),
        ("first, second = checkpoint.values()", "", set()),
        ("for name in checkpoint: print(name)", "", set()),
        ("assert set(checkpoint) == {'model', 'optimizer'}", "", set()),
        ("settings = dict(epochs=3, **checkpoint)", "", set()),
        ("merged = {'epochs': 3, **checkpoint}", "", set()),
        ("merged = {}; merged.update(checkpoint)", "", set()),
        ("", "files = [torch.save(part, name) for name, part in state.items()]", {"AMP403"}),
    ],
)
def test_a_checkpoint_that_is_read_as_a_whole_gets_no_new_key(use: str, then: str, fixed: set[str]) -> None:
    project = project_of(train=MODEL + LOOP + SAVE.format(use=use, then=then))
    found = {f.code: f for f in run_rules(project, Settings()) if f.code in ("AMP401", "AMP403")}
    assert set(found) == {"AMP401", "AMP403"}
    assert {code for code, finding in found.items() if finding.fix is not None} == fixed
    assert all(finding.hint for finding in found.values() if finding.fix is None)


TWO = """
second = torch.optim.SGD(model.parameters(), lr=0.1)
checkpoint = torch.load("last.pt")
optimizer.load_state_dict(checkpoint["first"])
{between}
second.load_state_dict(checkpoint["second"])
for x in [torch.ones(2, 4)]:
    model(x).sum().backward()
    optimizer.step()
    second.step()
"""


@pytest.mark.parametrize(
    ("between", "places"),
    [("", 1), ("print('half of it')", 1), ("checkpoint = torch.load('other.pt')", 2), ("if True: pass", 2)],
)
def test_amp_state_is_loaded_once_from_a_checkpoint_of_two_optimizers(between: str, places: int) -> None:
    project = project_of(train=MODEL + TWO.format(between=between))
    found = [f for f in run_rules(project, Settings()) if f.code == "AMP403"]
    assert len(found) == 2
    inserted = {
        e for f in found if f.fix is not None for e in f.fix.edits if "load_state_dict" in getattr(e, "code", "")
    }
    assert len(inserted) == places


def test_nothing_is_migrated_in_a_file_that_more_use_than_can_be_followed() -> None:
    text = MODEL + LOOP
    source = SourceFile("engine.py", text.encode(), text, "utf-8", b"", "\n")
    project = build_project([source], Settings(), crowded=frozenset({"engine.py"}))
    refusals = [finding for finding in run_rules(project, Settings()) if finding.refuses]
    assert [(finding.code, finding.anchor.line) for finding in refusals] == [("AMP214", 7)]
    assert "more files use it" in refusals[0].message


SWITCHED = """\
try:
    from apex import amp
except ImportError:
    amp = None
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if {condition}:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    {backward}
    optimizer.step()
"""
SCALED = """\
if amp is not None:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()"""


@pytest.mark.parametrize(
    ("condition", "backward", "moves"),
    [
        ("amp is not None", SCALED, True),
        ("amp is not None", "loss.backward()", True),
        ("amp is not None and torch.cuda.is_available()", "loss.backward()", False),
    ],
)
def test_imports_of_apex_wait_for_a_backward_that_the_runtime_would_refuse(
    condition: str, backward: str, moves: bool, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SWITCHED.format(condition=condition, backward=backward), encoding="utf-8")
    report = run([script], Settings(root=str(tmp_path)))
    assert any(outcome.after is not None for outcome in report.outcomes) is moves
    assert {finding.code for finding in report.findings if finding.refuses} == (
        set() if moves else {"AMP201", "AMP502"}
    )


NATIVE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
{load}
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(torch.ones(2, 4)).mean()
    scaler.scale(loss).backward()
    {clip}
    scaler.step(optimizer)
    scaler.update()
torch.save({{"net": model.state_dict(), "optim": optimizer.state_dict()}}, "last.pt")
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("load", "clip", "unsafe", "fixed"),
    [
        ("", "", False, {"AMP420", "AMP504"}),
        ("", CLIP, False, {"AMP420"}),
        ("", CLIP, True, {"AMP220", "AMP420", "AMP504"}),
        ("state = torch.load('a.pt')\nprint(optimizer.load_state_dict(state['optim']))", "", False, {"AMP504"}),
        (
            "state = torch.load('a.pt')\noptimizer.load_state_dict(state['optim'])",
            "",
            False,
            {"AMP420", "AMP421", "AMP504"},
        ),
        (
            "state = torch.load('a.pt')\noptimizer.load_state_dict(state['optim'])\nprint(len(state))",
            "",
            False,
            {"AMP504"},
        ),
    ],
)
def test_a_loop_in_torch_amp_is_spelled_for_today_only_if_it_is_right_and_stores_its_scale_both_ways(
    load: str, clip: str, unsafe: bool, fixed: set[str]
) -> None:
    found = run_rules(project_of(train=NATIVE.format(load=load, clip=clip)), Settings(unsafe=unsafe))
    assert {finding.code for finding in found if finding.fix is not None} >= fixed
    assert "AMP504" in {finding.code for finding in found}
    safe = {f.code for f in found if f.fix is not None and (unsafe or f.fix.applicability == "safe")}
    assert safe == fixed
