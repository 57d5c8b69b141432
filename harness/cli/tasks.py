"""`harness tasks`: the available tasks, their options, and which data sets are installed."""

from __future__ import annotations

from dataclasses import replace

from harness.cli.console import output
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.errors import DataMissing, HarnessError
from harness.plugins import kind
from harness.report.listings import Card, describe, plugin_list


def tasks() -> None:
    """List the tasks with their options and data sets."""
    data = DataFolder(Settings().data_dir)
    cards = {}
    for name in kind("tasks").names():
        card = plugin_card("tasks", name)
        known = next((option.values for option in card.options if option.name == "dataset"), ())
        facts = [(f"dataset={value}", _state(name, value, data)) for value in known]
        cards[name] = replace(card, facts=tuple(facts))
    output.print(plugin_list(cards))


def plugin_card(group: str, name: str) -> Card:
    """Describe a plug-in; one that cannot be loaded is reported and does not hide the others."""
    try:
        return describe(kind(group).load(name))
    except HarnessError as error:
        return Card(f"cannot be used: {error}")
    except (TypeError, ValueError, NameError) as error:  # it has no readable signature
        return Card(f"cannot be used: its constructor cannot be read ({error})")


def _state(name: str, dataset: str, data: DataFolder) -> str:
    """Describe whether a data set is installed. A task looks for its files when it is built."""
    try:
        kind("tasks").build(name, {"dataset": dataset}, data=data)
    except DataMissing as error:
        return f"missing. {error.remedy}"
    except Exception as error:  # whatever a third party's constructor does
        return f"unknown ({type(error).__name__}: {error})"
    return "here"
