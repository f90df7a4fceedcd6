"""Sources that had to be repaired to be read: who they are, and what is said and shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ampify.model.anchor import line_anchor
from ampify.model.edit import Fix
from ampify.model.finding import Finding
from ampify.model.plan import Outcome
from ampify.model.settings import Settings
from ampify.model.source import SourceFile
from ampify.pipeline.locking import locks_of
from ampify.plan.silence import asks_to_be_skipped
from ampify.source import Repaired, repaired

ASYNC_KEYWORD = ("AMP505", "async-keyword")


@dataclass(frozen=True, slots=True)
class Repairs:
    """The repaired sources by path, beside what they were."""

    before: Mapping[str, SourceFile]
    after: Mapping[str, Repaired]

    def findings(self, unparsed: frozenset[str]) -> Iterator[Finding]:
        """A finding for every line that was repaired, in files that can be read since."""
        for path, repair in self.after.items():
            for line in repair.lines if path not in unparsed else ():
                message = "`async` is a word of Python's since 3.7, so that no Python that runs torch reads this file"
                yield Finding(*ASYNC_KEYWORD, line_anchor(path, line), message, fix=Fix(()))

    def shown(self, outcomes: Iterable[Outcome], unparsed: frozenset[str]) -> Iterator[Outcome]:
        """The outcomes, with repaired files as changed from what they were."""
        for outcome in outcomes:
            repair = self.after.get(outcome.path)
            if repair is None or outcome.status == "skipped":
                yield outcome
                continue
            before = self.before[outcome.path]
            if outcome.path in unparsed:
                yield replace(outcome, before=before if outcome.before else None)
                continue
            after = repair.source.text if outcome.after is None else outcome.after
            yield replace(outcome, status="changed", before=before, after=after)


def repair_sources(
    sources: Mapping[str, SourceFile], settings: Settings, targets: Mapping[str, Path] = MappingProxyType({})
) -> Repairs:
    """What can be repaired among `sources`, if the user wants it and, of `targets`, the file may be written."""
    wanted = {path: s for path, s in sources.items() if settings.wants(ASYNC_KEYWORD[0], path)}
    found = {path: repaired(s) for path, s in wanted.items() if not asks_to_be_skipped(s.raw)}
    locks = locks_of({path: targets[path] for path, repair in found.items() if repair and path in targets})
    after = {path: repair for path, repair in found.items() if repair is not None and path not in locks}
    return Repairs({path: sources[path] for path in after}, after)
