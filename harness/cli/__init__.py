"""The command line: a lazy group of verbs, one module each.

A verb's module is imported when the verb is used, so ``harness --help`` and a TAB stay instant.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from harness.cli.completion import judge_words, run_files, run_names

VERBS = {
    "run": "Run a run file, or continue it where it was interrupted.",
    "ls": "List the runs.",
    "show": "Show a run's metrics, or every attempt of one instance.",
    "compare": "Compare runs instance by instance.",
    "table": "Show several runs as a paper's results table.",
    "matrix": "Test every pair of runs, and compare how groups rank them.",
    "report": "Write a report you can share: one HTML file that works offline.",
    "ablation": "Show what each variant of a run file gains over the baseline.",
    "score": "Score a run again without model calls.",
    "judge": "Score a run with another judge.",
    "tasks": "List the tasks, their options and data sets.",
    "backends": "List the backends, their options and the presets.",
    "prices": "List model prices with their dates and sources.",
    "doctor": "Check the installation, keys, servers, data and folders.",
    "export": "Export runs for other tools.",
    "import": "Import another tool's results as a run.",
    "mock": "Serve a simulated provider on this machine.",
    "build": "Build your own benchmark.",
    "cache": "Inspect and clear the cache of paid replies.",
    "data": "Fetch public data sets, and list them.",
}
"""Verb -> its line in ``harness --help``. The verb's module and function have its name."""

COMPLETED = {
    "run": run_files,
    "judge": judge_words,
    **dict.fromkeys(("show", "compare", "table", "matrix", "report", "score", "export"), run_names),
}
"""Verb -> what completes its arguments, so that a TAB imports no verb."""

SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class CompletedCommand(TyperCommand):
    """Stands for a verb while the shell completes its arguments."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Build the context; a verb of the verb, as in ``judge validate``, is imported."""
        if args[:1] != ["validate"]:
            return super().make_context(info_name, args, parent, **extra)
        return _imported(str(self.name)).make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Offer the verb's options, which takes importing it."""
        verb: Any = _imported(str(self.name))
        return list(verb.shell_complete(ctx, incomplete))


def _completed(name: str) -> Any:
    """A command that completes the arguments of a verb."""
    alone = typer.Typer(add_completion=False, **SETTINGS)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    words: Any = typer.Argument(autocompletion=COMPLETED[name])

    @alone.command(name, cls=CompletedCommand, context_settings=anything)
    def _verb(words: list[str] = words) -> None:
        pass

    return typer.main.get_command(alone)


def _imported(cmd_name: str) -> Any:
    """Import a verb as a command."""
    name = f"{cmd_name}_" if cmd_name == "import" else cmd_name
    verb = getattr(import_module(f"harness.cli.{name}"), name)
    if isinstance(verb, typer.Typer):
        group: Any = typer.main.get_group(verb)
        group.name = cmd_name
        return group
    alone = typer.Typer(add_completion=False, **SETTINGS)
    alone.command(cmd_name, cls=getattr(verb, "command_class", None))(verb)
    return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """The verbs, imported when they are used."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs in the order of ``--help``."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a verb, or return None for an unknown one. A listing imports no verb."""
        if cmd_name not in VERBS:
            return None
        if self._listing:
            return TyperCommand(cmd_name, help=VERBS[cmd_name])
        if ctx.resilient_parsing and cmd_name in COMPLETED:
            return _completed(cmd_name)
        return _imported(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs with their help lines."""
        self._listing = True
        super().format_commands(ctx, formatter)
        self._listing = False

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Offer the verbs and the group's options."""
        self._listing = True
        found = super().shell_complete(ctx, incomplete)
        self._listing = False
        return found


app = typer.Typer(
    name="harness",
    cls=LazyGroup,
    help="Evaluate language models on instruction following and constrained generation.",
    no_args_is_help=True,
    add_completion=True,
    **SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("harness"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a user's mistake prints a message, never a traceback."""
    from harness.errors import HarnessError

    _repair_streams()
    try:
        app()
    except HarnessError as error:
        print(f"harness: {error.message}", file=sys.stderr)  # noqa: T201
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"harness: Cannot write the output: {error.strerror}.", file=sys.stderr)  # noqa: T201
        sys.exit(1)


def _repair_streams() -> None:
    """Make sure that writing output cannot fail because of the stream.

    A closed stream is opened on the null device: otherwise the next file that is opened would get
    its number, and output would be written into it. Characters that the terminal's encoding lacks
    become question marks.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
