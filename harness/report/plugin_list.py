"""Tasks and backends as a user meets them: what they are for, and their options.

Everything is read off the plug-in itself: the class's docstring says what it is
for in its first line, and what each option means in lines ``option: meaning``;
types and defaults are those of the constructor's signature.

>>> describe(SimulatedBackend).options[0].name  # doctest: +SKIP
'accuracy'
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.report.cells import inert
from harness.report.transcript import inert_text


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the run file.

    default: as a run file would have it; None where the option must be given.
    values: those that the type or, in double backticks, the docstring names.
    """

    name: str
    kind: str
    default: str | None
    about: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """What is shown of one plug-in.

    facts: further lines, by title.
    """

    summary: str
    options: tuple[Option, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def describe(plugin: Callable[..., Any]) -> Card:
    """A plug-in's summary and options."""
    text = inspect.getdoc(plugin) or ""
    meanings = _meanings(text)
    options = []
    for name, parameter in inspect.signature(plugin, eval_str=True).parameters.items():
        # Keyword-only ones are handed over by the harness (see `harness.plugins`).
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            continue
        about = meanings.get(name, "")
        annotation = parameter.annotation
        literal = get_args(annotation) if get_origin(annotation) is Literal else ()
        options.append(
            Option(
                name,
                _kind(annotation),
                None if parameter.default is parameter.empty else _as_yaml(parameter.default),
                about.replace("``", ""),
                tuple(map(str, literal)) or tuple(re.findall(r"``([^`\s]+)``", about)),
            )
        )
    return Card(text.partition("\n")[0].replace("``", ""), tuple(options))


def _meanings(text: str) -> dict[str, str]:
    """Option to meaning, from the lines ``option: meaning`` or ``one, other: meaning``."""
    meanings: dict[str, str] = {}
    current: list[str] = []
    indent = ""
    for line in text.splitlines()[1:]:
        if re.fullmatch(r"[A-Z]\w+:", line):
            indent, current = "    ", []
        elif begins := re.match(rf"{indent}(\w+(?:, \w+)*): (.*)", line):
            current = begins[1].split(", ")
            meanings |= dict.fromkeys(current, begins[2])
        elif line.startswith(f"{indent} "):
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in current}
        else:
            current = []
    return meanings


_KINDS: Mapping[Any, str] = {
    str: "text", int: "whole number", float: "number", bool: "true or false",
    type(None): "null", inspect.Parameter.empty: "anything", Any: "anything",
}  # fmt: skip


def _kind(annotation: Any) -> str:
    """A type in the words of a run file."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if annotation == dict[str, Any]:
        return "mapping"
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_kind(part) for part in get_args(annotation))
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, get_args(annotation)))
    return _KINDS.get(annotation) or inspect.formatannotation(annotation)


def _as_yaml(value: Any) -> str:
    words = {True: "true", False: "false", None: "null"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def plugin_list(cards: Mapping[str, Card]) -> RenderableType:
    """The plug-ins by name, one below the other."""
    parts: list[RenderableType] = []
    for name, card in cards.items():
        parts += [_titled(name, card), Padding(_details(card), (0, 0, 1, 2))]
    return Group(*parts)


def _titled(name: str, card: Card) -> Text:
    title = inert(name)
    title.stylize("bold")
    return Text.assemble(title, "  ", inert_text(card.summary))


def _details(card: Card) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for option in card.options:
        default = "must be given" if option.default is None else f"default {option.default}"
        said = inert_text(f"{option.kind}; {default}")
        if option.about:
            said = Text.assemble(said, "\n", (inert_text(option.about).plain, "dim"))
        table.add_row(inert(option.name), said)
    for title, fact in card.facts:
        table.add_row(Text(title, style="dim"), inert_text(fact))
    return table


def preset_list(presets: Sequence[tuple[str, str, str, str]]) -> RenderableType:
    """The presets of OpenAI's protocol.

    presets: name, title, URL, and where its key is and whether it is set.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, title, url, key in presets:
        table.add_row(inert(name), Text.assemble(f"{title}: {key}\n", (url, "dim")))
    return table
