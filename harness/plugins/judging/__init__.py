"""Later judgements of runs, the validation of judges, panels, and errors labelled by hand."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Later judgements of runs, the validation of judges, and errors labelled by hand.",
    requires=("comparisons", "data", "estimates", "report"),
    section_builders={"panels": ".panel:build_panel"},
    measurements={"references": ".gold:read_reference_scores"},
    figures={"calibration": ".calibration:write_calibration"},
    report_sections={"scores": ".page:JudgeFindings"},
    verbs={
        "judge": Verb(
            summary="Score a run with another judge.",
            heading="Score again",
            target=".verbs:judge",
            executes=True,
            completes="harness.cli.verbs:run_names",
            subverbs={"validate": ".verbs:validate"},
        ),
        "errors": Verb(
            summary="Label failures by hand, and count the kinds of error.",
            heading="Score again",
            target=".verbs:errors",
        ),
    },
)
