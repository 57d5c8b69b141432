"""Every command in the README and in docs/ is run, as it stands there."""

import os
import re
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
    ended = subprocess.run(
        ["bash", "-euc", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
