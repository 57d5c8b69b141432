"""A build hook of Hatch: the package index shows README.md without links into this repository.

An index does not serve the repository's files, so relative links and pictures would be broken. The
list of pages is replaced by the command that shows them, a link by its text, and pictures are left
out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = """**Next:** `harness docs` lists the pages, which are in the package, and `harness docs
how_to` shows one.

"""


def without_relative_links(text: str) -> str:
    text = re.sub(r"^\*\*Next:\*\* .*?\n\n", PAGES, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)", r"\1", text)


class Readme(MetadataHookInterface):
    """Sets the field ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8").replace("```sh no-run", "```sh")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": without_relative_links(text),
        }
