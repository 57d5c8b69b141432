"""The names and summaries of all verbs, and how a verb's function becomes a command."""

import contextlib
import functools
import inspect
import os.path
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness.declarations import DISTRIBUTION, declarations, declared_views, describe_exception
from harness.plugin import Verb

RUN_NAMES = "harness.cli.verbs:run_names"

HEADINGS = (
    "Run",
    "Look at runs",
    "Compare runs",
    "Score again",
    "Data and tools",
    "Look up and check",
)
"""The headings of the help in their order. Further ones of plug-ins follow."""

CORE_VERBS: Mapping[str, Verb] = {
    "run": Verb(
        summary="Run a run file, or continue it where it was interrupted.",
        heading="Run",
        target="harness.cli.run:run",
        executes=True,
        completes="harness.cli.verbs:run_files",
    ),
    "ls": Verb(
        summary="List the runs.",
        heading="Look at runs",
        target="harness.cli.manage:ls",
    ),
    "mv": Verb(
        summary="Rename a run.",
        heading="Look at runs",
        target="harness.cli.manage:mv",
        completes=RUN_NAMES,
    ),
    "rm": Verb(
        summary="Delete runs, after confirmation.",
        heading="Look at runs",
        target="harness.cli.manage:rm",
        completes=RUN_NAMES,
    ),
}
"""The verbs of the core."""


def all_verbs() -> Mapping[str, Verb]:
    """Return the verbs of the core and of all plug-ins, by name, in the order of the help."""
    return _read_verbs(tuple(sys.path))


@functools.cache
def _read_verbs(path: tuple[str, ...]) -> Mapping[str, Verb]:
    verbs = dict(CORE_VERBS)
    # Another package's verb never replaces a built-in one, whichever is found first.
    for declaration in sorted(declarations(), key=lambda entry: entry.package != DISTRIBUTION):
        for name, verb in declaration.plugin.verbs.items():
            verbs.setdefault(name, declaration.resolve_verb(verb))
    headings = list(dict.fromkeys([*HEADINGS, *(verb.heading for verb in verbs.values())]))
    return dict(sorted(verbs.items(), key=lambda item: headings.index(item[1].heading)))


def find_verb(name: str) -> Verb | None:
    """Return a verb by its name, or None. Plug-ins are read only if it is none of the core's."""
    return CORE_VERBS.get(name) or all_verbs().get(name)


def next_steps(*hints: str) -> str:
    """Join hints with semicolons, omitting those with commands that are not installed."""
    usable = []
    for hint in hints:
        if all(find_verb(name) is not None for name in re.findall(r"\bharness (\w+)", hint)):
            usable.append(hint)
    return "; ".join(usable)


def load_verb(name: str, verb: Verb) -> Any:
    """Import a verb, and return its `VerbGroup`, or its function after `prepare_verb`.

    Args:
        name: The verb's name, or a subverb's, for messages.
        verb: The verb.

    Raises:
        ConfigError: If the verb is another package's, and cannot be imported or has a parameter
            without an annotation.
    """
    try:
        function = import_place(verb.target)
        return function if isinstance(function, typer.Typer) else prepare_verb(function)
    except Exception as error:  # a third party's module may raise anything
        from harness.errors import ConfigError, HarnessError

        module = verb.target.partition(":")[0]
        packages = {
            member.package
            for declaration in declarations()
            for member in declaration.members()
            if member.module == module
        }
        if isinstance(error, HarnessError) or not packages or DISTRIBUTION in packages:
            raise
        problem = f"The verb {name!r} from {packages.pop()} cannot be loaded"
        problem += f" ({describe_exception(error)})."
        raise ConfigError(problem, "Fix or uninstall that package.") from error


def import_place(place: str) -> Any:
    """Import an object from a place of the form ``MODULE:NAME``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


TYPER_SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class CommandGroup(TyperGroup):
    """A group of verbs. Its ``--help`` shows complete summaries."""

    def headings(self) -> Mapping[str, Iterable[str]]:
        """Return the names of the verbs by heading, or {} for a single list."""
        return {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs and their summaries."""
        for heading, names in (self.headings() or {"Commands": self.list_commands(ctx)}).items():
            rows = []
            for name in names:
                command: Any = self.get_command(ctx, name)
                rows.append((name, str(command.help).partition("\n\n")[0]))
            with formatter.section(heading):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command as Click does, with a better error for an unknown one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            from harness.errors import suggest_name

            remedy = suggest_name(name, self.list_commands(ctx))
            if self.headings() and not remedy.startswith("Did you mean"):
                remedy = "harness --help lists the commands."  # there are too many to list here
            ctx.fail(f"No such command {name!r}. {remedy}")
        return super().resolve_command(ctx, args)


