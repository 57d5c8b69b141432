"""`harness tasks`, `backends`, `checkers`, `judges`, `prices` and `configs`: what there is."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from harness.backends.openai import PRESETS
from harness.cli.options import JsonFormat
from harness.config import shipped
from harness.config.prices import load_prices
from harness.config.settings import Settings, key_state
from harness.datasets.folder import DataFolder
from harness.declarations import named_tasks
from harness.errors import ConfigError, DataMissing, HarnessError, nearest
from harness.plugin_loader import kind
from harness.plugins.listings.cards import (
    Card,
    Option,
    describe,
    example,
    plugin_list,
    preset_list,
    price_document,
)
from harness.ports import CONSTRAINTS, PARAMETERS
from harness.report.terminal import terminal
from harness.report.text import inert, inert_text
from harness.terminal.console import output, say, show, show_listing

PIPE_WIDTH = 120  # minimum line width in a pipe: names are not folded, so grep finds them


def configs(form: JsonFormat = "table") -> None:
    """List the run files that are shipped with the harness; run one by its name."""
    names = shipped.names()
    _show_lines({name: shipped.summary(shipped.find(name)) for name in names}, form)


def _show_lines(summaries: Mapping[str, str], form: str) -> None:
    if form == "table":
        for name, said in summaries.items():
            line = Text.assemble((inert(name).plain, "bold"), "  ", inert_text(said))
            output.print(line, soft_wrap=True)
    else:
        data = [{"name": name, "summary": said} for name, said in summaries.items()]
        show_listing("", data, form)


def tasks(name: Annotated[str, typer.Argument()] = "", form: JsonFormat = "table") -> None:
    """List the tasks, or show one's options and data sets.

    Args:
        name: Show this task only.
    """
    prefix, _, own = name.partition(":")
    prefixed = own != "" and prefix in named_tasks()
    names = _names("tasks", prefix if prefixed else name)
    if prefixed:
        say(
            f"These are the options of {prefix}. Whether {own} exists was not checked. Its "
            f"instances and first prompt: harness eval {name} --model MODEL --dry-run"
        )
    if form == "table" and not name:
        _list("tasks", names, "Options and data sets of one")
        return
    data = DataFolder(Settings().data_dir)
    cards = {}
    for one in names:
        card = _card("tasks", one)
        known = next((option.values for option in card.options if option.name == "dataset"), ())
        facts = [(f"dataset={value}", _state(one, value, data)) for value in known]
        cards[one] = replace(card, facts=tuple(facts))
    show_listing(plugin_list(cards), cards, form)


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
        raise ConfigError(problem, nearest(name, names))
    return [name] if name else names


def _plugins(group: str, name: str, form: str) -> None:
    names = _names(group, name)
    if not name:
        _list(group, names, "Options, and how to write one in a run file", form)
        return
    card = _card(group, name)
    written = example(name, card, judge=group == "judges")
    facts = (("in a run file", written), *card.facts)
    show_listing(plugin_list({name: card}), {name: replace(card, facts=facts)}, form)
    if form == "table":
        output.print(Text(f"In a run file:\n  {written}"), soft_wrap=True)  # can be copied


def _list(group: str, names: Iterable[str], more: str, form: str = "table") -> None:
    _show_lines({one: _card(group, one).summary for one in names}, form)
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
    known = kind("backends").names()
    if name and name not in (*known, *PRESETS):
        raise ConfigError(
            f"There is no backend or preset {name!r}.", nearest(name, {*known, *PRESETS})
        )
    wanted = known if not name else [name] if name in known else []
    cards = {one: _card("backends", one) for one in wanted}
    for one, card in cards.items():
        cards[one] = replace(card, facts=_features(one, card.options))
    presets = []
    for one, preset in PRESETS.items():
        if name not in ("", one):
            continue
        unkeyed = "Microsoft Entra ID" if preset.entra else "takes no key"
        key = f"{preset.key} {key_state(preset.key)}" if preset.key else unkeyed
        presets.append((one, preset.title, preset.url or f"yours, like {preset.hint}", key))
    title = Text("Presets of openai, openai_responses and openai_completions", style="bold")
    keys = ("name", "title", "url", "key")
    data = {"backends": cards, "presets": [dict(zip(keys, one, strict=True)) for one in presets]}
    listed = [title, preset_list(presets)] if presets else []
    show_listing(Group(*([plugin_list(cards)] if cards else []), *listed), data, form)


def _features(name: str, options: tuple[Option, ...]) -> tuple[tuple[str, str], ...]:
    needed = {option.name: option.name for option in options if option.default is None}
    given: dict[str, Any] = {"secret": str, "read": lambda path: iter(()), "timeout_s": 1.0}
    given |= {"gold": lambda instance: None, "concurrency": 1}
    try:
        features: frozenset[str] = kind("backends").build(name, needed, **given).features
    except Exception:  # whatever a third party's constructor does
        return (("features", "depend on its options"),)
    return (
        ("accepts", ", ".join(sorted(PARAMETERS & features)) or "no decoding parameters"),
        ("constrains answers by", ", ".join(sorted(CONSTRAINTS & features)) or "nothing"),
        ("features", ", ".join(sorted(features - PARAMETERS - CONSTRAINTS)) or "none"),
    )


def prices(
    wanted: Annotated[str, typer.Argument(metavar="FILTER")] = "", form: JsonFormat = "table"
) -> None:
    """List model prices, each with its date and source.

    Args:
        wanted: Show only hosts and models whose name contains this text.
    """
    path = Settings().prices
    text = wanted.casefold()
    entries = load_prices(path)
    found = [one for one in entries if text in one.host or text in one.model.casefold()]
    if found:
        hosts = list(dict.fromkeys(entry.host for entry in found))  # in the order of the files
        found.sort(key=lambda entry: hosts.index(entry.host))
        width = None if output.is_terminal else max(output.width, PIPE_WIDTH)
        document = price_document(found, None if path is None else str(path))
        if form == "table":
            output.print(terminal(document), width=width)
        else:
            show(document, form)
    else:
        say(f"No host or model with a price matches {wanted!r}.")
    own = f"HARNESS_PRICES ({'not set' if path is None else f'now {path}'})"
    say(f"Your own prices: model.price in the run file, or the file {own} (harness docs prices).")
