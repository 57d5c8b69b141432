"""`harness data describe`: what a task's data set asks of answers, counted."""

from __future__ import annotations

from typing import Annotated, Any

import typer


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
    from harness.report.criteria_table import as_json, as_markdown, criteria_table

    forms = {"markdown": as_markdown, "json": as_json}
    if form not in ("table", *forms):
        raise ConfigError(f"There is no format {form!r}.", nearest(form, ["table", *forms]))
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
    if form == "table":
        output.print(criteria_table(task, found))
    else:
        sys.stdout.write(forms[form](task, found))