def prepare_verb(verb: Callable[..., None]) -> Callable[..., None]:
    """Annotate a verb's function for Typer, and return it.

    The help of its parameters is taken from ``Args:`` in its docstring. A parameter without a
    default becomes an argument, and a bool becomes a flag without ``--no-``.

    Raises:
        TypeError: If a parameter has no annotation.
    """
    summary, _, args = (inspect.getdoc(verb) or "").partition("\n\nArgs:\n")
    descriptions = re.findall(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", args, re.MULTILINE)
    helps = {name: " ".join(description.split()) for name, description in descriptions}
    hints = typing.get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name not in hints:
            raise TypeError(f"its parameter {name!r} has no annotation, such as {name}: str")
        kind: Any = hints[name]
        if typing.get_origin(kind) is Annotated:
            kind, declared = typing.get_args(kind)[:2]
        elif parameter.default is inspect.Parameter.empty:
            declared = typer.Argument()
        else:
            declared = typer.Option(*[f"--{name.replace('_', '-')}"] if kind is bool else [])
        declared = copy(declared)  # several verbs may share it
        declared.help = helps.get(name, declared.help)
        declared.metavar = declared.metavar or _metavar(name, kind)
        verb.__annotations__[name] = Annotated[kind, declared]
    verb.__doc__ = summary
    _replace_views(verb)
    return verb


def _replace_views(verb: Callable[..., None]) -> None:
    """Replace the parameter ``**views`` of a verb, if any, by a flag for each plug-in's view."""
    signature = inspect.signature(verb)
    *parameters, last = signature.parameters.values()
    if last.kind is not last.VAR_KEYWORD:
        return
    for name, view in declared_views().items():
        flag = typer.Option(f"--{name.replace('_', '-')}", help=view.summary)
        kind = Annotated[bool, flag]
        verb.__annotations__[name] = kind
        parameters.append(
            inspect.Parameter(name, last.KEYWORD_ONLY, default=False, annotation=kind)
        )
    vars(verb)["__signature__"] = signature.replace(parameters=parameters)


def _metavar(name: str, kind: Any) -> str | None:
    while typing.get_origin(kind) in (list, typing.Union, types.UnionType):
        kind = typing.get_args(kind)[0]
    names = {int: "N", float: "NUMBER", Path: "FILE", str: name.strip("_").upper()}
    return names.get(kind)


class VerbGroup(typer.Typer):
    """A verb with subcommands, such as ``harness cache``."""

    def __init__(self, name: str) -> None:
        verb = find_verb(name)
        summary = verb.summary if verb is not None else ""
        super().__init__(cls=CommandGroup, help=summary, no_args_is_help=True, **TYPER_SETTINGS)

    def verb(self, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator that adds a subcommand of this name (see `prepare_verb`)."""
        return lambda verb: self.command(name)(prepare_verb(verb))


# Completion by the shell. It must respond at once, so slow imports are avoided.


def run_names(incomplete: str) -> list[str]:
    """Return the names of runs that start with ``incomplete``."""
    configs = _runs_dir().glob("*/config.yaml")
    return _matching(incomplete, (config.parent.name for config in configs))


def run_files(incomplete: str) -> list[str]:
    """Return YAML files that start with ``incomplete``: here, in configs/, or in its folder."""
    folders = {"", "configs/", incomplete[: incomplete.rfind("/") + 1]}
    files = (f"{folder}{path.name}" for folder in folders for path in Path(folder).glob("*.y*ml"))
    return _matching(incomplete, files)


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    with contextlib.suppress(OSError):  # a folder that cannot be read has no names
        return sorted(name for name in names if name.startswith(incomplete))
    return []


def _runs_dir() -> Path:
    """Return the runs folder, without loading the settings (0.3 s) unless ``.env`` names it."""
    dotenv = Path(".env")
    if dotenv.is_file() and "HARNESS_RUNS_DIR" in dotenv.read_text(errors="replace").upper():
        from harness.config.settings import Settings

        return Settings().runs_dir
    variable = "$HARNESS_RUNS_DIR"
    folder = os.path.expandvars(variable)
    return Path("runs" if folder in ("", variable) else folder).expanduser()
