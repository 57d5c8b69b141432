"""The report: a page about runs that works offline, and its figures as files."""

from harness.plugin import Plugin, Verb, View

plugin = Plugin(
    summary="A page about runs that works offline, its figures as files, and views of constraints.",
    requires=("comparisons",),
    views={
        "constraints": View(
            summary="Show which constraints fail, and by how much.",
            target=".constraints:show_constraints",
        ),
        "rejected": View(
            summary="Show which schemas (decoding.constraint) the provider rejected, by keyword.",
            target=".constraints:show_rejections",
        ),
    },
    figures={"text_map": ".figures.heat_map:write_text_map"},
    verbs={
        "report": Verb(
            summary="Write a report you can share: one HTML file that works offline.",
            heading="Look at runs",
            target=".page:report",
            completes="harness.cli.verbs:run_names",
            former_options={"-o": "--output", "--attempts": "--max-attempts"},
        )
    },
)
