"""Natural Instructions: crowdsourcing instructions as prompts (arXiv 2104.08773)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Natural Instructions: crowdsourcing instructions as prompts (arXiv 2104.08773).",
    tasks={"natural_instructions": ".task:NaturalInstructionsTask"},
    metrics={
        "bertscore": ".overlap:BertScoreMetric",
        "bleurt": ".overlap:BleurtMetric",
    },
    data_sets="data_sets.yaml",
    study="study.yaml",
    removed_options={"natural_instructions.token_table": (None,)},
)
