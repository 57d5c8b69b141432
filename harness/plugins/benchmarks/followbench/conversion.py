"""Converts FollowBench's published archive into the file that the harness reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.datasets.catalogue import LARGEST, decoded, json_line, member

# In the order of the authors' evaluation. The last one is scored by rules alone.
CATEGORIES = ("content", "situation", "style", "format", "mixed", "example")


def write_instructions(archive: Path, folder: str) -> Iterator[bytes]:
    """Yield the lines of ``followbench/data.jsonl`` from files named after their categories."""
    for category in CATEGORIES:
        name = f"{folder}/{category}_constraints.json"
        [content] = member(archive, name, LARGEST)
        where = f"{archive}: {name} is not a list of rows"
        for row in decoded(content, list[dict[str, Any]], where):
            yield json_line({"constraint_type": category, **row})
