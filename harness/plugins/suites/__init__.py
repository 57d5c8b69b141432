"""Evaluations: several models on several benchmarks, without a run file of your own."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Evaluations of several models on several benchmarks, without a run file.",
    api={"evaluate": ".api:evaluate", "aevaluate": ".api:aevaluate"},
    results={"EvaluationResult": ".api:EvaluationResult"},
    verbs={
        "eval": Verb(
            summary="Evaluate models on benchmarks, and show one table of results.",
            heading="Run",
            target=".verb:evaluate",
            executes=True,
        ),
    },
)
