"""The real packages, in an environment of their own; without it these tests are left out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv-exchange" / "bin"

Peer = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def peers() -> Path:
    """The folder of the environment's programs."""
    if not (ENVIRONMENT / "python").exists():
        pytest.skip("no Inspect and lm-eval here: scripts/test-exchange makes them and runs this")
    return ENVIRONMENT


@pytest.fixture
def peer(peers: Path, tmp_path: Path) -> Peer:
    """Run one of its programs to its end, with no network and no home."""
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
