"""Models on vLLM: on a server, which the harness can start, or in this process."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Models on vLLM: on a server, which the harness can start, or in this process.",
    requires=("completions",),
    backends={
        "vllm_engine": ".engine:VLLMEngineBackend",
        "vllm_server": ".server:VLLMServerBackend",
    },
    checkups={"Installed": ".server:check"},
)
