"""Run files and judges for tests."""

from typing import Any

import pytest

from harness.config.run_file import RunFile
from harness.config.validation import validate
from harness.errors import ConfigError

BASE: dict[str, Any] = {
    "task": {"name": "collie", "dataset": "v1"},
    "model": {"backend": "openai", "name": "gpt-4", "base_url": "http://localhost/v1"},
    "decoding": {"temperature": 0.7, "max_tokens": 1000, "stop": ["\n"]},
    "samples": 4,
    "rounds": {"max": 3},
    "limit": 50,
}


def run(**changes: Any) -> RunFile:
    return RunFile.model_validate(BASE | changes)


def problem(**changes: Any) -> str:
    """What is said of a run file that is not valid."""
    with pytest.raises(ConfigError) as caught:
        validate(RunFile, BASE | changes, "here")
    return str(caught.value)


JUDGE: dict[str, Any] = {"name": "parser", "model": {"backend": "openai", "name": "m"}}


def judges(*sections: dict[str, Any]) -> RunFile:
    return run(judges=list(sections))
