"""`harness backends`."""

import json
import os
from pathlib import Path

import pytest

from harness.backends.openai import PRESETS
from harness.plugin_loader import kind
from tests.cli.command import harness, mistake, words
from tests.installed import third_party

CANARY = "sk-canary-1234567890"


def test_every_backend_says_what_it_takes() -> None:
    ended = harness("backends")
    assert ended.returncode == 0, ended.stderr
    said = words(ended.stdout)
    assert all(name in said for name in kind("backends").names())
    assert "base_url text or null; default null" in said
    assert "accepts extra, max_tokens, seed, stop, temperature, top_p constrains" in said
    assert "constrains answers by json_schema features" in said
    assert "features by_instance, conversation, simulated" in said


def test_one_backend_or_preset_is_shown() -> None:
    said = harness("backends", "simulated").stdout
    assert (said.startswith("simulated"), "Presets" in said, "anthropic" in said) == (
        (True, False, False)
    )
    found = json.loads(harness("backends", "groq", "--format", "json").stdout)
    assert (found["backends"], [one["name"] for one in found["presets"]]) == ({}, ["groq"])
    both = json.loads(harness("backends", "openai", "--format", "json").stdout)
    assert list(both["backends"]) == ["openai"]
    assert "Did you mean 'openai'?" in mistake(harness("backends", "opnai"))


def test_presets_say_whether_their_key_is_set_and_never_what_it_is(tmp_path: Path) -> None:
    keys = {preset.key: CANARY for preset in PRESETS.values() if preset.key}
    del keys["GROQ_API_KEY"]
    keys["XAI_API_KEY"] = f"{CANARY}\n2"
    ended = harness("backends", env=os.environ | keys, cwd=tmp_path)
    said = words(ended.stdout)
    assert "OpenAI: OPENAI_API_KEY is set https://api.openai.com/v1" in said
    assert "Groq: GROQ_API_KEY is not set" in said
    assert "xAI: XAI_API_KEY is set to something that cannot be a key" in said
    assert "Ollama: takes no key" in said
    assert CANARY not in ended.stdout + ended.stderr
    (tmp_path / ".env").write_text(f"GROQ_API_KEY={CANARY}\n")
    ended = harness("backends", cwd=tmp_path)
    assert "Groq: GROQ_API_KEY is set" in words(ended.stdout)
    assert CANARY not in ended.stdout + ended.stderr


def test_a_backend_that_cannot_be_made_is_still_shown(tmp_path: Path) -> None:
    code = '''
    from harness.plugin import Backend

    class plugin(Backend):
        """A model in this process."""

        def __init__(self, device: str = "gpu", *, secret) -> None:
            raise RuntimeError("no GPU")
    '''
    third_party(tmp_path, code, "backends", "inside")
    ended = harness("backends", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert "inside A model in this process." in words(ended.stdout)
    assert "features depend on its options" in words(ended.stdout)


@pytest.mark.parametrize("width", [60, 80])
def test_lines_fit(width: int) -> None:
    ended = harness("backends", env=os.environ | {"COLUMNS": f"{width}"})
    assert all(len(line) <= width for line in ended.stdout.splitlines())
    shown = "".join(ended.stdout.split())
    assert all(preset.url in shown for preset in PRESETS.values() if preset.url)
