"""The live page of `harness view`: a server for one person, on this machine alone.

- `runs`: the list of all runs in some folders, with their progress
- `followed`: a run's attempts, read while the run is in progress
- `cases`: the selection of cases by verdict, outcome, score, group, round and text
- `text_search`: the search in the attempts' texts
- `chosen`: the data that a page requests about some runs: overview, cases and entries
- `timeline`: what happened during a session, per time bin
- `app`: the server, which checks where each request comes from and answers it
"""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="The live view of runs in the browser.",
    verbs={
        "view": Verb(
            summary="Follow runs in progress in the browser, and read finished ones.",
            heading="Look at runs",
            place=".verb:view",
        )
    },
)
