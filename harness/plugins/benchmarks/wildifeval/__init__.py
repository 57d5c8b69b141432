"""WildIFEval: constraints in real users' instructions (arXiv 2503.06573)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="WildIFEval: constraints in real users' instructions (arXiv 2503.06573).",
    tasks={"wildifeval": ".task:WildIFEvalTask"},
    data_sets="data_sets.yaml",
    judge_prompts={"wildifeval": "wildifeval_judge"},
    study="study.yaml",
    removed_options={"wildifeval.rules": ("beside", "off")},
)
