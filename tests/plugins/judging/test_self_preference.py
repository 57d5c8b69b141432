"""Validations name a judge of a model's own family."""

import json
from pathlib import Path

from tests.cli.command import harness
from tests.plugins.judging.test_run_self_preference import judged_runs


def test_validations_tell_it(tmp_path: Path) -> None:
    arguments = ("judge", "validate", "own", "--judge", "k", "--against", "j", "--format", "json")
    notes = json.loads(harness(*arguments, env=judged_runs(tmp_path)).stdout)["notes"]
    assert [note for note in notes if "self-preference" in note] == [
        "own: self-preference: the judge 'j' asks gpt-4, of the model's own family (OpenAI)."
    ]
