"""`harness ls`, `tasks`, `backends` and `prices`: list what is available."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from harness.analysis.metrics import Metrics, from_json
from harness.backends.openai import PRESETS
from harness.cli.console import output, say, show
from harness.config import shipped
from harness.config.prices import load_prices
from harness.config.settings import Settings, secret
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataMissing, HarnessError, SecretMissing
from harness.plugins import kind
from harness.ports import CONSTRAINTS, PARAMETERS
from harness.report.listings import Card, Option, describe, plugin_list, preset_list, price_document
from harness.report.runs import runs_table
from harness.report.terminal import terminal
from harness.store.run_folder import RunFolder, all_runs

PIPE_WIDTH = 120  # minimum line width in a pipe: names are not folded, so grep finds them


def ls() -> None:
    """List the runs."""
    root = Settings().runs_dir
    folders = all_runs(root)
    if folders:
        show(runs_table({folder.name: _metrics(folder) for folder in folders}))
    else:
        say(f"No runs in {root}. Start one with 'harness run configs/quickstart.yaml'.")


def _metrics(folder: RunFolder) -> Metrics | None:
    """Return a run's metrics with its progress; None if missing or (with a message) unreadable."""
    try:
        metrics = from_json(folder.metrics.read_bytes(), folder.metrics)
        # The run may have grown, or been killed, since its metrics were written.
        complete, planned = folder.progress()
        owed = folder.owed()
        return msgspec.structs.replace(metrics, complete=complete, n_planned=planned, n_owed=owed)
    except FileNotFoundError:
        return None
    except (HarnessError, OSError) as error:
        say(f"{folder.name}: {error}")
        return None


def configs() -> None:
    """List the run files that are shipped with the harness; run one by its name."""
    for name in shipped.names("configs"):
        path = shipped.find(name, "configs")
        output.print(Text.assemble((name, "bold"), f"  {shipped.summary(path)}"), soft_wrap=True)


def tasks() -> None:
    """List the tasks with their options and data sets."""
    data = DataFolder(Settings().data_dir)
    cards = {}
    for name in kind("tasks").names():
        card = _card("tasks", name)
        known = next((option.values for option in card.options if option.name == "dataset"), ())
        facts = [(f"dataset={value}", _state(name, value, data)) for value in known]
        cards[name] = replace(card, facts=tuple(facts))
    output.print(plugin_list(cards))


def _card(group: str, name: str) -> Card:
    """Return a plug-in's `Card` for the list; if it cannot be loaded, the card says why."""
    try:
        return describe(kind(group).load(name))
    except HarnessError as error:
        return Card(f"cannot be used: {error}")
    except (TypeError, ValueError, NameError) as error:  # without a readable signature
        return Card(f"cannot be used: its constructor cannot be read ({error})")


def _state(name: str, dataset: str, data: DataFolder) -> str:
    """Return a data set's state (here, missing, unknown) as text; builds the task to find out."""
    try:
        kind("tasks").build(name, {"dataset": dataset}, data=data)
    except DataMissing as error:
        return f"missing. {error.remedy}"
    except Exception as error:  # whatever a third party's constructor does
        return f"unknown ({type(error).__name__}: {error})"
    return "here"


def backends() -> None:
    """List the backends with their options, and the presets."""
    cards = {name: _card("backends", name) for name in kind("backends").names()}
    for name, card in cards.items():
        cards[name] = replace(card, facts=_features(name, card.options))
    output.print(plugin_list(cards))
    output.print(Text("Presets of openai and openai_completions", style="bold"))
    presets = []
    for name, preset in PRESETS.items():
        key = f"{preset.key} {key_state(preset.key)}" if preset.key else "takes no key"
        presets.append((name, preset.title, preset.url or f"yours, like {preset.hint}", key))
    output.print(preset_list(presets))


def key_state(variable: str) -> str:
    """Return a key's state as text that does not reveal the key, such as "is not set"."""
    try:
        secret(variable)
    except SecretMissing:
        return "is not set"
    except ConfigError:
        return "is set to something that cannot be a key"
    return "is set"


def _features(name: str, options: tuple[Option, ...]) -> tuple[tuple[str, str], ...]:
    """Return (heading, text) pairs on the features that a backend has with default options."""
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


def prices(wanted: Annotated[str, typer.Argument(metavar="FILTER")] = "") -> None:
    """List model prices, each with its date and source.

    Args:
        wanted: Part of a host or model name.
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
        output.print(terminal(document), width=width)
    else:
        say(f"No host or model with a price matches {wanted!r}.")
    own = f"HARNESS_PRICES ({'not set' if path is None else f'now {path}'})"
    say(f"Your own prices: model.price in the run file, or the file {own}; see docs/prices.md.")
