"""The names and summaries of all verbs, and how a verb's function becomes a command."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

GROUPS: dict[str, dict[str, str]] = {
    "Run": {
        "run": "Run a run file, or continue it where it was interrupted.",
        "eval": "Evaluate models on benchmarks, and show one table of results.",
        "merge": "Merge the shards of a run into one run.",
        "init": "Write the files of your first benchmark.",
        "configs": "List the run files that are shipped with the harness.",
        "reproduce": "Reproduce the tables and figures of a paper.",
    },
    "Look at runs": {
        "ls": "List the runs.",
        "show": "Show a run's metrics, its failures, or one instance in full.",
        "view": "Follow runs in progress in the browser, and read finished ones.",
        "report": "Write a report you can share: one HTML file that works offline.",
        "sync": "Get runs from the team's object store, and copy runs to it.",
        "mv": "Rename a run.",
        "rm": "Delete runs, after confirmation.",
    },
    "Compare runs": {
        "compare": "Is one run better than another?",
        "table": "What would a paper's results table of these runs look like?",
        "ablation": "How much does each variant of a run file gain over the baseline?",
        "matrix": "Which pairs of runs differ, and do groups rank the runs alike?",
        "check": "Do runs meet the bounds of a release gate?",
    },
    "Score again": {
        "score": "Score a run again without model calls.",
        "judge": "Score a run with another judge.",
        "errors": "Label failures by hand, and count the kinds of error.",
    },
    "Look up and check": {
        "tasks": "List the tasks, their options and data sets.",
        "backends": "List the backends, their options and the presets.",
        "checkers": "List the checkers, and how a run file names them.",
        "judges": "List the judges, and how a run file names them.",
        "prices": "List model prices with their dates and sources.",
        "docs": "List the pages of the documentation, or show one.",
        "doctor": "Check the installation, keys, servers, data and folders.",
    },
    "Data and tools": {
        "data": "Fetch public data sets, list them, and show where they are.",
        "build": "Build your own benchmark.",
        "batches": "List the batches of all runs, or cancel one.",
        "cache": "Inspect and clear the cache of paid replies.",
        "export": "Export runs for other tools.",
        "import": "Import another tool's results as a run.",
        "mock": "Serve a simulated provider on this machine.",
    },
}
"""The verbs in ``harness --help``, under the headings of their groups."""

VERBS = {verb: said for verbs in GROUPS.values() for verb, said in verbs.items()}
"""The summary of each verb in ``harness --help``.

A verb's function and module are named like the verb. The exceptions are the modules in `MODULES`,
and the functions ``evaluate`` (of ``eval``) and ``import_``.
"""

SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class CommandGroup(TyperGroup):
    """A group of verbs. Its ``--help`` shows complete summaries."""

    headings: Mapping[str, Iterable[str]] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs and their summaries."""
        for heading, names in (self.headings or {"Commands": self.list_commands(ctx)}).items():
            commands: dict[str, Any] = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, str(one.help).partition("\n\n")[0]) for name, one in commands.items()]
                )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command as Click does, with a better error for an unknown one."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            from harness.config.other_tools import tables
            from harness.errors import nearest

            said = nearest(name, names)
            if self.headings:  # there are too many commands to list
                close = said if said.startswith("Did you mean") else ""
                known = tables()["commands"].get(name)
                said = known or close or "harness --help lists the commands."
            ctx.fail(f"No such command {name!r}. {said}")
        return super().resolve_command(ctx, args)


def documented(verb: Callable[..., None]) -> Callable[..., None]:
    """Prepare a verb's function for Typer, and return it.

    The help of its parameters is taken from ``Args:`` in its docstring. A parameter without a
    default becomes an argument, and a bool becomes a flag without ``--no-``.
    """
    text, _, args = (inspect.getdoc(verb) or "").partition("\n\nArgs:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", args, re.MULTILINE)
    helps = {name: " ".join(said.split()) for name, said in found}
    hints = typing.get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        kind: Any = hints[name]
        if typing.get_origin(kind) is Annotated:
            kind, given = typing.get_args(kind)[:2]
        elif parameter.default is inspect.Parameter.empty:
            given = typer.Argument()
        else:
            given = typer.Option(*[f"--{name.replace('_', '-')}"] if kind is bool else [])
        given = copy(given)  # several verbs may share it
        given.help = helps.get(name, given.help)
        given.metavar = given.metavar or _metavar(name, kind)
        verb.__annotations__[name] = Annotated[kind, given]
    verb.__doc__ = text
    return verb


def _metavar(name: str, kind: Any) -> str | None:
    while typing.get_origin(kind) in (list, typing.Union, types.UnionType):
        kind = typing.get_args(kind)[0]
    names = {int: "N", float: "NUMBER", Path: "FILE", str: name.strip("_").upper()}
    return names.get(kind)


class VerbGroup(typer.Typer):
    """A verb with subcommands, such as ``harness cache``."""

    def __init__(self, name: str) -> None:
        super().__init__(cls=CommandGroup, help=VERBS[name], no_args_is_help=True, **SETTINGS)

    def verb(self, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator that adds a subcommand of this name, with help as in `documented`."""
        return lambda verb: self.command(name)(documented(verb))
