"""Families of models by their names, and judges that may prefer their own kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.metrics import JudgeFacts, Metrics
from harness.analysis.self_preference import (
    common_family,
    families,
    has_related_judge,
    self_preference_warnings,
)
from tests.analysis.summaries import metrics_of

OWN = JudgeFacts(model="gpt-4", family="OpenAI")
OTHER = JudgeFacts(model="gpt-4")


def judged(**judges: JudgeFacts) -> Metrics:
    return metrics_of("run", {"a": 0.5}, judges=judges)


def test_scores_of_a_judge_of_the_models_own_family_are_marked() -> None:
    found = judged(own=OWN, other=OTHER)
    told = {
        name: has_related_judge(found, name) for name in ("own.score", "other.score", "own", "f1.x")
    }
    assert told == {"own.score": True, "other.score": False, "own": False, "f1.x": False}
    assert self_preference_warnings(found) == [
        "self-preference: the judge 'own' asks gpt-4, of the model's own family (OpenAI)"
    ]
    assert self_preference_warnings(found, ["other"]) == []


def test_a_panel_is_of_the_family_of_any_of_its_judges() -> None:
    jury = JudgeFacts(of=("own", "other"), family="OpenAI")
    found = judged(own=OWN, other=OTHER, jury=jury)
    assert has_related_judge(found, "jury.score")
    assert self_preference_warnings(found, ["jury"]) == [
        "self-preference: the panel 'jury' has the judge 'own', which asks gpt-4, of the model's "
        "own family (OpenAI)"
    ]


KNOWN = {
    "OpenAI": [
        *("gpt-4", "gpt-4o-mini", "gpt-35-turbo", "openai/gpt-oss-20b", "o1", "o3-mini"),
        *("openai/o4-mini-2025-04-16", "chatgpt-4o-latest", "text-davinci-003", "davinci", "gpt2"),
        *("gpt-5", "gpt-4.1-mini", "gpt-4-base", "gpt2-xl", "gpt-3.5-turbo-0613"),
        "ft:gpt-4o-mini-2024-07-18:acme:claude-clone:9x",
    ],
    "Claude": [
        *("claude-3-5-sonnet-20241022", "us.anthropic.claude-sonnet-4-20250514-v1:0"),
        *("anthropic/claude-opus-4", "claude-3-haiku@20240307"),
    ],
    "Llama": [
        *("meta-llama/Llama-3.1-8B-Instruct", "meta.llama3-1-70b-instruct-v1:0", "llama3:8b"),
        *("lmsys/vicuna-7b-v1.5", "alpaca-7b", "codellama/CodeLlama-7b", "ollama/llama3.2"),
        *("accounts/fireworks/models/llama-v3p1-8b-instruct", "Hermes-3-Llama-3.1-8B"),
    ],
    "Qwen": ["Qwen/Qwen2.5-7B-Instruct", "Qwen/QwQ-32B", "qwen3:4b", "/models/Qwen3-8B/"],
    "Mistral": [
        *("mistralai/Mistral-7B-Instruct-v0.3", "mixtral:8x7b", "mistral.mixtral-8x7b-instruct"),
        *("codestral-latest", "mistralai/Ministral-8B", "open-mistral-nemo"),
    ],
    "Gemini": ["gemini-1.5-pro", "models/gemini-2.0-flash", "google/gemma-2-9b-it", "gemma:2b"],
    "DeepSeek": ["deepseek-chat", "deepseek-ai/DeepSeek-V3"],
    "Phi": ["microsoft/Phi-3-mini-4k-instruct", "phi3:mini", "phi", "microsoft/phi-2"],
    "Command": ["command-r-plus", "cohere.command-r-v1:0", "command"],
    "Grok": ["x-ai/grok-4", "grok-3"],
}


@pytest.mark.parametrize(
    ("name", "family"), [(name, family) for family, names in KNOWN.items() for name in names]
)
def test_a_name_tells_its_family(name: str, family: str) -> None:
    assert families(name) == {family}


@pytest.mark.parametrize(
    "name",
    [
        *("", "my-judge", "simulated", "EleutherAI/gpt-j-6b", "gpt-neox-20b", "gpt4all-13b"),
        *("marco-o1", "o1x", "open_llama_7b", "TinyLlama/TinyLlama-1.1B", "ollama/mine", "groq/a"),
        *("dolphin", "delphi-3", "smart-command", "command-line-judge", "zephyr-7b-beta"),
        *("Cerebras-GPT-13B", "cerebras/Cerebras-GPT-6.7B", "rinna/japanese-gpt-1b", "gpt4free"),
        *("openai/whisper-large", "mistralai/unknown", "prod-deployment-7"),
    ],
)
def test_a_name_that_tells_nothing_has_no_family(name: str) -> None:
    assert families(name) == frozenset()


def test_a_distilled_model_is_of_both_families() -> None:
    assert families("deepseek-ai/DeepSeek-R1-Distill-Llama-8B") == {"DeepSeek", "Llama"}
    assert common_family("DeepSeek-R1-Distill-Qwen-7B", "Qwen/Qwen3-8B") == "Qwen"


def test_two_models_have_a_family_in_common_or_the_very_name_or_nothing() -> None:
    assert common_family("azure/gpt-4o", "text-davinci-003") == "OpenAI"
    assert common_family("gpt-4", "claude-3-haiku") is None
    assert common_family("here/My-Judge", "my-judge:latest") == "here/My-Judge"
    assert common_family("my-judge", "my-model") is None
    assert common_family("", "") is None


@given(st.sampled_from(sorted({name for names in KNOWN.values() for name in names})), st.text())
def test_whoever_serves_a_model_its_family_is_the_same(name: str, provider: str) -> None:
    assert families(f"{provider}/{name}") == families(name)


@given(st.text())
def test_no_name_is_too_odd(name: str) -> None:
    assert len(families(name)) >= 0
    assert common_family(name, name) == (", ".join(sorted(families(name))) or name or None)
