"""Decides on bytes alone, before anything is parsed, which files can matter to a training loop.

Taking a file too many costs time; missing one would make the analysis wrong. So every test here errs on the side of
taking it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from ampify.discover.imports import ImportGraph, import_graph

# A word, and the pattern that must fit around one of its places: searching for plain bytes is many times faster than
# for a pattern, so the pattern only ever sees a few bytes.
_SEEDS: Final[tuple[tuple[bytes, re.Pattern[bytes]], ...]] = (
    # As an attribute, or by name for getattr. The bare word is mostly prose: "backward (and forward)".
    (b"backward", re.compile(rb"\.[\s\\]*backward\b|[\"']backward[\"']")),
    (
        b"autograd",
        re.compile(rb"\bautograd[\s\\]*\.[\s\\]*grad\b|\bautograd[\s\\]+(import|as)\b|import[\s\\(]+autograd\b"),
    ),
    (b"amp.", re.compile(rb"\bamp\.")),
    (b".amp", re.compile(rb"\.amp\b")),
    (b"import amp", re.compile(rb"\bimport amp\b")),
    (b"ampify_runtime", re.compile(rb"ampify_runtime")),
    (b"apex", re.compile(rb"\bapex\b")),
    (b"amp_C", re.compile(rb"\bamp_C\b")),
    (b"GradScaler", re.compile(rb"GradScaler")),
    (b"autocast", re.compile(rb"autocast")),
    # Frameworks that run the loop themselves: their users write no backward, and are told why nothing is done.
    (b"training_step", re.compile(rb"\btraining_step\b")),
    (b"Trainer", re.compile(rb"Trainer\b")),
    (b"TrainingArguments", re.compile(rb"TrainingArguments\b")),
    (b"lightning", re.compile(rb"\b(pytorch_)?lightning\b")),
    (b"accelerate", re.compile(rb"\b(import|from)[\s\\]+accelerate\b")),
    (b"deepspeed", re.compile(rb"\bdeepspeed\b")),
    (b"fastai", re.compile(rb"\bfastai\b")),
    (b"create_supervised_trainer", re.compile(rb"\bcreate_supervised_trainer\b")),
)
# No word can be searched for in such text: it may hold any.
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
# How many bytes around a word its pattern gets to see.
_CONTEXT: Final = 24

# So many files use a training file only in a large library, and following them all would take minutes.
MANY_USERS: Final = 500
# So many files are read for what a training file uses: what lies further away is like a package that is not there.
MANY_USED: Final = 1_000

# What a file that builds, moves, stores or hands on a model, an optimizer or their options will mention.
_TOPICS: Final = re.compile(
    rb"torch|optim|[Mm]odel|Module|parameters|state_dict|checkpoint|cuda|device|[Ll]oss|[Gg]rad|sched|criterion"
    rb"|argparse|add_argument|Namespace|[Cc]onfig|[Tt]rain|\.step\b"
)


@dataclass(frozen=True, slots=True)
class Relevance:
    """The files that can matter to a training loop; `crowded` are those of them that too many files use to look at
    all: what trains there is not known."""

    files: Set[str]
    crowded: frozenset[str] = frozenset()


def relevant(files: Mapping[str, bytes]) -> Relevance:
    """Those of `files` (contents by the names to show) that can matter to a training loop.

    These are the files that hold a backward pass, mixed-precision code or a framework's training loop; all that import
    them, at any remove; and what those import in turn, save branches of the import tree where no file has to do with
    models, optimizers or options. Where that leads to everything, as in a large library, only the nearest are taken.
    """
    seeds = {name for name, content in files.items() if _is_seed(content)}
    if not seeds:
        return Relevance(seeds)
    graph = import_graph(files)
    crowded = frozenset(seed for seed in seeds if _is_crowded(seed, graph))
    core = _closure(seeds - crowded, graph.importers)
    used = _nearest(core, graph.imports)
    return Relevance(core | crowded | _worth_following(core, used - core, graph, files), crowded)


def _is_crowded(seed: str, graph: ImportGraph) -> bool:
    reached = {seed}
    waiting = [seed]
    while waiting and len(reached) <= MANY_USERS:
        new = graph.importers(waiting.pop()) - reached
        reached |= new
        waiting.extend(new)
    return len(reached) > MANY_USERS


def _is_seed(content: bytes) -> bool:
    return content.startswith(_WIDE) or any(
        word in content and _fits(content, word, pattern) for word, pattern in _SEEDS
    )


def _fits(content: bytes, word: bytes, pattern: re.Pattern[bytes]) -> bool:
    place = content.find(word)
    while place >= 0:
        end = place + len(word)
        if pattern.search(content[max(0, place - _CONTEXT) : end + _CONTEXT]):
            return True
        place = content.find(word, end)
    return False


def _nearest(start: Set[str], successors: Callable[[str], Iterable[str]]) -> set[str]:
    """The closure, or only the first of its rings if with the next one it would be too much."""
    reached = set(start)
    ring = set(start)
    while ring:
        ring = {new for name in ring for new in successors(name)} - reached
        if reached > start and len(reached) + len(ring) > max(MANY_USED, 2 * len(start)):
            break
        reached |= ring
    return reached


def _worth_following(core: Set[str], used: Set[str], graph: ImportGraph, files: Mapping[str, bytes]) -> set[str]:
    """Those of `used` that the core imports directly, that speak of training, or that lead to one that does."""
    speaking = {name for name in used if _TOPICS.search(files[name])}
    direct = {name for importer in core for name in graph.imports(importer)} & used
    return direct | (_closure(speaking, graph.importers) & used)


def _closure(start: Set[str], successors: Callable[[str], Iterable[str]]) -> set[str]:
    reached = set(start)
    waiting = list(start)
    while waiting:
        new = set(successors(waiting.pop())) - reached
        reached |= new
        waiting.extend(new)
    return reached
