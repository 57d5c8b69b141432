"""Real programs of other tools; without them these tests are skipped (scripts/test-exchange)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

Peer = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def peers() -> Path:
    """The folder of the environment's programs."""
    if find_spec("inspect_ai") is None or find_spec("lm_eval") is None:
        pytest.skip("Inspect and lm-eval are not installed: run scripts/test-exchange")
    return Path(sys.executable).parent


@pytest.fixture
def peer(peers: Path, tmp_path: Path) -> Peer:
    """Run one of these programs to its end, without network access or a home folder."""
    env = {
        "PATH": f"{peers}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "INSPECT_DISPLAY": "none",
        "XDG_DATA_HOME": str(tmp_path / "share"),
    }

    def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [peers / program, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=env,
            timeout=150,
        )
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        return ended

    return run
