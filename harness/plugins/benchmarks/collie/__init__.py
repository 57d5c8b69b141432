"""COLLIE: constraints on words, sentences, paragraphs and passages (arXiv 2307.08689)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="COLLIE: constraints on words, sentences, paragraphs and passages (arXiv 2307.08689).",
    tasks={"collie": ".task:CollieTask"},
    section_builders={"polish": ".paraphrase:build_paraphraser"},
    checkers={"constraint": ".task:ConstraintChecker"},
    data_sets="data_sets.yaml",
    study="study.yaml",
)
