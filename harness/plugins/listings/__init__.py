"""Listings of what run files can name: tasks, backends, checkers, judges, prices, run files."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Listings of the tasks, backends, checkers, judges, prices and shipped run files.",
    verbs={
        "configs": Verb(
            summary="List the run files that are shipped with the harness.",
            heading="Run",
            target=".cards:configs",
        ),
        "tasks": Verb(
            summary="List the tasks, their options and data sets.",
            heading="Look up and check",
            target=".cards:tasks",
            executes=True,
        ),
        "backends": Verb(
            summary="List the backends, their options and the presets.",
            heading="Look up and check",
            target=".cards:backends",
            executes=True,
        ),
        "checkers": Verb(
            summary="List the checkers, and how a run file names them.",
            heading="Look up and check",
            target=".cards:checkers",
            executes=True,
        ),
        "judges": Verb(
            summary="List the judges, and how a run file names them.",
            heading="Look up and check",
            target=".cards:judges",
            executes=True,
        ),
        "prices": Verb(
            summary="List model prices with their dates and sources.",
            heading="Look up and check",
            target=".cards:prices",
        ),
    },
)
