"""The live page of `harness view`: a server for one person, on this machine alone.

- `runs`: the list of all runs in some folders, a run in progress, and the timeline of a session
- `cases`: the selection of cases by verdict, outcome, score, group, round and text
- `chosen`: the data that a page requests about some runs: overview, cases and entries
- `status`: a session's progress while it works, and requests to stop it
- `app`: the server, which checks where each request comes from and answers it
"""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="The live view of runs in the browser.",
    requires=("comparisons", "report"),
    run_steps={"watch": ".status:StatusWriter"},
    verbs={
        "view": Verb(
            summary="Follow runs in progress in the browser, and read finished ones.",
            heading="Look at runs",
            target=".app:view",
            completes="harness.cli.verbs:run_names",
        )
    },
)
