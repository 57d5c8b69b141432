"""Hooks of the documentation site (mkdocs.yml)."""

import re
from pathlib import Path
from typing import Any

pages: dict[str, tuple[str, str]] = {}
"""The title and the text of every page, by its path in docs/."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Remove the mark of examples that the tests do not run, which the site's Markdown rejects."""
    markdown = markdown.replace("```sh no-run\n", "```sh\n")
    if odd := re.search(r"^```\S+ .*", markdown, re.MULTILINE):
        raise ValueError(f"{page.file.src_uri}: {odd[0]!r} would be shown as text")
    pages[page.file.src_uri] = page.title, markdown
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Write all pages as one text for language models, llms-full.txt, and its table of contents."""
    guides = {path: found for path, found in pages.items() if not path.endswith(".ipynb")}
    contents = [
        f"- [{title}]({path.removesuffix('.md')}.html)" for path, (title, _) in guides.items()
    ]
    site = Path(config.site_dir)
    head = f"# {config.site_name}\n\n> {config.site_description}\n\n"
    (site / "llms.txt").write_text(head + "\n".join(contents) + "\n", encoding="utf-8")
    texts = "\n\n".join(text for _, text in guides.values())
    (site / "llms-full.txt").write_text(head + texts, encoding="utf-8")
