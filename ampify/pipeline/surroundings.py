"""What a migrated repository needs around its scripts: the runtime as a requirement, or as a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ampify.config import import_folder
from ampify.dependencies.apex_lines import apex_findings
from ampify.dependencies.declaration import RUNTIME_REQUIREMENT
from ampify.dependencies.findings import declaration_findings, native_findings
from ampify.dependencies.import_line import import_line
from ampify.dependencies.nearest import Declared, Nearest, nearest_declarations, read_declaration
from ampify.model.anchor import line_anchor
from ampify.model.edit import Edit
from ampify.model.finding import Finding
from ampify.model.plan import Outcome
from ampify.model.settings import Settings
from ampify.model.source import SourceFile
from ampify.pipeline.locking import locks_of
from ampify.pipeline.rewriting import renewed, rewrite_file
from ampify.pipeline.settling import failed
from ampify.vendor import runtime_files, vendor_outcomes

OUT_OF_REACH = ("AMP113", "runtime-copy-out-of-reach")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Outcomes and findings on files around the migrated ones."""

    outcomes: tuple[Outcome, ...] = ()
    findings: tuple[Finding, ...] = ()


def surround(
    migrated: Sequence[tuple[Path, SourceFile]],
    bounds: Sequence[Path],
    settings: Settings,
    *,
    off_apex: bool = False,
    writing: bool = False,
) -> Surroundings:
    """What to change and to say for the sake of the `migrated` files, each with its real path.

    `off_apex` tells that apex was imported before and is nowhere now; `writing`, that the changes are to be written.

    Raises VendorConflict if the copy of the runtime that the settings ask for cannot be made.
    """
    files = [(path, source.path) for path, source in migrated]
    nearest = nearest_declarations(files, bounds)
    imports = {source.path: import_line(source.text) for _, source in migrated if source.path in nearest.without}
    findings = [*declaration_findings(nearest, imports, vendored=settings.vendor is not None)]
    if off_apex:
        findings += apex_findings(files, bounds, nearest)
    outcomes: list[Outcome] = []
    if settings.vendor is not None:
        outcomes += vendor_outcomes(Path(settings.root), settings.vendor, runtime_files())
        findings += _out_of_reach(migrated, Path(settings.root, settings.import_root), settings.runtime_module)
    done = _done(nearest, findings, {source.path for _, source in migrated}, settings, writing=writing)
    return Surroundings((*outcomes, *done.outcomes), done.findings)


def _done(
    nearest: Nearest, findings: Iterable[Finding], taken: set[str], settings: Settings, *, writing: bool
) -> Surroundings:
    """What is done about findings on declarations; files that are `taken` are migrated themselves."""
    if writing:
        taken |= locks_of({d.source.path: Path(settings.root, d.source.path) for d in nearest.declared}).keys()
    heard = [finding for finding in findings if settings.wants(finding.code, finding.anchor.path)]
    wanted = [_by_hand(f) if f.fix and f.anchor.path in taken else f for f in heard]
    outcomes: list[Outcome] = []
    for declared in nearest.declared:
        path = declared.source.path
        edits = tuple(edit for f in wanted if f.fix and f.anchor.path == path for edit in f.fix.edits)
        if edits:
            outcomes.append(_declare(declared, edits))
    broken = tuple(failed(o.path, o.reason) for o in outcomes if o.status == "failed")
    return Surroundings(tuple(outcomes), (*wanted, *broken))


def surround_native(
    migrated: Sequence[tuple[Path, SourceFile]],
    bounds: Sequence[Path],
    settings: Settings,
    *,
    off_apex: bool = False,
    writing: bool = False,
) -> Surroundings:
    """What to change and to say for the sake of files that were put into torch's own mixed precision, as `surround`."""
    files = [(path, source.path) for path, source in migrated]
    nearest = nearest_declarations(files, bounds)
    findings = [*native_findings(nearest)]
    if off_apex:
        findings += apex_findings(files, bounds, nearest, target="native")
    return _done(nearest, findings, {source.path for _, source in migrated}, settings, writing=writing)


def _out_of_reach(migrated: Iterable[tuple[Path, SourceFile]], import_root: Path, module: str) -> Iterator[Finding]:
    """Scripts that, run by their path, would not find the copy of the runtime."""
    for path, source in migrated:
        folder = import_folder(path.parent)
        if "__main__" in source.text and folder.resolve() != import_root.resolve():
            message = f"run by its path, this script would not find `{module}`, which is imported from {import_root}/"
            hint = "run it with `python -m`, set PYTHONPATH, or give --vendor a folder next to it"
            yield Finding(*OUT_OF_REACH, line_anchor(source.path, 1), message, hint)


def _by_hand(finding: Finding) -> Finding:
    """The finding without its fix, for a file that is locked, or is migrated itself: the two were planned apart."""
    return replace(finding, fix=None, hint=f"add `{RUNTIME_REQUIREMENT}` there by hand")


def _declare(declared: Declared, edits: tuple[Edit, ...]) -> Outcome:
    """The file with the runtime added, provided that it then lists what it did before and the runtime."""
    source = declared.source
    adds = any(edit in declared.declaration.additions for edit in edits)
    rewritten = rewrite_file((source, edits, ()))
    if rewritten.text is None:
        return Outcome(source.path, "failed", source, reason=rewritten.failure)
    after = read_declaration(renewed(source, rewritten.text))
    required = declared.declaration.names - {"apex"}
    if after is None or not after.names >= required or (adds and not after.lists_runtime):
        return Outcome(source.path, "failed", source, reason="the edited file would not list what it should")
    return Outcome(source.path, "changed", source, rewritten.text)
