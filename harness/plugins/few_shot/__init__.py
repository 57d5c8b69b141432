"""Few-shot prompts: worked examples before an instance's own prompt."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Few-shot prompts: worked examples before an instance's own prompt.",
    section_builders={"task.shots": ".shots:build_shots"},
)
