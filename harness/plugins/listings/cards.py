"""`harness tasks`, `backends`, `checkers`, `judges`, `prices` and `configs`: what there is."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from harness.backends.openai import PRESETS
from harness.cli.options import JsonFormat
from harness.config import shipped
from harness.config.prices import PriceEntry, Prices, load_prices
from harness.config.settings import Settings, describe_key
from harness.datasets.folder import DataFolder
from harness.declarations import named_tasks
from harness.errors import ConfigError, DataMissing, HarnessError, suggest_name
from harness.plugin_loader import kind
from harness.ports import CONSTRAINTS, DECODING_PARAMETERS
from harness.report.table import Cell, Column, Note, TableDocument, table
from harness.report.terminal import render_for_terminal
from harness.report.text import escape_name, escape_text
from harness.scoring.checks import ROW_OPTIONS
from harness.terminal.console import output, print_listing, say, show

_YAML = {"True": "true", "False": "false", "None": "null", "''": '""'}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a plug-in in a run file."""

    name: str
    kind: str
    default: str | None  # as written in a run file; None if required
    about: str
    values: tuple[str, ...] = ()  # from the type, or from double backticks in the docstring


@dataclass(frozen=True, slots=True)
class Card:
    """A plug-in's summary and options, and further ``facts``, each with a title and a text."""

    summary: str
    options: tuple[Option, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def describe(plugin: Callable[..., Any]) -> Card:
    """Return a plug-in's summary and options, read from its docstring and signature.

    Raises:
        NameError, TypeError, ValueError: If the signature cannot be read.
    """
    text = inspect.getdoc(plugin) or ""
    meanings = _meanings(text)
    options = []
    for name, parameter in inspect.signature(plugin, eval_str=True).parameters.items():
        # Keyword-only parameters come from the harness (`harness.plugin_loader`), not the run file.
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            continue
        about = meanings.get(name, "")
        annotation = parameter.annotation
        default = None
        if parameter.default is not parameter.empty:
            default = _YAML.get(repr(parameter.default), str(parameter.default))
        if get_origin(annotation) is Literal:
            values = list(map(str, get_args(annotation)))
        else:
            values = re.findall(r"``([^`\s]+)``", about)
        about = about.replace("``", "")
        options.append(Option(name, _kind(annotation), default, about, tuple(values)))
    return Card(text.partition("\n")[0].replace("``", ""), tuple(options))


def _meanings(text: str) -> dict[str, str]:
    """Map options to their descriptions, from lines such as ``one, other: …``."""
    meanings: dict[str, str] = {}
    current: list[str] = []
    indent = ""
    for line in text.splitlines()[1:]:
        if re.fullmatch(r"[A-Z]\w+:", line):
            indent = "    "
            current = []
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
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) is dict:
        return "mapping"
    if get_origin(annotation) is list:
        return f"list of {_kind(*get_args(annotation))}"
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_kind(part) for part in get_args(annotation))
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, get_args(annotation)))
    return _KINDS.get(annotation) or inspect.formatannotation(annotation)


_SAMPLES = {"text": "TEXT", "whole number": "3", "number": "0.5", "mapping": "{…}"}


def example(name: str, card: Card, *, judge: bool = False) -> str:
    """Return an example of a checker (or, if ``judge``, a judge) in a run file.

    The example sets the required options, except those in `ROW_OPTIONS`.
    """
    required = [option for option in card.options if option.default is None]
    options = [option for option in required if option.name not in ROW_OPTIONS]
    if not judge and not required:
        options = [option for option in card.options if option.default == "null"][:1]
    texts = [f"{option.name}: {_sample(option)}" for option in options]
    if judge:
        texts = [f"name: {name}", *texts, "model: {backend: openai, name: gpt-4o-mini}"]
        return f"judges: [{{{', '.join(texts)}}}]"
    if not texts:
        return f"checks: [{name}]"
    return f"checks: [{{{name}: {{{', '.join(texts)}}}}}]"


def _sample(option: Option) -> str:
    if option.values:
        return option.values[0]
    return _SAMPLES.get(option.kind.partition(" or ")[0], "[…]")


def plugin_list(cards: Mapping[str, Card]) -> RenderableType:
    """Render each plug-in's name and summary, with its options and facts below."""
    parts: list[RenderableType] = []
    for name, card in cards.items():
        table = _grid()
        for option in card.options:
            default = "required" if option.default is None else f"default {option.default}"
            text = escape_text(f"{option.kind}; {default}")
            table.add_row(escape_name(option.name), _explained(text, option.about))
        for title, fact in card.facts:
            table.add_row(Text(title, style="dim"), escape_text(fact))
        headline = Text.assemble((escape_name(name).plain, "bold"), "  ", escape_text(card.summary))
        parts += [headline, Padding(table, (0, 0, 1, 2))]
    return Group(*parts)


