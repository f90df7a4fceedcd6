"""The JSON report is what docs/json.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

import ampify
from ampify.model.anchor import Anchor, line_anchor
from ampify.model.edit import Applicability, Delete, Fix
from ampify.model.evidence import Chain, Hop
from ampify.model.finding import Finding, Related
from ampify.model.plan import FileStatus, LoopSummary, Outcome, Report
from ampify.model.site import LedgerEntry, Site, SiteKind, SiteState
from ampify.report.json import json_report, rules_json
from tests.reported import report_of_case

PAGE = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")

BACKWARD = Anchor("train.py", 31, 8, 31, 23, "Call")
CREATION = Anchor("train.py", 12, 4, 12, 49, "Assign")
CHAINS = (
    Chain("loss", (Hop("train.py", 30, "model(...)"), Hop("net.py", 5, "Net()"))),
    Chain("optimizer", (Hop("train.py", 14, "nothing in the files given sets self.optimizer", lost=True),)),
)
REPORT = Report(
    outcomes=(Outcome("train.py", "changed"), Outcome("größe.py", "failed", reason="AMP003: does not parse")),
    findings=(
        Finding(
            "AMP201",
            "unscaled-backward",
            BACKWARD,
            "it is not scaled",
            "scale it",
            Fix((Delete(BACKWARD),), "safe", "train.py:27:4"),
            loop="train.py:27:4",
            related=(Related(CREATION, "made here"),),
        ),
        Finding("AMP003", "unparsable-file", line_anchor("größe.py", 3), "does not parse", refuses=True),
    ),
    loops=(
        LoopSummary(
            "train.py:27:4",
            "train.py",
            27,
            ("model",),
            ("optimizer",),
            (("train.py", 31),),
            ("train.py", 12),
            "migrated",
        ),
        LoopSummary("x", "other.py", 1, (), (), (), None, "refused"),
    ),
    ledger=(
        LedgerEntry(Site("backward", BACKWARD, "train.py:27:4", evidence=CHAINS), "rewritten", "AMP201"),
        LedgerEntry(Site("save", CREATION, None, training=False), "not_training", ""),
    ),
    wrote=True,
)


def test_everything_is_in_it_as_people_count() -> None:
    text = json_report(REPORT)
    assert text.endswith("}\n")
    assert "größe.py" in text
    assert json.loads(text) == {
        "schema": 1,
        "version": ampify.__version__,
        "files": [
            {"path": "train.py", "status": "changed", "reason": ""},
            {"path": "größe.py", "status": "failed", "reason": "AMP003: does not parse"},
        ],
        "findings": [
            {
                "code": "AMP201",
                "name": "unscaled-backward",
                "path": "train.py",
                "line": 31,
                "column": 9,
                "end_line": 31,
                "end_column": 24,
                "message": "it is not scaled",
                "hint": "scale it",
                "applicability": "safe",
                "refuses": False,
                "loop": "train.py:27:4",
                "related": [
                    {
                        "path": "train.py",
                        "line": 12,
                        "column": 5,
                        "end_line": 12,
                        "end_column": 50,
                        "message": "made here",
                    }
                ],
            },
            {
                "code": "AMP003",
                "name": "unparsable-file",
                "path": "größe.py",
                "line": 3,
                "column": 1,
                "end_line": 3,
                "end_column": 1,
                "message": "does not parse",
                "hint": "",
                "applicability": "none",
                "refuses": True,
                "loop": None,
                "related": [],
            },
        ],
        "loops": [
            {
                "id": "train.py:27:4",
                "path": "train.py",
                "line": 27,
                "state": "migrated",
                "models": ["model"],
                "optimizers": ["optimizer"],
                "backwards": [{"path": "train.py", "line": 31}],
                "initialize": {"path": "train.py", "line": 12},
            },
            {
                "id": "x",
                "path": "other.py",
                "line": 1,
                "state": "refused",
                "models": [],
                "optimizers": [],
                "backwards": [],
                "initialize": None,
            },
        ],
        "sites": [
            {
                "kind": "backward",
                "path": "train.py",
                "line": 31,
                "column": 9,
                "state": "rewritten",
                "code": "AMP201",
                "loop": "train.py:27:4",
                "evidence": [
                    {"chain": 1, "object": "loss", "path": "train.py", "line": 30, "how": "model(...)", "lost": False},
                    {"chain": 1, "object": "loss", "path": "net.py", "line": 5, "how": "Net()", "lost": False},
                    {
                        "chain": 2,
                        "object": "optimizer",
                        "path": "train.py",
                        "line": 14,
                        "how": "nothing in the files given sets self.optimizer",
                        "lost": True,
                    },
                ],
            },
            {
                "kind": "save",
                "path": "train.py",
                "line": 12,
                "column": 5,
                "state": "not_training",
                "code": "",
                "loop": None,
                "evidence": [],
            },
        ],
        "summary": {
            "wrote": True,
            "files": {"changed": 1, "unchanged": 0, "refused": 0, "failed": 1, "skipped": 0},
            "findings": 2,
            "refusals": 1,
            "loops": {"migrated": 1, "right": 0, "refused": 1},
            "sites": {"rewritten": 1, "right": 0, "not_training": 1, "refused": 0},
        },
    }


def test_rules() -> None:
    assert json.loads(rules_json([("AMP201", "unscaled-backward", "It is not scaled.")])) == [
        {"code": "AMP201", "name": "unscaled-backward", "summary": "It is not scaled."}
    ]


def keys(value: Any) -> Any:
    """The shape of a document: its keys, and those of the first item of its lists."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [keys(item) for item in value[:1]]
    return None


