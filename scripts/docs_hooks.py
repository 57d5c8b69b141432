"""Hooks of the documentation site (mkdocs.yml)."""

from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Remove the mark of examples that the tests do not run, which the site's Markdown rejects."""
    return markdown.replace("```sh no-run\n", "```sh\n")
