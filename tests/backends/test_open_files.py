"""In a process of its own, whose bounds are set."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such bound")

PROGRAM = """
import resource
from harness.backends._open_files import connections
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(connections(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("soft", "hard"), [(64, 500), (500, 500)])
def test_half_of_the_files_that_the_system_allows(soft: int, hard: int) -> None:
    program = PROGRAM.format(soft=soft, hard=hard)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout.split() == [b"250", b"500"]
