"""`harness data`: the data sets that can be fetched, and where they are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

data = typer.Typer(
    help="Fetch public data sets, list them, and say where they are.", no_args_is_help=True
)


@data.command("fetch")
def fetch_one(
    name: Annotated[str, typer.Argument(help="The data set; 'harness data ls' lists them.")],
    mirror: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="Take the originals from URL/NAME/FILE."),
    ] = None,
) -> None:
    """Download a data set and convert it; an interrupted download goes on where it stopped."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    from rich.text import Text

    from harness.cli.console import messages, output
    from harness.config.settings import Settings
    from harness.datasets import fetch
    from harness.datasets.catalogue import Original, data_set

    root = Settings().data_dir
    found = data_set(name)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn()
    with Progress(*columns, console=messages, disable=not messages.is_terminal) as bars:

        def shown(original: Original) -> fetch.Progress:
            bar = bars.add_task(original.name, total=original.size)
            return lambda there, total: bars.update(bar, completed=there, total=total)

        fetched = fetch.fetch(found, root, mirror, shown)
    for original, seen in fetched.seen.items():
        said = f"{original}: {seen.size:,} bytes, sha256 {seen.sha256} (not known beforehand)"
        messages.print(Text(said), soft_wrap=True)
    if not fetched.made:
        messages.print(Text(f"{name} is there already."), soft_wrap=True)
    for product in found.products:
        output.print(Text(str(root / product.path)), soft_wrap=True)


@data.command("ls")
def list_all() -> None:
    """List what is there and what could be fetched."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    from harness.cli.console import messages, output
    from harness.config.settings import Settings
    from harness.datasets.catalogue import CATALOGUE
    from harness.datasets.fetch import summary

    root = Settings().data_dir
    table = Table("name", "there", "download", "what, licence, home", box=SIMPLE)
    for found in CATALOGUE.values():
        sizes = [original.size for original in found.originals]
        size = "" if None in sizes else f"{sum(filter(None, sizes)) / 1e6:.1f} MB"
        about = f"{found.about}\n{found.licence}\n{found.home}"
        table.add_row(*map(Text, (found.name, summary(found, root), size, about)))
    output.print(table)
    messages.print(Text(f"The data folder is {root}."), soft_wrap=True)


@data.command("path")
def print_path(
    name: Annotated[
        str | None, typer.Argument(help="A data set; without one, all of them.")
    ] = None,
) -> None:
    """Print the data folder, or that of a data set that is there."""
    from rich.text import Text

    from harness.cli.console import output
    from harness.config.settings import Settings
    from harness.datasets.catalogue import data_set
    from harness.datasets.fetch import summary
    from harness.errors import DataMissing

    folder = Settings().data_dir
    if name is not None:
        found = data_set(name)
        if (state := summary(found, folder)) != "yes":
            raise DataMissing(
                f"The data set {name!r} is not, or not as published, in {folder} ({state}).",
                f"Run 'harness data fetch {name}', or set HARNESS_DATA_DIR to where it is.",
            )
        folder /= found.folder
    output.print(Text(str(folder)), soft_wrap=True)


@data.command("describe")
def describe(
    task: Annotated[str, typer.Argument(help="A task that judges are asked about: wildifeval.")],
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", metavar="KEY=VALUE", help="An option of the task."),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="LABEL", help="The criteria by its groups.")
    ] = "category",
    form: Annotated[str, typer.Option("--format", help="table, markdown or json.")] = "table",
) -> None:
    """Count what a data set asks of answers: categories, how many, first words, what together."""
    import sys

    from harness.analysis.constraints import describe as counted
    from harness.cli.console import output
    from harness.config.settings import Settings
    from harness.datasets.folder import DataFolder
    from harness.errors import ConfigError, nearest
    from harness.plugins import kind
    from harness.ports import Judged
    from harness.report.constraints import criteria_document
    from harness.report.render import FORMATS
    from harness.report.terminal import terminal

    forms = ("table", "markdown", "json")
    if form not in forms:
        raise ConfigError(f"There is no format {form!r}.", nearest(form, forms))
    options: dict[str, str] = {}
    for one in option or []:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"-o {one}: must be KEY=VALUE.")
        options[name.removeprefix("task.")] = value
    built: Any = kind("tasks").build(task, options, data=DataFolder(Settings().data_dir))
    task_instances = built.instances()
    if not isinstance(built, Judged):
        raise ConfigError(
            f"The task {task!r} does not say what an answer has to satisfy: there is nothing to "
            "count.",
            "Tasks that do have criteria, such as wildifeval.",
        )
    found = counted(((one.id, one.groups, built.criteria(one)) for one in task_instances), by)
    document = criteria_document(task, found)
    if form == "table":
        output.print(terminal(document))
    else:
        sys.stdout.write(FORMATS[form](document))
