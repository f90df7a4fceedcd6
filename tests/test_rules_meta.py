"""Every rule keeps the form that discovery, `ampify explain` and docs/rules.md rely on."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import ampify
from ampify.model.anchor import line_anchor
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.pipeline.problems import describe
from ampify.rules import MODULE_NAME, Rule, RuleFailed, all_rules, find_rule, rule_names, run_rules
from ampify.rules.documentation import (
    CODE_HEADINGS,
    FINDING,
    FIXING,
    STAGE,
    explanation,
    main,
    read_documentation,
    rules_page,
)

PACKAGE = Path(ampify.__file__).parent
RULES_PAGE = PACKAGE.parent / "docs" / "rules.md"
RULES = all_rules()
# What a person would do about it; a name states the problem instead.
REMEDIES = ("add", "fix", "use", "move", "insert", "replace", "remove", "scale", "rewrite", "make", "call")


def each(rule: Rule) -> str:
    return rule.code


def test_every_module_of_that_name_is_found() -> None:
    files = {path.stem for path in (PACKAGE / "rules").glob("amp*.py")}
    assert files == {rule.module.rpartition(".")[2] for rule in RULES}
    assert len(RULES) >= 15


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert list(rule_names().items()) == [(rule.code, rule.name) for rule in RULES]
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=each)
def test_code_and_name_are_those_of_the_file(rule: Rule) -> None:
    match = MODULE_NAME.fullmatch(rule.module.rpartition(".")[2])
    assert match is not None
    assert rule.code == match["code"].upper()
    assert rule.name == match["name"].replace("_", "-")


@pytest.mark.parametrize("rule", RULES, ids=each)
def test_the_name_states_the_problem(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert rule.name.partition("-")[0] not in REMEDIES


@pytest.mark.parametrize("rule", RULES, ids=each)
def test_the_docstring_has_the_fixed_headings_in_order(rule: Rule) -> None:
    documentation = read_documentation(rule.documentation)
    assert re.fullmatch(r"[A-Z`].*\.", documentation.summary), "one sentence on one line"
    assert documentation.headings in ((FIXING, FINDING) if rule.check else (FINDING, STAGE))
    assert all(text for _, text in documentation.sections)


@pytest.mark.parametrize("rule", RULES, ids=each)
def test_code_sections_are_whole_python_files(rule: Rule) -> None:
    for heading, text in read_documentation(rule.documentation).sections:
        if heading in CODE_HEADINGS:
            ast.parse(text)


@pytest.mark.parametrize("rule", RULES, ids=each)
def test_explain_shows_every_section(rule: Rule) -> None:
    text = explanation(rule)
    documentation = read_documentation(rule.documentation)
    assert text.startswith(f"{rule.code} {rule.name}\n\n{documentation.summary}\n")
    for heading, body in documentation.sections:
        assert f"\n{heading}\n{'-' * len(heading)}\n" in text
        assert body.splitlines()[0] in text


def codes_in_the_package() -> Iterator[tuple[Path, str, str | None]]:
    """Codes that appear in the code of the package, each with the name beside it, if it stands in a pair."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        pairs = [node.elts for node in ast.walk(tree) if isinstance(node, ast.Tuple) and len(node.elts) == 2]
        pairs += [
            pair
            for node in ast.walk(tree)
            if isinstance(node, ast.Dict)
            for pair in zip(node.keys, node.values, strict=True)
        ]
        names = {
            code.value: name.value
            for code, name in pairs
            if isinstance(code, ast.Constant) and isinstance(name, ast.Constant) and " " not in str(name.value)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"AMP\d{3}", node.value):
                name = names.get(node.value)
                yield path, node.value, name if isinstance(name, str) else None


def test_every_code_that_a_stage_reports_is_documented_under_its_name() -> None:
    known = {rule.code: rule.name for rule in RULES}
    undocumented = [
        (path.name, code, name)
        for path, code, name in codes_in_the_package()
        if known.get(code) != (name or known.get(code))
    ]
    missing = sorted({code for _, code, _ in codes_in_the_package()} - known.keys())
    assert (undocumented, missing) == ([], [])


def test_finding_a_rule_by_code_or_name_in_any_case() -> None:
    wanted = next(rule for rule in RULES if rule.code == "AMP009")
    for text in ("AMP009", "amp009", "unused-ignore", "Unused-Ignore"):
        assert find_rule(text) is wanted
    assert find_rule("AMP999") is None


# Running


def in_place_of_all_rules(monkeypatch: pytest.MonkeyPatch, *rules: Rule) -> None:
    monkeypatch.setattr("ampify.rules.all_rules", lambda: rules)


def test_findings_come_by_place_from_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(line: int, code: str) -> object:
        return lambda project, settings: iter([Finding(code, "n", line_anchor("a.py", line), "m")])

    in_place_of_all_rules(
        monkeypatch,
        Rule("AMP201", "a", "m", "", check(2, "AMP201")),  # type: ignore[arg-type]
        Rule("AMP202", "b", "m", "", check(1, "AMP202")),  # type: ignore[arg-type]
        Rule("AMP001", "c", "m", "", None),
    )
    assert [finding.code for finding in run_rules(Project({}), Settings())] == ["AMP202", "AMP201"]


def test_a_rule_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(project: Project, settings: Settings) -> Iterator[Finding]:
        yield Finding("AMP201", "n", line_anchor("a.py", 1), "m")
        raise KeyError("of two\nlines")

    in_place_of_all_rules(monkeypatch, Rule("AMP201", "a", "m", "", check))
    with pytest.raises(RuleFailed) as failed:
        run_rules(Project({}), Settings())
    assert describe(failed.value) == r"rule AMP201: KeyError: 'of two\nlines'"
    assert describe(ValueError("of two\n  lines")) == "ValueError: of two lines"


# The page


def test_the_page_is_current(tmp_path: Path) -> None:
    assert RULES_PAGE.read_text(encoding="utf-8") == rules_page(RULES), "run: make docs"
    main([str(tmp_path / "rules.md")])
    assert (tmp_path / "rules.md").read_text(encoding="utf-8") == rules_page(RULES)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_command_writes_the_page_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["documentation"])
    runpy.run_module("ampify.rules.documentation", run_name="__main__")
    assert (tmp_path / "docs" / "rules.md").read_bytes() == RULES_PAGE.read_bytes()


def test_the_page_and_the_explanation_of_a_rule_with_code() -> None:
    module = types.ModuleType("rule")
    module.__doc__ = """It is not scaled.

    What it does
    ------------
    Looks.

    Before
    ------

        loss.backward()

        step()

    Hint
    ----
    Scale it.
    """
    rule = Rule("AMP201", "unscaled-backward", "rule", module.__doc__, None)
    documentation = read_documentation(rule.documentation)
    assert documentation.section("Before") == "loss.backward()\n\nstep()"
    assert documentation.section("After") is None
    assert "Before\n------\n    loss.backward()\n\n    step()\n\nHint\n----\nScale it.\n" in explanation(rule)
    page = rules_page([rule])
    assert "| [AMP201](#amp201-unscaled-backward) | `unscaled-backward` | It is not scaled. |" in page
    assert "## AMP201 unscaled-backward\n\nIt is not scaled.\n\n### What it does\n\nLooks.\n" in page
    assert "```python\nloss.backward()\n\nstep()\n```" in page
