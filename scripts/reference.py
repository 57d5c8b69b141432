"""Writes the pages of docs/reference that scripts/docs makes: python scripts/reference.py FOLDER

commands.md has the help of every command, plugins.md the options of every plug-in, and run_file.md
the keys of a run file, with their types, defaults and comments in the code.
"""

import inspect
import os
import re
import sys
from pathlib import Path

os.environ["COLUMNS"] = "80"

from typer.testing import CliRunner

from harness.cli import VERBS, app
from harness.config import sections
from harness.config.run_file import RunFile
from harness.config.validation import Section
from harness.records import Decoding

KINDS = (Section, sections.PluginSection)
KEY = re.compile(r"^    (\w+): (.+?)(?: = (.+?))?(?:  # (.+))?$", re.MULTILINE)


def text(*words: str) -> str:
    ended = CliRunner().invoke(app, [*words], prog_name="harness", catch_exceptions=False)
    assert ended.exit_code == 0, words
    return f"```text\n{ended.stdout.strip()}\n```\n"


def commands() -> str:
    pages = ["# Commands: reference", text("--help")]
    for name in VERBS:
        pages += [f"## harness {name}", shown := text(name, "--help")]
        below = re.findall(r"^  (\w+) ", shown.partition("Commands:")[2], re.MULTILINE)
        for verb in ["validate"] if name == "judge" else below:
            pages += [f"### harness {name} {verb}", text(name, verb, "--help")]
    return "\n".join(pages)


def run_file() -> str:
    pages = ["# Run file: reference\n", "[Run files](../run-files.md) is the introduction.\n"]
    found = [one for _, one in inspect.getmembers(sections, inspect.isclass)]
    for section in (RunFile, Decoding, *(one for one in found if issubclass(one, KINDS))):
        if section in KINDS:
            continue
        pages += [f"## {section.__name__.removesuffix('Section')}\n", inspect.getdoc(section) or ""]
        pages += ["\n| key | type | default | |\n|---|---|---|---|"]
        code = re.sub(r"\n +(?=[|)\]])", " ", inspect.getsource(section))
        for key, kind, default, about in KEY.findall(code):
            default = re.sub(r".*default(?:_factory)?=([^,)]+).*", r"\1", default.strip())
            cells = (f"`{key.rstrip('_')}`", f"`{kind}`", f"`{default}`" if default else "", about)
            pages.append("| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |")
        pages.append("")
    return "\n".join(pages)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "commands.md").write_text(commands(), encoding="utf-8")
    (folder / "run_file.md").write_text(run_file(), encoding="utf-8")
    plugins = "\n".join(
        f"## {name.title()}\n\n{text(name)}" for name in ("tasks", "backends", "checkers", "judges")
    )
    (folder / "plugins.md").write_text(f"# Plug-ins: reference\n\n{plugins}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
