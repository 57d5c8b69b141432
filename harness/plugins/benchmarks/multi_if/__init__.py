"""Multi-IF: IFEval over three turns, in eight languages (arXiv 2410.15553)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Multi-IF: IFEval over three turns, in eight languages (arXiv 2410.15553).",
    requires=("hub", "ifeval"),
    tasks={"multi_if": ".task:MultiIFTask"},
)
