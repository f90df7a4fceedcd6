"""Pieces of ordinary Python that the benchmark's tree is put together from, as `string.Template` texts."""

from __future__ import annotations

HEADERS = (
    '''"""$Noun $plural: reading, checking and passing them on."""

import json
import logging
import os
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any, Dict, Iterable, List, Optional

logger = logging.getLogger(__name__)

DEFAULT_${CONST}_LIMIT = $number
${CONST}_FIELDS = ("id", "name", "$noun", "created_at", "updated_at")

''',
    """#!/usr/bin/env python
# -*- coding: utf-8 -*-
import argparse
import csv
import re
import sys
import time
from pathlib import Path

${CONST}_PATTERN = re.compile(r"^(?P<key>[a-z_]+)\\s*=\\s*(?P<value>.*)$$")
RETRIES = 3

""",
    """from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import itertools
import uuid
from typing import Awaitable, Callable, Mapping, Sequence, TypeVar

T = TypeVar("T")


class ${Noun}State(enum.Enum):
    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    DONE = "done"

""",
)

FUNCTIONS = (
    '''
def load_${noun}_$plural(path, limit=DEFAULT_LIMIT):
    """Read $plural from a JSON-lines file.

    Lines that do not parse are logged and left out. Reading stops after `limit` records.
    """
    records = []
    with open(path, "r") as handle:
        for number, line in enumerate(handle, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                logger.warning("%s:%d: %s", path, number, error)
                continue
            if record.get("$noun") is None:
                record["$noun"] = "unknown"
            records.append(record)
            if len(records) >= limit:
                break
    return records
''',
    """
def summarize_${noun}(rows, key="$noun", window=$number):
    totals = defaultdict(float)
    counts = defaultdict(int)
    for row in rows:
        bucket = row[key] // window if isinstance(row[key], int) else row[key]
        totals[bucket] += float(row.get("amount", 0.0))
        counts[bucket] += 1
    result = {}
    for bucket in sorted(totals, key=str):
        mean = totals[bucket] / max(counts[bucket], 1)
        result[bucket] = {"total": round(totals[bucket], 2), "count": counts[bucket], "mean": round(mean, 4)}
    if len(result) > $number:
        logger.info("summarize_${noun}: %d buckets, only the first $number are kept", len(result))
        result = dict(itertools.islice(result.items(), $number))
    return result
""",
    '''
async def fetch_$noun(client, ${noun}_id, *, timeout=$number, retries=3):
    """Ask the $noun service, again if it is busy."""
    delay = 0.1
    for attempt in range(retries):
        try:
            response = await client.get(f"/api/v1/$plural/{${noun}_id}", timeout=timeout)
            if response.status == 404:
                return None
            if response.status >= 500:
                raise ConnectionError(f"$noun {${noun}_id}: status {response.status} at attempt {attempt + 1}")
            payload = await response.json()
            return {name: payload[name] for name in ("id", "name", "state") if name in payload}
        except (ConnectionError, asyncio.TimeoutError):
            if attempt + 1 == retries:
                raise
            await asyncio.sleep(delay)
            delay *= 2
    return None
''',
    """
def test_${noun}_round_trip(tmp_path):
    source = tmp_path / "$plural.jsonl"
    rows = [{"id": n, "$noun": "$noun-%d" % n, "amount": n * 1.5} for n in range($number)]
    source.write_text("\\n".join(json.dumps(row) for row in rows))
    loaded = load_${noun}_$plural(str(source))
    assert [row["id"] for row in loaded] == list(range($number))
    assert summarize_${noun}(loaded, key="id", window=10)
    assert all(isinstance(row["amount"], float) for row in loaded)
""",
    """
def parse_${noun}_options(argv=None):
    parser = argparse.ArgumentParser(description="Work on $plural")
    parser.add_argument("input", help="file or folder with $plural")
    parser.add_argument("--output", "-o", default="$plural.csv", help="where to write the result")
    parser.add_argument("--limit", type=int, default=$number, help="at most this many $plural (default: %(default)s)")
    parser.add_argument("--since", default=None, help="ignore $plural older than this date, YYYY-MM-DD")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and do nothing")
    parser.add_argument("--verbose", "-v", action="count", default=0)
    options = parser.parse_args(argv)
    if options.limit < 1:
        parser.error("--limit must be at least 1, not %d" % options.limit)
    if options.since is not None and not re.match(r"^\\d{4}-\\d{2}-\\d{2}$$", options.since):
        parser.error("--since wants YYYY-MM-DD, not %r" % options.since)
    return options
""",
    '''
def walk_$noun(node, depth=0, max_depth=$number):
    """Yield (depth, node) for a tree of $plural, parents first; goes backward (leaf to root) in `unwind_$noun`."""
    stack = [(depth, node)]
    seen = set()
    while stack:
        level, current = stack.pop()
        if id(current) in seen or level > max_depth:
            continue
        seen.add(id(current))
        yield level, current
        children = current.get("children") or []
        for child in reversed(children):
            stack.append((level + 1, child))


def unwind_$noun(node):
    return [entry for _, entry in sorted(walk_$noun(node), key=lambda pair: -pair[0])]
''',
)