def preset_list(presets: Sequence[tuple[str, str, str, str]]) -> RenderableType:
    """Render presets, given as tuples of name, title, URL and key state."""
    table = _grid()
    for name, title, url, key in presets:
        explained = _explained(Text(f"{title}: {key}"), url)
        table.add_row(Text(escape_name(name).plain, "bold"), explained)
    return table


def _explained(text: Text, more: str) -> Text:
    if not more:
        return text
    return Text.assemble(text, "\n", (escape_text(more).plain, "dim"))


def _grid() -> RichTable:
    table = RichTable.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


PRICE_FACTS = ("host", "model", "as_of", "until", "source", "note", "own")
_UNSTATED = "-"
_OWN = "*"


def price_document(entries: Sequence[PriceEntry], own_file: str | None) -> TableDocument:
    """Build the list of prices by host and model, with a note on the user's own file."""
    notes: dict[str, int] = {}
    rows: list[list[object]] = []
    data = []
    has_own = False
    for entry in entries:
        price = entry.price
        has_own |= entry.own
        date = str(entry.as_of or _UNSTATED)
        rows.append([entry.host, entry.model, *_figures(price), date, _marks(entry, notes)])
        if long := price.long_context:
            dim = [Cell(figure, style="dim") for figure in _figures(long)]
            above = f"  above {long.above_tokens:,} tokens in"
            rows.append([entry.host, above, *dim, "", ""])
        facts = {key: getattr(entry, key) for key in PRICE_FACTS}
        data.append({**facts, "price": price.model_dump()})
    foot = [f"{number} {text}" for text, number in notes.items()]
    if own_file is not None and has_own:
        foot.append(f"{_OWN} yours: {own_file}")
    foot.append("US dollars per million tokens; batch is input/output; - means not stated.")
    texts = (Column("as of", text=True), Column("", text=True))
    headings = ("host", "model", "input", "cached", "output", "batch", *texts)
    prices = table(headings, rows, names=2, sectioned=True)
    return TableDocument(parts=[prices, *map(Note, foot)], data=data)


def _marks(entry: PriceEntry, notes: dict[str, int]) -> str:
    """Return the footnote marks of a row, adding new footnotes to ``notes``."""
    marks = [_OWN] if entry.own else []
    until = f"until {entry.until}" if entry.until else None
    for text in filter(None, (entry.source, until, entry.note)):
        marks.append(str(notes.setdefault(text, len(notes) + 1)))
    return " ".join(marks)


def _figures(rates: Prices) -> list[str]:
    batch = _UNSTATED
    if not rates.batch_input is rates.batch_output is None:
        batch = f"{_usd(rates.batch_input)}/{_usd(rates.batch_output)}"
    return [_usd(rates.input), _usd(rates.cached_input), _usd(rates.output), batch]


def _usd(figure: float | None) -> str:
    return _UNSTATED if figure is None else f"{figure:.12f}".rstrip("0").rstrip(".")


PIPE_WIDTH = 120  # minimum line width in a pipe: names are not folded, so grep finds them


def configs(form: JsonFormat = "table") -> None:
    """List the run files that are shipped with the harness; run one by its name."""
    names = shipped.names()
    _show_lines({name: shipped.summary(shipped.find(name)) for name in names}, form)


def _show_lines(summaries: Mapping[str, str], form: str) -> None:
    if form != "table":
        data = [{"name": name, "summary": summary} for name, summary in summaries.items()]
        print_listing("", data, form)
        return
    for name, summary in summaries.items():
        line = Text.assemble((escape_name(name).plain, "bold"), "  ", escape_text(summary))
        output.print(line, soft_wrap=True)


def tasks(name: Annotated[str, typer.Argument()] = "", form: JsonFormat = "table") -> None:
    """List the tasks, or show one's options and data sets.

    Args:
        name: Show this task only.
    """
    prefix, _, task_part = name.partition(":")
    if not task_part or prefix not in named_tasks():
        names = _names("tasks", name)
    else:
        names = _names("tasks", prefix)
        say(
            f"These are the options of {prefix}. Whether {task_part} exists was not checked. Its "
            f"instances and first prompt: harness eval {name} --model MODEL --dry-run"
        )
    if form == "table" and not name:
        _list("tasks", names, "Options and data sets of one")
        return
    data = DataFolder(Settings().data_dir)
    cards = {}
    for task_name in names:
        card = _card("tasks", task_name)
        values = next((option.values for option in card.options if option.name == "dataset"), ())
        facts = [(f"dataset={value}", _state(task_name, value, data)) for value in values]
        cards[task_name] = replace(card, facts=tuple(facts))
    print_listing(plugin_list(cards), cards, form)


def checkers(name: Annotated[str, typer.Argument()] = "", form: JsonFormat = "table") -> None:
    """List the checkers, or show one's options and how to write it in a run file.

    Args:
        name: Show this checker only.
    """
    _plugins("checkers", name, form)


def judges(name: Annotated[str, typer.Argument()] = "", form: JsonFormat = "table") -> None:
    """List the judges, or show one's options and how to write it in a run file.

    Args:
        name: Show this judge only.
    """
    _plugins("judges", name, form)


