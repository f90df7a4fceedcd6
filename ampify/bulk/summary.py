"""What a bulk run came to, over all repositories, and `summary.json`, which tells it to programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import ampify
from ampify.bulk.sources import Source
from ampify.bulk.state import STATUSES, State
from ampify.report.status import DONE, FAILED, LEFT_FOR_A_PERSON
from ampify.report.wording import counted

SCHEMA: Final = 1
_COMMONEST: Final = 10


@dataclass(frozen=True, slots=True)
class Refusal:
    """How often one rule refuses, over all repositories: places, and repositories that have such a place."""

    code: str
    name: str
    places: int
    repositories: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The repositories in the order of the list, each with what became of it; None if the run did not get to it."""

    rows: tuple[tuple[Source, State | None], ...]

    @property
    def states(self) -> tuple[State, ...]:
        """What became of those that the run got to."""
        return tuple(state for _, state in self.rows if state is not None)

    @property
    def statuses(self) -> Mapping[str, int]:
        """How many repositories there are of each status, and how many were not reached."""
        numbers = Counter(state.status for state in self.states)
        return {**{status: numbers[status] for status in STATUSES}, "not_reached": len(self.rows) - len(self.states)}

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The commonest reasons to refuse, ten at most: by places, then by code."""
        places: Counter[tuple[str, str]] = Counter()
        repositories: Counter[tuple[str, str]] = Counter()
        for state in self.states:
            for code, (name, count) in state.refusals.items():
                places[code, name] += count
                repositories[code, name] += 1
        ranked = sorted(places, key=lambda key: (-places[key], key))
        return tuple(Refusal(*key, places[key], repositories[key]) for key in ranked[:_COMMONEST])

    def total(self, group: str) -> Mapping[str, int]:
        """The sum of one group of counts of the reports: `files`, `loops` or `sites`, by state."""
        total: Counter[str] = Counter()
        for state in self.states:
            total.update(state.counts.get(group, {}))
        return dict(total)

    def exit_status(self, *, exit_zero: bool) -> int:
        """2 if ampify itself failed somewhere, 1 if something is left for a person (not with `exit_zero`), else 0."""
        if any(state.internal for state in self.states):
            return FAILED
        left = any(state.status == "failed" or state.refused for state in self.states) or self.statuses["not_reached"]
        return LEFT_FOR_A_PERSON if left and not exit_zero else DONE


def summary_json(summary: Summary) -> str:
    """The summary as one JSON document that ends in a newline; `docs/bulk.md` describes it."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": ampify.__version__,
        "repositories": [_row(source, state) for source, state in summary.rows],
        "statuses": dict(summary.statuses),
        "files": summary.total("files"),
        "loops": summary.total("loops"),
        "sites": summary.total("sites"),
        "commonest_refusals": [asdict(refusal) for refusal in summary.refusals],
    }
    return json.dumps(document, indent=2) + "\n"


def line_of(state: State) -> str:
    """What became of one repository, in a few words."""
    if state.status == "failed":
        return f"failed: {state.reason}"
    loops: Mapping[str, int] = state.counts.get("loops", {})
    told = ", ".join(f"{counted(count, 'training loop')} {name}" for name, count in loops.items() if count)
    return f"{state.status}: {told or 'no training loop'}"


def listed(states: Sequence[State]) -> str:
    """How many of them came to what: `3 migrated, 1 failed`."""
    numbers = Counter(state.status for state in states)
    return ", ".join(f"{numbers[status]} {status}" for status in STATUSES if numbers[status]) or "nothing"


def _row(source: Source, state: State | None) -> dict[str, Any]:
    if state is None:
        return {"name": source.name, "source": source.shown, "status": "not_reached"}
    fields = asdict(state)
    refusals = [{"code": code, "name": name, "places": count} for code, (name, count) in fields.pop("refusals").items()]
    for internal in ("source_digest", "settings"):
        del fields[internal]
    return {"name": source.name, **fields, "refusals": refusals}