def test_the_example_of_the_page_has_the_shape_of_a_real_report() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert keys(json.loads(example)) == keys(json.loads(json_report(REPORT)))


def test_the_page_names_every_status_and_state() -> None:
    for word in (
        "changed",
        "unchanged",
        "refused",
        "failed",
        "skipped",
        "migrated",
        "right",
        "rewritten",
        "not_training",
    ):
        assert f"| `{word}` |" in PAGE, word


# The schema


SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "report.schema.json").read_text(encoding="utf-8"))


def strict(schema: Any) -> Any:
    """The schema without its leave to add keys, so that a key that it lacks is seen."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items()}
    return inner if "properties" not in schema else {"additionalProperties": False, **inner}


VALIDATOR = jsonschema.Draft202012Validator(strict(SCHEMA))


@pytest.mark.parametrize("name", ["mixed_repository", "dcgan", "checkpoint_resume", "merge_conflict", "fgsm_attack"])
def test_reports_of_cases_are_as_the_schema_says(name: str) -> None:
    VALIDATOR.validate(json.loads(json_report(report_of_case(name))))


def test_the_schema_takes_the_example_of_the_page_and_every_kind_of_entry() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    VALIDATOR.validate(json.loads(example))
    VALIDATOR.validate(json.loads(json_report(REPORT)))


@pytest.mark.parametrize(
    ("key", "value"), [("schema", 2), ("files", [{"path": "a", "status": "odd", "reason": ""}]), ("loops", None)]
)
def test_the_schema_refuses_what_is_no_report(key: str, value: object) -> None:
    document = json.loads(json_report(REPORT))
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**document, key: value})
    del document[key]
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)


def test_a_reader_that_validates_is_not_broken_by_a_new_key() -> None:
    document = json.loads(json_report(REPORT))
    jsonschema.Draft202012Validator(SCHEMA).validate({**document, "new": 1})


def test_the_schema_knows_the_states_of_the_code() -> None:
    definitions = SCHEMA["$defs"]
    assert definitions["file"]["properties"]["status"]["enum"] == [*get_args(FileStatus)]
    assert definitions["site"]["properties"]["kind"]["enum"] == [*get_args(SiteKind)]
    assert definitions["site"]["properties"]["state"]["enum"] == [*get_args(SiteState)]
    assert definitions["finding"]["properties"]["applicability"]["enum"] == [*get_args(Applicability)]
