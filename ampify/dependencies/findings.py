"""What is to be said of the declarations of a migrated repository: the runtime is missing, a version is too old."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ampify.dependencies.declaration import RUNTIME_REQUIREMENT, Declaration
from ampify.dependencies.nearest import Nearest
from ampify.dependencies.pins import NATIVE_TORCH_FLOOR, PYTHON_FLOOR, TORCH_FLOOR, python_too_old, torch_too_old
from ampify.model.anchor import line_anchor
from ampify.model.edit import Fix
from ampify.model.finding import Finding, Related

MISSING = ("AMP110", "runtime-requirement-missing")
TORCH_TOO_OLD = ("AMP111", "torch-too-old")
PYTHON_TOO_OLD = ("AMP112", "python-too-old")


def declaration_findings(nearest: Nearest, imports: Mapping[str, int], *, vendored: bool) -> tuple[Finding, ...]:
    """Findings on the files that declare what a migrated repository needs, and on their lack.

    `imports` gives the line at which their lack is told, of each file that is without. A repository that got a copy of
    the runtime (`vendored`) needs no requirement, but the same versions.
    """
    findings = [finding for declared in nearest.declared for finding in _versions(declared.declaration)]
    if not vendored:
        findings += [finding for declared in nearest.declared for finding in _requirement(declared.declaration)]
        findings += _nowhere(nearest.without, imports)
    return tuple(findings)


def native_findings(nearest: Nearest) -> tuple[Finding, ...]:
    """Findings on the files that declare a torch without what code in torch's own mixed precision needs of it."""
    return tuple(finding for declared in nearest.declared for finding in _native_versions(declared.declaration))


def _native_versions(declaration: Declaration) -> Iterator[Finding]:
    for torch in declaration.torch:
        if torch_too_old(torch, NATIVE_TORCH_FLOOR):
            message = f"`{torch.text}` allows no torch of {NATIVE_TORCH_FLOOR} or later, which has torch.amp.GradScaler"
            hint = f"raise it to torch>={NATIVE_TORCH_FLOOR} and see that the rest of the code runs there"
            yield Finding(*TORCH_TOO_OLD, line_anchor(declaration.path, torch.line), message, hint)


def _requirement(declaration: Declaration) -> Iterator[Finding]:
    if declaration.lists_runtime or not declaration.lists_torch:
        return
    code, name = MISSING
    anchor = line_anchor(declaration.path, declaration.torch[0].line)
    if declaration.obstacle:
        message = f"torch is listed here, but `{RUNTIME_REQUIREMENT}` could not be added: {declaration.obstacle}"
        yield Finding(code, name, anchor, message, f"add `{RUNTIME_REQUIREMENT}` to it, or use --vendor")
        return
    message = f"the migrated code imports the runtime, and this file lists torch without `{RUNTIME_REQUIREMENT}`"
    yield Finding(code, name, anchor, message, fix=Fix(declaration.additions))


def _nowhere(without: tuple[str, ...], imports: Mapping[str, int]) -> Iterator[Finding]:
    if not without:
        return
    code, name = MISSING
    message = "the migrated code imports the runtime, and no file that lists torch was found to add it to"
    hint = (
        f"where the code is to run: pip install '{RUNTIME_REQUIREMENT}' if your package index has it, "
        "pip install . in a checkout of ampify otherwise; or copy the runtime in with --vendor DIR"
    )
    first, *others = (line_anchor(path, imports[path]) for path in without)
    related = tuple(Related(anchor, "imports the runtime too") for anchor in others)
    yield Finding(code, name, first, message, hint, related=related)


def _versions(declaration: Declaration) -> Iterator[Finding]:
    for torch in filter(torch_too_old, declaration.torch):
        message = f"`{torch.text}` allows no torch of {TORCH_FLOOR} or later, which the runtime needs"
        hint = f"raise it to torch>={TORCH_FLOOR} and see that the rest of the code runs there"
        yield Finding(*TORCH_TOO_OLD, line_anchor(declaration.path, torch.line), message, hint)
    python = declaration.python
    if python is not None and python_too_old(python):
        message = f"`{python.text}` allows no Python of {PYTHON_FLOOR} or later, which the runtime needs"
        hint = f"allow Python {PYTHON_FLOOR} and see that the rest of the code runs there"
        yield Finding(*PYTHON_TOO_OLD, line_anchor(declaration.path, python.line), message, hint)
