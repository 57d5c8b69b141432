"""Encrypted and signed reasoning is not in a report."""

import base64
import gzip
import json
import os
import re
from pathlib import Path

import pytest

from tests.backends.answering import answering
from tests.cli.command import harness
from tests.cli.test_reasoning_state import FILE, REPLIES


@pytest.mark.parametrize("protocol", REPLIES)
def test_encrypted_and_signed_reasoning_is_not_shown(tmp_path: Path, protocol: str) -> None:
    model, reply, _, _ = REPLIES[protocol]
    folders = {f"HARNESS_{name}_DIR": str(tmp_path / name) for name in ("RUNS", "CACHE")}
    environment = os.environ | folders | {"MY_KEY": "sk-a-long-key"}
    page = tmp_path / "two.html"
    with answering(json.dumps(reply)) as (url, _):
        base = url.removesuffix("/v1") if protocol == "anthropic" else url
        file = tmp_path / "two.yaml"
        file.write_text(FILE.replace("MODEL", model).replace("URL", base))
        assert harness("run", file, env=environment).returncode == 0
    shown = harness("report", "two", "-o", str(page), env=environment)
    assert shown.returncode == 0, shown.stderr
    blocks = re.findall(r">(H4sI[A-Za-z0-9+/=]+)<", page.read_text())  # compressed data
    shows = b"".join(gzip.decompress(base64.b64decode(block)) for block in blocks).decode()
    assert "Blue." in shows
    assert "c2ln" not in shows
    assert "gAAA" not in shows
