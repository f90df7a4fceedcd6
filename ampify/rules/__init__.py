"""The rules: finds them by the names of their files, and runs them all on a project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from ampify.model.finding import Finding
from ampify.model.settings import Settings, Target

if TYPE_CHECKING:  # it takes long to load
    from ampify.model.project import Project

Check: TypeAlias = Callable[["Project", Settings], Iterable[Finding]]

# What is unsafe about a fix, as the documentation has it under "Fix safety".
CAUTION = re.compile(r"^Fix safety\n-+\n.*?\bUnsafe\b[^:]*:\s+(?P<caution>.*?)(?:\.\s|\s*\Z)", re.MULTILINE | re.DOTALL)
MODULE_NAME = re.compile(r"(?P<code>amp\d{3})_(?P<name>[a-z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as its module states it. `check` is None where a stage other than the rules makes the findings, `target`
    where it is for every target."""

    code: str
    name: str
    module: str
    documentation: str
    check: Check | None
    target: Target | None = None


class RuleFailed(Exception):
    """A rule raised; its exception is the cause. Without it nothing is known to be safe to migrate."""

    def __init__(self, code: str) -> None:
        super().__init__(f"rule {code} failed")
        self.code = code


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the codes."""
    return tuple(sorted(_discover(), key=lambda rule: rule.code))


def rule_names() -> dict[str, str]:
    """The names of all rules by their codes, in order, read off those of their files: loading the rules takes long."""
    found = [named for info in iter_modules(__path__) if (named := _named(info.name))]
    return dict(sorted((name["code"].upper(), name["name"].replace("_", "-")) for name in found))


def find_rule(wanted: str) -> Rule | None:
    """The rule of that code or name, in any case."""
    lowered = wanted.lower()
    return next((rule for rule in all_rules() if lowered in (rule.code.lower(), rule.name)), None)


def run_rules(project: Project, settings: Settings) -> tuple[Finding, ...]:
    """What all rules have to say, by place; raises RuleFailed if one of them fails."""
    findings: list[Finding] = []
    for rule in all_rules():
        if rule.target in (None, settings.target):
            findings.extend(_run(rule, project, settings))
    return tuple(sorted(findings, key=lambda finding: (finding.anchor, finding.code)))


def _run(rule: Rule, project: Project, settings: Settings) -> list[Finding]:
    if rule.check is None:
        return []
    try:
        return [_cautioned(rule, finding) for finding in rule.check(project, settings)]
    except Exception as failure:
        raise RuleFailed(rule.code) from failure


def _cautioned(rule: Rule, finding: Finding) -> Finding:
    """A finding whose unsafe fix says what the rule's documentation says of it, the first sentence."""
    if finding.fix is None or finding.fix.applicability != "unsafe":
        return finding
    said = CAUTION.search(rule.documentation)
    caution = " ".join(said["caution"].split()) if said else ""
    return replace(finding, fix=replace(finding.fix, caution=caution))


def _discover() -> Iterator[Rule]:
    for info in iter_modules(__path__):
        if _named(info.name):
            yield _rule(import_module(f"{__name__}.{info.name}"))


def _named(module: str) -> re.Match[str] | None:
    return MODULE_NAME.fullmatch(module)


def _rule(module: ModuleType) -> Rule:
    check: Check | None = getattr(module, "check", None)
    target: Target | None = getattr(module, "TARGET", None)
    return Rule(module.CODE, module.NAME, module.__name__, module.__doc__ or "", check, target)
