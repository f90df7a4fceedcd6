"""Whether code that is run often makes its object the first time only, and keeps it."""

from __future__ import annotations

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import last_name, path_to
from ampify.model import facts as f

_KEEPING = frozenset({"cache", "cached_property", "lru_cache"})


def made_once(build: Event, flow: Flow) -> bool:
    """Whether a build is that of a cached function, or is kept under a name that a condition around it asks for."""
    scope = flow.scope(build.frame)
    if any(last_name(decorator) in _KEEPING for decorator in scope.decorators):
        return True
    if not isinstance(build.statement, f.Assign):
        return False
    facts = flow.files[build.frame.path]
    kept = {last_name(target) for target in build.statement.targets} - {""}
    around = [block[index] for block, index in path_to(scope.body, build.statement.span)]
    tests = (facts.text(statement.test.span) for statement in around if isinstance(statement, f.Branch))
    return any(name in test and ("None" in test or "not" in test) for test in tests for name in kept)
