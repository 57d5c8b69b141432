"""Natural Instructions: crowdsourcing instructions as prompts (arXiv 2104.08773)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Natural Instructions: crowdsourcing instructions as prompts (arXiv 2104.08773).",
    tasks={"natural_instructions": ".task:NaturalInstructionsTask"},
    metrics={"bertscore": ".bertscore:BertScoreMetric", "bleurt": ".bleurt:BleurtMetric"},
)
