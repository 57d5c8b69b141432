"""Tasks of rows with a rule check, which need no plug-in, and run files that use them."""

import json
from typing import Any

import yaml

from tests.conftest import ROOT

QUICKSTART = "tests/fixtures/quickstart.yaml"
"""A simulated model that learns from feedback. Its runs are named `quickstart`."""

GPT4_FILE = "tests/fixtures/gpt4.yaml"
"""A paid model. Its runs are named `gpt4`."""

WORDS: dict[str, Any] = {
    **yaml.safe_load((ROOT / QUICKSTART).read_text())["task"],
    "path": str(ROOT / "tests/fixtures/words.jsonl"),
}
"""The task of both, as a section of another run file: 130 rows in 13 groups."""

TASK = f"task: {json.dumps(WORDS)}\n"
"""The same as YAML."""
