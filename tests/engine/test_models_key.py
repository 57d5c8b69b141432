"""Replies of another package's backend are cached for its options."""

import json
import os
from pathlib import Path

from tests.cli.command import harness
from tests.installed import third_party

BACKEND = '''
from harness.plugin import Backend
from harness.records import Reply, Usage

class plugin(Backend):
    """Repeats a text."""

    cacheable = True
    features = frozenset({"max_tokens"})

    def __init__(self, text: str, *, model):
        self.text = text
        self.endpoint = ""

    async def generate(self, request):
        return Reply(self.text, "stop", Usage(1, 1))
'''


def test_other_options_of_a_backend_make_other_calls(tmp_path: Path) -> None:
    third_party(tmp_path / "site", BACKEND, "backends", "repeating")
    file = {
        "task": {
            "rows": [{"q": "a", "target": "yes"}],
            "prompt": "{{ q }}",
            "checks": ["contains"],
        },
        "model": {"backend": "repeating", "name": "m"},
    }
    (tmp_path / "a.yaml").write_text(json.dumps(file))
    folders = {"HARNESS_RUNS_DIR": str(tmp_path / "runs"), "HARNESS_CACHE_DIR": str(tmp_path)}
    env = os.environ | folders | {"PYTHONPATH": str(tmp_path / "site")}
    answers = {}
    for name, text in (("first", "yes"), ("second", "no"), ("third", "yes")):
        ended = harness(
            *("run", "a.yaml", "--name", name, "-o", f"model.text='{text}'"), env=env, cwd=tmp_path
        )
        assert ended.returncode == 0, ended.stderr
        attempt = json.loads((tmp_path / "runs" / name / "attempts.jsonl").read_text())
        answers[name] = (attempt["text"], attempt.get("cached", False))
    assert answers == {"first": ("yes", False), "second": ("no", False), "third": ("yes", True)}
