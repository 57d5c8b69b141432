"""The estimated calls of runs that draw several samples per call."""

from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.cli.test_joint_draws import INSTALLED, folder, written

__all__ = ["folder"]


@pytest.mark.parametrize("backend", INSTALLED)
def test_six_samples_are_two_calls_or_more(folder: Path, backend: str) -> None:
    with MockServer() as server:
        planned = harness("run", written(folder, server, backend), "--dry-run").stdout
    assert "40 to 120" in planned  # calls
