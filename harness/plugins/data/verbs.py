"""`harness data`: fetch public data sets, list them, and show where they are."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.cli.options import JsonFormat, Overrides, check_picture
from harness.cli.verbs import VerbGroup
from harness.config.loading import parse_override
from harness.config.settings import Settings
from harness.datasets.catalogue import catalogue, find_data_set
from harness.datasets.folder import DataFolder, installed_file
from harness.errors import ConfigError, DataMissing
from harness.plugin_loader import Kind, kind
from harness.plugins.data import documents
from harness.plugins.data.documents import (
    CriteriaDescription,
    criteria_document,
    data_document,
)
from harness.plugins.data.fetch import install, summary
from harness.ports import Task, overrides_method
from harness.terminal.console import output, print_listing, say, show, write

WIDE = 80  # columns of a terminal on which data sets are listed as a table

data = VerbGroup("data")


@data.verb("fetch")
def fetch_one(
    name: str, mirror: Annotated[str | None, typer.Option("--from", metavar="URL")] = None
) -> None:
    """Download and convert a data set; repeat the command after an interruption.

    Args:
        name: The data set; 'harness data ls' lists them.
        mirror: Download the original files from URL/NAME/FILE.
    """
    root = Settings().data_dir
    dataset = find_data_set(name)
    if not install(dataset, root, mirror):
        say(f"{name} is already installed.")
    for product in dataset.products:
        write(str(installed_file(root, product.path)))


@data.verb("ls")
def list_all(form: JsonFormat = "table") -> None:
    """List the data sets, and which of them are installed."""
    root = Settings().data_dir
    data = []
    lines: list[RenderableType] = []
    table = Table("name", "installed", "download", "about, licence, home", box=SIMPLE)
    for dataset in catalogue().values():
        sizes = [original.size for original in dataset.originals]
        bytes_ = None if None in sizes else sum(filter(None, sizes))
        size = "" if bytes_ is None else f"{bytes_ / 1e6:.1f} MB"
        about = f"{dataset.about}\n{dataset.licence}\n{dataset.home}"
        state = summary(dataset, root)
        table.add_row(*map(Text, (dataset.name, state, size, about)))
        lines += [
            Text(dataset.name, "bold"),
            Padding(Text(f"{state}  {size}\n{about}"), (0, 0, 0, 2)),
        ]
        keys = ("name", "about", "licence", "home")
        facts = {key: getattr(dataset, key) for key in keys}
        data.append(facts | {"installed": state, "bytes": bytes_})
    print_listing(table if output.width >= WIDE else Group(*lines), data, form)
    say(f"The data folder is {root}.")


@data.verb("path")
def print_path(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """Print the data folder, or the folder of an installed data set.

    Args:
        name: The data set (default: the data folder itself).
    """
    folder = Settings().data_dir
    if name is not None:
        dataset = find_data_set(name)
        if (state := summary(dataset, folder)) != "yes":
            problem = f"The data set {name!r} is incomplete in {folder} (installed: {state})."
            remedy = f"Run 'harness data fetch {name}', or set HARNESS_DATA_DIR to where it is."
            raise DataMissing(problem, remedy)
        folder /= dataset.folder
    write(str(folder))


@data.verb("describe")
def describe(
    task: str,
    option: Overrides = None,
    by: Annotated[str, typer.Option(metavar="LABEL")] = "category",
    verbs: Annotated[bool, typer.Option("--verbs")] = False,
    form: Annotated[Literal["table", "markdown", "json"], typer.Option("--format")] = "table",
    picture: Annotated[Path | None, typer.Option("--map", metavar="FILE")] = None,
    embeddings: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Describe a data set: its size, the lengths of its texts, and its criteria.

    --by, --verbs, --map and --embeddings apply only to tasks with criteria.

    Args:
        task: A task; 'harness tasks' lists them.
        option: Set an option of the task; repeatable.
        by: Label to group the criteria by.
        verbs: Also count the verbs, which takes about 2 ms per criterion.
        form: Output format.
        picture: Also draw a map that puts similar criteria near each other: .svg, .png or .pdf.
        embeddings: JSONL with the "embedding" of each criterion's "text", for the map (default:
            TF-IDF).
    """
    check_picture("--map", picture)
    overridden = map(parse_override, option or [])
    options = {key.removeprefix("task."): value for key, value in overridden}
    built: Task[Any] = kind("tasks").build(task, options, data=DataFolder(Settings().data_dir))
    instances = built.instances()
    if overrides_method(built, Task.describe):
        if by != "category" or verbs or picture or embeddings:
            problem = f"The task {task!r} has no criteria to group, count or draw."
            raise ConfigError(problem, "Omit --by, --verbs, --map and --embeddings.")
        show(data_document(task, list(built.describe())), form)
    elif overrides_method(built, Task.criteria):
        tasks = [(instance.groups, built.criteria(instance)) for instance in instances]
        options = {"verbs": documents.verbs} if verbs else {}
        description = CriteriaDescription(tasks, by, **options)
        show(criteria_document(task, description), form)
        if picture is not None:
            texts: dict[str, str] = {}
            for _, criteria in tasks:
                texts |= {criterion.text: criterion.groups.get(by, "") for criterion in criteria}
            Kind("figures").load("text_map")(picture, task, texts, by, embeddings)
            say(f"Map in {picture}")
    else:
        remedy = "Use a task that has its own description, or criteria."
        raise ConfigError(f"The task {task!r} cannot describe its data.", remedy)
