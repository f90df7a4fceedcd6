"""The benchmark's tree: thousands of Python files as in a large old repository, of which one in a hundred trains."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from fragments import CLASSES, FUNCTIONS, HEADERS, NOUNS
from torch_fragments import MODEL, READER, TRAINING_SCRIPTS

FILES = 4_000
TRAINING_SHARE = 0.01
SEED = 2024
# Files of each hundred that do not train; what is left goes to `services/`.
FOLDERS = (("lib", 10), ("pipelines", 25), ("tests", 20), ("serving", 3))


@dataclass(frozen=True, slots=True)
class Tree:
    """What was written: how many files, lines and bytes, and which files train."""

    files: int
    lines: int
    size: int
    training: tuple[str, ...]


def words(rng: random.Random) -> dict[str, str]:
    """One choice of names and numbers to fill a fragment with."""
    noun = rng.choice(NOUNS)
    return {
        "noun": noun,
        "plural": noun + "s",
        "Noun": noun.capitalize(),
        "Plural": noun.capitalize() + "s",
        "CONST": noun.upper(),
        "number": str(rng.randrange(8, 512)),
    }


def fill(rng: random.Random, text: str, **more: str) -> str:
    """`text` with its placeholders filled in at random, or as `more` says."""
    return Template(text).substitute(words(rng) | more)


def imports(rng: random.Random, shared: int) -> str:
    """Imports of up to three of the first `shared` modules in `lib/`: what ties the files of a repository together."""
    if shared == 0:
        return ""
    numbers = sorted({rng.randrange(shared) for _ in range(rng.randrange(4))})
    return "".join(f"from lib import module_{number:04d}\n" for number in numbers)


def ordinary(rng: random.Random, shared: int) -> str:
    """A file that has nothing to do with training; lengths are spread as in real code, many short and a few long."""
    wanted = min(max(int(rng.lognormvariate(5.2, 0.7)), 20), 1_500)
    parts = [fill(rng, rng.choice(HEADERS)), imports(rng, shared)]
    lines = 0
    while lines < wanted:
        part = fill(rng, rng.choice(FUNCTIONS + CLASSES)).lstrip("\n")
        parts.append("\n\n" + part)
        lines += part.count("\n") + 2
    return "".join(parts)


def project(rng: random.Random, number: int, shared: int) -> Iterator[tuple[str, str]]:
    """A folder with a model, its data and the script that trains it."""
    noun = rng.choice(NOUNS)
    names = {"noun": noun, "Noun": noun.capitalize(), "plural": noun + "s"}
    folder = f"research/{noun}_{number:03d}"
    filler = imports(rng, shared) + "".join("\n" + fill(rng, rng.choice(FUNCTIONS)) for _ in range(rng.randrange(1, 6)))
    script = TRAINING_SCRIPTS[number % len(TRAINING_SCRIPTS)]
    yield f"{folder}/model.py", fill(rng, MODEL, **names)
    yield f"{folder}/data.py", fill(rng, READER, **names)
    yield f"{folder}/train.py", fill(rng, script, filler=filler, **names)


def folder_of(rng: random.Random, number: int) -> str:
    """Where an ordinary file stands."""
    draw = rng.randrange(100)
    for folder, share in FOLDERS:
        if draw < share:
            return folder
        draw -= share
    return f"services/{rng.choice(NOUNS)}{number % 7}"


def contents(files: int = FILES, seed: int = SEED) -> Iterator[tuple[str, str]]:
    """All files of the tree as (path, text): the same for the same arguments, on every machine."""
    rng = random.Random(seed)
    training = max(round(files * TRAINING_SHARE), 1)
    shared = max(files // 10, 1)
    written = 0
    for number in range(training):
        for path, text in project(rng, number, shared):
            yield path, text
            written += 1
    for number in range(files - written):
        if number < shared:
            # Of the modules before it alone: a library has layers, and no circle of imports.
            yield f"lib/module_{number:04d}.py", ordinary(rng, number)
            continue
        folder = folder_of(rng, number)
        text = fill(rng, MODEL) if folder == "serving" else ordinary(rng, shared)
        yield f"{folder}/module_{number:04d}.py", text


def write_tree(root: Path, files: int = FILES, seed: int = SEED) -> Tree:
    """Write the tree under `root`."""
    lines = size = count = 0
    training = []
    for path, text in contents(files, seed):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
        count += 1
        lines += text.count("\n")
        size += len(text.encode("utf-8"))
        if path.endswith("/train.py"):
            training.append(path)
    return Tree(count, lines, size, tuple(sorted(training)))


def main() -> None:
    """Write the tree where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    tree = write_tree(args.root, args.files, args.seed)
    print(f"{tree.files} files, {tree.lines} lines, {tree.size / 1e6:.1f} MB, {len(tree.training)} of them train")


if __name__ == "__main__":
    main()
