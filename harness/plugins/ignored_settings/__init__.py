"""Signs that a server ignored the decoding parameters that it was sent."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Signs that a server ignored the decoding parameters that it was sent.",
    cautions={"ignored_settings": ".answers:ignored_settings"},
)