CLASSES = (
    '''
class ${Noun}Store(object):
    """$Plural by name, with a bound on how many are kept."""

    def __init__(self, root, capacity=$number, clock=time.time):
        self.root = root
        self.capacity = capacity
        self.clock = clock
        self._entries = {}
        self._touched = {}

    def __len__(self):
        return len(self._entries)

    def get(self, name, default=None):
        entry = self._entries.get(name)
        if entry is None:
            return default
        self._touched[name] = self.clock()
        return entry

    def put(self, name, entry):
        if name not in self._entries and len(self._entries) >= self.capacity:
            oldest = min(self._touched, key=self._touched.get)
            del self._entries[oldest], self._touched[oldest]
        self._entries[name] = entry
        self._touched[name] = self.clock()

    def step(self, count=1):
        """Forget what was not touched during the last `count` ticks."""
        horizon = self.clock() - count
        for name in [n for n, t in self._touched.items() if t < horizon]:
            self._entries.pop(name, None)
            self._touched.pop(name, None)

    def export(self, path):
        rows = [{"name": name, "value": value, "touched": self._touched[name]} for name, value in self._entries.items()]
        with open(os.path.join(self.root, path), "w") as handle:
            json.dump(rows, handle, indent=2, sort_keys=True)
        return len(rows)
''',
    """
@dataclasses.dataclass
class ${Noun}Record:
    identifier: int
    name: str
    $noun: str = ""
    weight: float = 1.0
    tags: List[str] = dataclasses.field(default_factory=list)
    parent: Optional["${Noun}Record"] = None

    @property
    def path(self) -> str:
        parts = []
        record: Optional["${Noun}Record"] = self
        while record is not None:
            parts.append(record.name)
            record = record.parent
        return "/".join(reversed(parts))

    def matches(self, query: Mapping[str, Any]) -> bool:
        for key, wanted in query.items():
            value = getattr(self, key, None)
            if callable(wanted):
                if not wanted(value):
                    return False
            elif isinstance(wanted, (list, tuple, set)):
                if value not in wanted:
                    return False
            elif value != wanted:
                return False
        return True

    @classmethod
    def from_row(cls, row: Sequence[str]) -> "${Noun}Record":
        identifier, name, *rest = row
        return cls(int(identifier), name.strip(), *(cell.strip() for cell in rest[:1]))
""",
    '''
class ${Noun}Handler(BaseHandler):
    """Serves $plural over HTTP."""

    route = r"/$plural(?:/(?P<identifier>\\d+))?"
    page_size = $number

    def get(self, identifier=None):
        if identifier is None:
            page = int(self.query.get("page", 0))
            items = self.service.list(offset=page * self.page_size, limit=self.page_size)
            return self.render({"$plural": [self.present(item) for item in items], "page": page})
        item = self.service.find(int(identifier))
        if item is None:
            return self.fail(404, "no $noun with number %s" % identifier)
        return self.render(self.present(item))

    def post(self):
        try:
            body = json.loads(self.body)
            name, $noun = body["name"], body["$noun"]
        except (ValueError, KeyError) as error:
            return self.fail(400, "cannot read the $noun: %s" % error)
        created = self.service.create(name=name, $noun=$noun, by=self.user.id if self.user else None)
        return self.render(self.present(created), status=201)

    def present(self, item):
        return {
            "id": item.id,
            "name": item.name,
            "$noun": item.$noun,
            "links": {"self": "/$plural/%d" % item.id, "collection": "/$plural"},
            "age": (datetime.utcnow() - item.created_at).total_seconds() if item.created_at else None,
        }
''',
)

NOUNS = (
    *("account", "album", "order", "invoice", "ticket", "sensor", "route", "vessel", "parcel", "meter", "recipe"),
    *("lecture", "sample", "region", "station", "tariff", "voucher", "license", "gateway", "channel", "article"),
    *("cluster", "payment", "device", "session", "profile", "feature", "segment", "catalog", "warehouse", "survey"),
)
