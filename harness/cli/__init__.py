"""The command line: one group with all verbs.

A verb's module is imported only when the verb is used, so that ``--help`` and completion are
instant.
"""

import errno
import io
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import harness
from harness.cli.verbs import (
    TYPER_SETTINGS,
    CommandGroup,
    all_verbs,
    find_verb,
    import_place,
    load_verb,
)
from harness.plugin import Verb

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
"""What to write for a missing argument or option, by placeholder, with or without the verb."""


class _Verb(TyperCommand):
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:  # typer does not export the class
        """Import the verb and return its context."""
        from harness.execution import set_code_permission  # not needed for --help

        name = str(self.name)
        verb = find_verb(name)
        assert verb is not None
        if args and args[0] in verb.subverbs:
            name, *args = args
            info_name = f"{info_name} {name}"
            verb = replace(verb, target=verb.subverbs[name], executes=False, completes="")
        args = [verb.former_options.get(word, word) for word in args]
        if extra.get("resilient_parsing") and verb.completes:
            command = _completion_command(name, verb)
        else:
            command = _import_command(name, verb)
        try:
            context = command.make_context(info_name, args, parent, **extra)
            context.with_resource(set_code_permission("allowed" if verb.executes else "refused"))
            return context
        except Exception as error:  # Typer exports no class of usage errors
            _improve_message(name, error)
            raise


def _improve_message(verb: str, error: Any) -> None:
    """Say in a usage error what to write instead, if that is known."""
    parameter = getattr(error, "param", None)
    if getattr(parameter, "name", "") == "limit" and "integer" in str(error.message):
        error.message = "It is a number of instances, such as 50, not a share of them."
    elif hasattr(error, "param_type") and parameter is not None:  # the parameter is missing
        metavar = str(parameter.metavar)
        error.message = MISSING.get(f"{verb} {metavar}") or MISSING.get(metavar, "")


class _CompletionCommand(TyperCommand):
    """A command for shell completion. Its verb is imported only to list its options."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        name = str(self.name)
        verb = find_verb(name)
        assert verb is not None
        return list(_import_command(name, verb).shell_complete(ctx, incomplete))


def _completion_command(name: str, verb: Verb) -> Any:
    complete = import_place(verb.completes)

    def complete_argument(incomplete: str) -> list[str]:
        subverbs = [word for word in verb.subverbs if word.startswith(incomplete)]
        return [*complete(incomplete), *subverbs]

    app = typer.Typer(add_completion=False, **TYPER_SETTINGS)
    accept_all = {"ignore_unknown_options": True, "allow_extra_args": True}
    argument: Any = typer.Argument(autocompletion=complete_argument)

    @app.command(name, cls=_CompletionCommand, context_settings=accept_all)
    def _verb(arguments: list[str] = argument) -> None:
        pass

    return typer.main.get_command(app)


def _import_command(name: str, verb: Verb) -> Any:
    app_or_function = load_verb(name, verb)
    if isinstance(app_or_function, typer.Typer):
        group: Any = typer.main.get_group(app_or_function)
        group.name = name
        for command in group.commands.values():
            _hide_types(command)
        return group
    app = typer.Typer(add_completion=False, **TYPER_SETTINGS)
    app.command(name)(app_or_function)
    return _hide_types(typer.main.get_command(app))


def _hide_types(command: Any) -> Any:
    """Hide the Python types of arguments in a command's ``--help``."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""
    return command


class _LazyGroup(CommandGroup):
    """The group of all verbs, which are imported on use."""

    def headings(self) -> Mapping[str, Iterable[str]]:
        """Return the names of the verbs by heading."""
        headings: dict[str, list[str]] = {}
        for name, verb in all_verbs().items():
            headings.setdefault(verb.heading, []).append(name)
        return headings

    def list_commands(self, ctx: Any) -> list[str]:
        return list(all_verbs())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        verb = find_verb(cmd_name)
        return None if verb is None else _Verb(cmd_name, help=verb.summary)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb. An EOFError becomes a RuntimeError: Typer would only print "Aborted!"."""
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
    **TYPER_SETTINGS,
)


def _version(requested: bool) -> None:
    if requested:
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
    from harness.errors import HarnessError  # not needed for --help, which ends in `app`

    _repair_streams()
    try:
        app(prog_name="harness")  # whichever module is the main program
        return
    except HarnessError as error:
        message = "\n  ".join(filter(None, (error.message, error.remedy)))
        code = 1
    except KeyboardInterrupt:
        message = ""
        code = 130
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"Cannot write the output: {error.strerror}."
        code = 1
    except Exception as error:
        from harness.plugin_loader import loaded_external_plugins

        if plugins := loaded_external_plugins():
            error.add_note(
                f"harness: plug-ins in use: {', '.join(plugins)}. Check them ('harness docs "
                "plugins'). No paid reply is lost: fix it, and run the same command."
            )
        raise
    if message:
        from harness.config.settings import mask_secrets
        from harness.report.text import escape_unprintable

        # Messages may quote arguments, files, and exceptions of the user's own code.
        text = escape_unprintable(mask_secrets(message), "\n\t")
        print(f"harness: {text}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _repair_streams() -> None:
    """Open closed standard streams, and replace characters that cannot be encoded.

    Otherwise the next opened file could get a closed stream's descriptor and receive its output.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
