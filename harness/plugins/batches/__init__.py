"""Calls in the providers' batches, which cost less and may take a day (``limits.batch``)."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Calls in the providers' batches, which cost less and may take a day.",
    requires=("anthropic", "clouds"),
    call_layers={"batches": ".lane:batches_layer"},
    sections={"limits.batch": ".provider:BATCH"},
    batches={
        "anthropic": ".anthropic:anthropic_provider",
        "gemini": ".gemini:gemini_provider",
        "openai": ".openai:openai_provider",
        "openai_completions": ".openai:openai_provider",
        "openai_responses": ".openai:openai_provider",
    },
    verbs={
        "batches": Verb(
            summary="List the batches of all runs, or cancel one.",
            heading="Data and tools",
            target=".verb:batches",
            executes=True,
        ),
    },
)
