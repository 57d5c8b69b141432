"""What messages name exists: pages of the documentation, commands, options, keys, links."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from harness.cli.verbs import all_verbs
from harness.config.loading import expand_variants
from harness.config.run_file import RunFile
from harness.errors import ConfigError
from harness.plugin_loader import kind
from tests.cli.command import ROOT, harness

COMMAND = re.compile(r"(?<![Tt]he )(?<![Tt]his )(?<!newer )\bharness ([a-z]\w*)([^;,.()'\"`:]*)")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")
KEY = re.compile(
    r"(?<![{\w.])(?:task|model|decoding|limits|budget|rounds|user|polish)(?:\.[a-z_]+)+\b"
)
URL = re.compile(r"https?://[\w.-]+\.[a-z]+[^\s'\"`)<>{}…]*")
OF_OTHER_PROGRAMS = {"no-", "query-gpu", "served-model-name", "to"}  # vLLM, nvidia-smi, Inspect
OF_OTHER_PROGRAMS |= {"always", "dirty", "exclude", "git-dir", "work-tree"}  # Git


class Message(NamedTuple):
    """A text of the program that is no docstring, with "…" in place of values."""

    place: str
    text: str


@cache
def messages() -> list[Message]:
    found = []
    for file in sorted((ROOT / "harness").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                skipped.update(id(part) for part in ast.walk(node) if part is not node)
        for node in nodes:
            place = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if id(node) in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                found.append(Message(place, "".join(map(_part, node.values))))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(Message(place, node.value))
    return found


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "…"


@cache
def options(*verbs: str) -> frozenset[str]:
    """Return the options of a verb, as its help lists them."""
    ended = harness(*verbs, "--help")
    return frozenset(OPTION.findall(ended.stdout)) if ended.returncode == 0 else frozenset()


def commands() -> Iterator[tuple[Message, str, str]]:
    for message in messages():
        for verb, rest in COMMAND.findall(message.text):
            yield message, verb, rest


def test_pages_that_messages_name_exist() -> None:
    pages = json.loads(harness("docs", "--format", "json").stdout)
    named = {}
    for message, verb, rest in commands():
        if verb == "docs" and (page := re.match(r" ([a-z]\S*)", rest)):
            named[page[1]] = message
    assert len(named) > 10
    assert not {name: message for name, message in named.items() if name not in pages}


def test_commands_and_their_options_that_messages_name_exist() -> None:
    unknown = []
    n_options = 0
    for message, verb, rest in commands():
        if verb not in all_verbs():
            unknown.append((message.place, verb))
            continue
        words = rest.split()
        subverb = words[0] if words and options(verb, words[0]) else ""
        valid = options(verb, subverb) if subverb else options(verb)
        for name in OPTION.findall(rest):
            n_options += 1
            if name not in valid:
                unknown.append((message.place, f"{verb} {subverb} --{name}"))
    assert not unknown
    assert n_options > 10


def test_options_that_messages_name_alone_exist() -> None:
    every_option = {"help", "version", "install-completion", "show-completion"}
    for verb in all_verbs():
        every_option |= options(verb)
        for subverb in re.findall(r"^  ([a-z]+)  ", harness(verb, "--help").stdout, re.MULTILINE):
            every_option |= options(verb, subverb)
        every_option |= {name for sub in all_verbs()[verb].subverbs for name in options(verb, sub)}
        every_option |= {former.removeprefix("--") for former in all_verbs()[verb].former_options}
    unknown = {}
    for message in messages():
        if not message.place.startswith("harness/plugins/pytest"):  # options of pytest
            for name in OPTION.findall(message.text):
                if name not in every_option:
                    unknown[name] = message
    assert not {name: unknown[name] for name in unknown.keys() - OF_OTHER_PROGRAMS}


@pytest.fixture(scope="module")
def option_names() -> dict[str, set[str]]:
    """Return the names of all options of tasks and backends, and of their sections' own keys."""
    names = {"task": {"rows"}, "model": set[str]()}  # rows are read before the section is
    for section, listing in (("task", "tasks"), ("model", "backends")):
        own = RunFile.model_fields[section].annotation
        names[section] |= {field.alias or name for name, field in own.model_fields.items()}
        for name in kind(listing).names():
            shown = json.loads(harness(listing, name, "--format", "json").stdout)
            names[section] |= {
                option["name"] for option in shown.get(listing, shown)[name]["options"]
            }
    return names


def is_key(key: str, option_names: dict[str, set[str]]) -> bool:
    section, name, *_ = key.split(".")
    if section in option_names:
        return name in option_names[section]
    tree = {"task": {"name": "jsonl"}, "model": {"backend": "simulated"}}
    try:
        expand_variants(tree, "file", values={key: None})
    except ConfigError as error:
        return "unknown key" not in error.message
    return True


def test_keys_that_messages_name_exist(option_names: dict[str, set[str]]) -> None:
    keys = {}
    for message in messages():
        for key in KEY.findall(message.text):
            keys[key] = message
    assert len(keys) > 50
    unknown = {key: keys[key] for key in keys if not is_key(key, option_names)}
    assert not unknown
    assert not is_key("limits.timeout", option_names)
    assert not is_key("model.base_ulr", option_names)


def test_links_in_messages_are_well_formed() -> None:
    for message in messages():
        for url in URL.findall(message.text):
            parts = urlsplit(url.rstrip(".,"))
            assert parts.scheme == "https" or parts.hostname == "json-schema.org", message
            assert "//" not in parts.path, message
