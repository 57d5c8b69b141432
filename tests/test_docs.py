"""Every command in the README and in docs/ is run, as it stands there."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\S+)(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def commands(page: Path) -> str:
    """The shell blocks of a page that it does not mark as needing more than this machine."""
    blocks = BLOCK.findall(page.read_text())
    return "\n".join(text for kind, mark, text in blocks if kind == "sh" and "no-run" not in mark)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path) -> None:
    script = "\n".join(
        line
        for line in commands(page).splitlines()
        if not line.startswith(("git clone", "scripts/"))  # the suite itself runs from these
    )
    assert script or page.name == "README.md", "a page without a command"
    with socket.create_server(("127.0.0.1", 0)) as free:
        script = script.replace("8077", str(free.getsockname()[1]))
    shell = subprocess.Popen(
        ["bash", "-euc", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=120)
    finally:  # a server that a failed page has left behind, too
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
