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
    list_tasks()


def list_tasks() -> None:
    """Print every task; one that cannot be loaded is reported and does not hide the others."""
    data = DataFolder(Settings().data_dir)
    tasks = kind("tasks")
    output.print(plugin_list({name: _card(name, data) for name in tasks.names()}))


def _card(name: str, data: DataFolder) -> Card:
    try:
        card = describe(kind("tasks").load(name))
    except HarnessError as error:
        return Card(f"cannot be used: {error}")
    except (TypeError, ValueError, NameError) as error:  # it has no readable signature
        return Card(f"cannot be used: its constructor cannot be read ({error})")
    found = next((option for option in card.options if option.name == "dataset"), None)
    if found is None:
        return card
    facts = [(f"dataset={value}", _state(name, value, data)) for value in found.values]
    return replace(card, facts=(*card.facts, *facts))


def _state(name: str, dataset: str, data: DataFolder) -> str:
    """Say whether a data set is installed. A task looks for its files when it is built."""
    try:
        kind("tasks").build(name, {"dataset": dataset}, data=data)
    except DataMissing as error:
        return f"missing. {error.remedy}"
    except Exception as error:  # whatever a third party's constructor does
        return f"unknown ({type(error).__name__}: {error})"
    return "here"
