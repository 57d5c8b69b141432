"""The command line: one group with all verbs.

A verb's module is imported only when the verb is used, so that ``--help`` and completion are
instant.
"""

import errno
import io
import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from harness.cli.completion import judge_words, run_files, run_names

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

MODULES = {
    **dict.fromkeys(("configs", "ls", "tasks", "backends", "prices", "checkers"), "listings"),
    "judges": "listings",
    **dict.fromkeys(("merge", "rm", "mv", "sync"), "manage"),
    **dict.fromkeys(("export", "import"), "exchange"),
    **dict.fromkeys(("table", "matrix", "ablation"), "compare"),
    "validate": "judge",
    "eval": "run",
}
"""The modules of verbs that are not defined in a module of their own name."""

ALIASES: dict[str, dict[str, str]] = {
    "report": {"-o": "--output", "--attempts": "--max-attempts"},
    "export": {"-o": "--output"},
    "data": {"--option": "--override"},
    "build": {"--out": "--output"},
}
"""Former names of options, by verb. They are still accepted."""

FIRST_STEPS = """First steps:

\b
  harness run quickstart     a first run: offline, with a simulated model
  harness eval ifeval --model openai/gpt-4o-mini --limit 50
  harness init               a benchmark of your own
"""
"""The end of ``harness --help``."""

MISSING = {
    "run FILE": "Try harness run quickstart; 'harness configs' lists run files, 'harness init' "
    "writes one.",
    "eval TASKS": "Such as: harness eval ifeval --model openai/gpt-4o-mini; 'harness tasks' lists "
    "benchmarks.",
    "eval MODELS": "Such as openai/gpt-4o-mini, or simulated to try it; 'harness backends' lists "
    "them.",
    "RUN": "'harness ls' lists the runs.",
}
"""What to write for a missing argument or option, by verb and placeholder or by placeholder."""

COMPLETED = {
    "run": run_files,
    "judge": judge_words,
    **dict.fromkeys(("show", "check", "compare", "table", "matrix", "report"), run_names),
    **dict.fromkeys(("score", "export", "rm", "mv", "view"), run_names),
}
"""Functions that complete the arguments of verbs without importing the modules of the verbs."""

SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


EXECUTING = frozenset(
    {"run", "eval", "reproduce", "score", "judge", "build", "data", "batches"}
    | {"tasks", "backends", "checkers", "judges"}
)
"""The verbs that execute Python files named in run files, runs or arguments. Others only read."""


class _Verb(TyperCommand):
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:  # typer does not export the class
        """Import the verb and return its context."""
        from harness.execution import executing

        name = str(self.name)
        if name == "judge" and args[:1] == ["validate"]:
            info_name, args, name = f"{info_name} validate", args[1:], "validate"
        former = ALIASES.get(name, {})
        args = [former.get(word, word) for word in args]
        completing = extra.get("resilient_parsing") and name in COMPLETED
        command = _completed(name) if completing else _imported(name)
        try:
            context = command.make_context(info_name, args, parent, **extra)
            context.with_resource(executing("allowed" if name in EXECUTING else "refused"))
            return context
        except Exception as error:  # Typer exports no class of usage errors
            _explain(name, error)
            raise


def _explain(verb: str, error: Any) -> None:
    missing = getattr(error, "param", None)
    if getattr(missing, "name", "") == "limit" and "integer" in str(error.message):
        error.message = "It is a number of instances, such as 50, not a share of them."
    elif hasattr(error, "param_type") and missing is not None:
        metavar = str(missing.metavar)
        error.message = MISSING.get(f"{verb} {metavar}") or MISSING.get(metavar, "")


class _Completed(TyperCommand):
    """A command for shell completion, imported only if its options must be listed."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return list(_imported(str(self.name)).shell_complete(ctx, incomplete))


def _completed(name: str) -> Any:
    alone = typer.Typer(add_completion=False, **SETTINGS)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    argument: Any = typer.Argument(autocompletion=COMPLETED[name])

    @alone.command(name, cls=_Completed, context_settings=anything)
    def _verb(words: list[str] = argument) -> None:
        pass

    return typer.main.get_command(alone)


def _imported(name: str) -> Any:
    from harness.cli.console import documented

    module = import_module(f"harness.cli.{MODULES.get(name, name)}")
    verb = getattr(module, {"import": "import_", "eval": "evaluate"}.get(name, name))
    if isinstance(verb, typer.Typer):
        group: Any = typer.main.get_group(verb)
        group.name = name
        for command in group.commands.values():
            _hide_types(command)
        return group
    alone = typer.Typer(add_completion=False, **SETTINGS)
    alone.command(name)(documented(verb))
    return _hide_types(typer.main.get_command(alone))


def _hide_types(command: Any) -> Any:
    """Hide the Python types of arguments in a command's ``--help``."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""
    return command


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
            from harness.errors import nearest

            said = nearest(name, names)
            if self.headings:  # there are too many commands to list
                close = said if said.startswith("Did you mean") else ""
                said = close or "harness --help lists the commands."
            ctx.fail(f"No such command {name!r}. {said}")
        return super().resolve_command(ctx, args)


class _LazyGroup(CommandGroup):
    """The group of all verbs, which are imported on use."""

    headings = GROUPS

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _Verb(cmd_name, help=VERBS[cmd_name]) if cmd_name in VERBS else None

    def invoke(self, ctx: Any) -> Any:
        """Run a verb. An EOFError becomes another error: Typer would only print "Aborted!"."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise RuntimeError("A file ends too early.") from error


app = typer.Typer(
    name="harness",
    cls=_LazyGroup,
    help="Evaluate language models on instruction following and constrained generation.",
    epilog=FIRST_STEPS,
    no_args_is_help=True,
    add_completion=True,
    **SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        import harness

        typer.echo(harness.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. A user's mistake leads to a message, not a traceback."""
    from harness.errors import HarnessError

    _repair_streams()
    try:
        app()
        return
    except HarnessError as error:
        message, code = "\n  ".join(filter(None, (error.message, error.remedy))), 1
    except KeyboardInterrupt:
        message, code = "", 130
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message, code = f"Cannot write the output: {error.strerror}.", 1
    except Exception as error:
        from harness.plugins import external

        if used := external():
            error.add_note(
                f"harness: plug-ins in use: {', '.join(used)}. Check them with harness.testing "
                "(harness docs plugins). No paid reply is lost: fix it, and run the same command."
            )
        raise
    if message:
        from harness.config.settings import without_secrets

        # Messages may quote exceptions of the user's own code.
        print(f"harness: {without_secrets(message)}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _repair_streams() -> None:
    """Make the standard streams safe to use.

    Otherwise the next opened file could take a closed stream's place and receive its output.
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
