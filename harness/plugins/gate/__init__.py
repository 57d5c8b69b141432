"""A gate for releases: whether runs meet their bounds, given the uncertainty of their figures."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="A gate for releases: whether runs meet their bounds.",
    requires=("comparisons",),
    sections={"check": ".section:CHECK"},
    results={"GateResult": ".api:GateResult"},
    verbs={
        "check": Verb(
            summary="Do runs meet the bounds of a release gate?",
            heading="Compare runs",
            target=".verb:check",
            completes="harness.cli.verbs:run_names",
        )
    },
)
