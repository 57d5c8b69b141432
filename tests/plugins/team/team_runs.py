"""Runs of a team: each process has its own folders, and shares only the database."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.plugins.mock.server import MockServer
from tests.cli.command import Begun, begun


@contextlib.contextmanager
def team_run(
    folder: Path, name: str, url: str, mock: MockServer, rows: int, **sections: Any
) -> Iterator[Begun]:
    """A process with a run of questions that no other run asks; killed at the end."""
    own = folder / name
    own.mkdir(exist_ok=True)
    tree = {
        "task": {
            "rows": [{"question": f"Say {name} {row}.", "target": "x"} for row in range(rows)],
            "prompt": "{{ question }}",
            "checks": ["contains"],
        },
        "model": {"backend": "openai", "name": "m", "base_url": mock.base_url},
        "decoding": {"max_tokens": 100},
        **sections,
    }
    (own / "run.yaml").write_text(json.dumps(tree))
    environment = os.environ | {
        "HARNESS_CACHE_URL": url,
        "HARNESS_CACHE_DIR": str(own / "cache"),
        "HARNESS_RUNS_DIR": str(own / "runs"),
    }
    started = begun("run", own / "run.yaml", env=environment)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
            started.communicate()
