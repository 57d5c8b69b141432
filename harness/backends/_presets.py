"""Servers that speak OpenAI's protocol: where they are, which key they take, how they differ.

    model: {backend: openai, preset: groq, name: llama-3.3-70b-versatile}

Sources: each provider's API reference, as of 2026-11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.backends._bodies import SCHEMA, VLLM, Dialects
from harness.errors import ConfigError, nearest
from harness.ports import LOGPROBS, PARAMETERS, PROMPT_LOGPROBS


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider or local server.

    url: its base URL; None where it is the user's own (`hint` shows its form).
    key: the environment variable of its key, None where it takes none.
    max_tokens, seed: what it calls these parameters; None where it has no such one.
    fixed_sampling: pattern of the models that take no temperature and top_p, and tell no
        log-probabilities.
    logprobs: whether it tells those of the likeliest tokens, in OpenAI's way; not where its
        reference says nothing of them, refuses them (Groq), has a way of its own (Together
        AI) or passes requests on to others (OpenRouter, Hugging Face).
    prompt_logprobs: whether it tells those of the prompt's tokens, in vLLM's way.
    constraints: what it can hold an answer to, and in which words.
    """

    title: str
    url: str | None
    key: str | None
    max_tokens: str = "max_tokens"
    seed: str | None = "seed"
    hint: str = ""
    fixed_sampling: str = ""
    constraints: Dialects = field(default_factory=lambda: SCHEMA)
    logprobs: bool = False
    prompt_logprobs: bool = False

    def features(self, model: str) -> frozenset[str]:
        """What one of its models takes of a run file's decoding, and whether calls are free."""
        refused = set() if self.seed else {"seed"}
        if not self.logprobs:
            refused.add(LOGPROBS)
        if not self.prompt_logprobs:
            refused.add(PROMPT_LOGPROBS)
        if self.fixed_sampling and re.fullmatch(self.fixed_sampling, model):
            refused |= {"temperature", "top_p", LOGPROBS}
        local = self.key is None and self.url is not None
        taken = (PARAMETERS | {LOGPROBS, PROMPT_LOGPROBS}) - refused
        return taken | self.constraints.keys() | ({"free"} if local else set())


PRESETS = {
    "openai": Preset(
        "OpenAI",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        max_tokens="max_completion_tokens",
        fixed_sampling=r"(o1|o3|o4-mini|gpt-5)(-mini|-nano|-pro)?(-\d{4}-\d{2}-\d{2})?",
        logprobs=True,
    ),
    "azure": Preset(
        "Azure OpenAI (v1 API)",
        None,
        "AZURE_OPENAI_API_KEY",
        max_tokens="max_completion_tokens",
        hint="https://RESOURCE.openai.azure.com/openai/v1",
        logprobs=True,
    ),
    "google": Preset(
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        seed=None,
    ),
    "openrouter": Preset("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": Preset("Together AI", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "deepseek": Preset(
        "DeepSeek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        seed=None,
        constraints={},
        logprobs=True,
    ),
    "mistral": Preset(
        "Mistral AI", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", seed="random_seed"
    ),
    "groq": Preset(
        "Groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        max_tokens="max_completion_tokens",
    ),
    "fireworks": Preset(
        "Fireworks AI",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        constraints={**SCHEMA, "grammar": "response_format_grammar"},
    ),
    "xai": Preset("xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    "huggingface": Preset("Hugging Face router", "https://router.huggingface.co/v1", "HF_TOKEN"),
    "ollama": Preset("Ollama", "http://localhost:11434/v1", None, logprobs=True),
    "llama_cpp": Preset(
        "llama.cpp server",
        "http://localhost:8080/v1",
        None,
        constraints={**SCHEMA, "grammar": "grammar"},
        logprobs=True,
    ),
    "lm_studio": Preset("LM Studio", "http://localhost:1234/v1", None),
    "vllm": Preset(
        "vLLM server",
        "http://localhost:8000/v1",
        None,
        constraints=VLLM,
        logprobs=True,
        prompt_logprobs=True,
    ),
}


def chosen(
    preset: str | None, base_url: str | None, api_key_env: str | None
) -> tuple[Preset, str, str | None]:
    """The preset, URL and key variable that a run file's ``model:`` means.

    A preset's key is for the preset's host. With a URL of one's own it is sent
    only where the preset has none (Azure), and else none is.

    Raises: ConfigError for an unknown preset, or one that needs a URL.
    """
    if preset is None:
        found = PRESETS["openai"] if base_url in (None, PRESETS["openai"].url) else COMPATIBLE
    elif preset in PRESETS:
        found = PRESETS[preset]
    else:
        raise ConfigError(
            f"model.preset: there is no preset named {preset!r}.", nearest(preset, PRESETS)
        )
    url = base_url or found.url
    if url is None:
        raise ConfigError(
            f"model.preset {preset!r} needs model.base_url.", f"Its form is {found.hint}."
        )
    own = found.key if found.url in (None, url.rstrip("/")) else None
    return found, url, api_key_env or own


COMPATIBLE = Preset("any compatible server", None, None, constraints={}, logprobs=True)
"""What is assumed of a server that is known by its URL alone.

An answer that was held to no constraint looks like one that was; one without
log-probabilities shows that it has none. So these are asked for, and those are not.
"""


def table() -> str:
    """The presets as a Markdown table, for the documentation."""
    lines = [
        "| `preset:` | server | base URL | key in | seed |",
        "|---|---|---|---|---|",
    ]
    for name, preset in PRESETS.items():
        url = f"`{preset.url}`" if preset.url else f"yours, like `{preset.hint}`"
        key = f"`{preset.key}`" if preset.key else "none"
        seed = "yes" if preset.seed else "not taken"
        lines.append(f"| `{name}` | {preset.title} | {url} | {key} | {seed} |")
    return "\n".join(lines)