def _names(group: str, name: str) -> list[str]:
    names = kind(group).names()
    if name and name not in names:
        problem = f"There is no {kind(group).title} {name!r}."
        raise ConfigError(problem, suggest_name(name, names))
    return [name] if name else names


def _plugins(group: str, name: str, form: str) -> None:
    names = _names(group, name)
    if not name:
        _list(group, names, "Options, and how to write one in a run file", form)
        return
    card = _card(group, name)
    written = example(name, card, judge=group == "judges")
    facts = (("in a run file", written), *card.facts)
    print_listing(plugin_list({name: card}), {name: replace(card, facts=facts)}, form)
    if form == "table":
        output.print(Text(f"In a run file:\n  {written}"), soft_wrap=True)  # can be copied


def _list(group: str, names: Iterable[str], more: str, form: str = "table") -> None:
    _show_lines({name: _card(group, name).summary for name in names}, form)
    if form == "table":
        say(f"{more}: harness {group} NAME")


def _card(group: str, name: str) -> Card:
    try:
        return describe(kind(group).load(name))
    except HarnessError as error:
        return Card(f"cannot be used: {error}")
    except (TypeError, ValueError, NameError) as error:  # without a readable signature
        return Card(f"cannot be used: its constructor cannot be read ({error})")


def _state(name: str, dataset: str, data: DataFolder) -> str:
    try:
        kind("tasks").build(name, {"dataset": dataset}, data=data)
    except DataMissing as error:
        return f"missing. {error.remedy}"
    except Exception as error:  # whatever a third party's constructor does
        return f"unknown ({type(error).__name__}: {error})"
    return "here"


def backends(name: Annotated[str, typer.Argument()] = "", form: JsonFormat = "table") -> None:
    """List the backends with their options, and the presets, or show one of them.

    Args:
        name: Show this backend or preset only.
    """
    names = kind("backends").names()
    candidates = {*names, *PRESETS}
    if name and name not in candidates:
        raise ConfigError(
            f"There is no backend or preset {name!r}.", suggest_name(name, candidates)
        )
    cards = {}
    for backend in names:
        if name in ("", backend):
            card = _card("backends", backend)
            cards[backend] = replace(card, facts=_features(backend, card.options))
    presets = []
    for preset_name, preset in PRESETS.items():
        if name not in ("", preset_name):
            continue
        key = "Microsoft Entra ID" if preset.entra else "takes no key"
        if preset.key:
            key = f"{preset.key} {describe_key(preset.key)}"
        presets.append((preset_name, preset.title, preset.url or f"yours, like {preset.hint}", key))
    keys = ("name", "title", "url", "key")
    data = {"backends": cards, "presets": [dict(zip(keys, row, strict=True)) for row in presets]}
    parts: list[RenderableType] = []
    if cards:
        parts.append(plugin_list(cards))
    if presets:
        title = "Presets of openai, openai_responses and openai_completions"
        parts += [Text(title, style="bold"), preset_list(presets)]
    print_listing(Group(*parts), data, form)


def _features(name: str, options: tuple[Option, ...]) -> tuple[tuple[str, str], ...]:
    needed = {option.name: option.name for option in options if option.default is None}
    supplied: dict[str, Any] = {"secret": str, "read": lambda path: iter(()), "timeout_s": 1.0}
    supplied |= {"gold": lambda instance: None, "concurrency": 1}
    try:
        features: frozenset[str] = kind("backends").build(name, needed, **supplied).features
    except Exception:  # whatever a third party's constructor does
        return (("features", "depend on its options"),)
    accepted = ", ".join(sorted(DECODING_PARAMETERS & features))
    constraints = ", ".join(sorted(CONSTRAINTS & features))
    others = ", ".join(sorted(features - DECODING_PARAMETERS - CONSTRAINTS))
    return (
        ("accepts", accepted or "no decoding parameters"),
        ("constrains answers by", constraints or "nothing"),
        ("features", others or "none"),
    )


def prices(
    search: Annotated[str, typer.Argument(metavar="FILTER")] = "", form: JsonFormat = "table"
) -> None:
    """List model prices, each with its date and source.

    Args:
        search: Show only hosts and models whose name contains this text.
    """
    path = Settings().prices
    text = search.casefold()
    entries = load_prices(path)
    matches = [entry for entry in entries if text in entry.host or text in entry.model.casefold()]
    if matches:
        hosts = list(dict.fromkeys(entry.host for entry in matches))  # in the order of the files
        matches.sort(key=lambda entry: hosts.index(entry.host))
        width = None if output.is_terminal else max(output.width, PIPE_WIDTH)
        document = price_document(matches, None if path is None else str(path))
        if form == "table":
            output.print(render_for_terminal(document), width=width)
        else:
            show(document, form)
    else:
        say(f"No host or model with a price matches {search!r}.")
    state = "not set" if path is None else f"now {path}"
    say(
        f"Your own prices: model.price in the run file, or the file HARNESS_PRICES ({state}) "
        "(harness docs prices)."
    )
