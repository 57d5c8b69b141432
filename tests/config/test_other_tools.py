"""Words of other tools: the commands and names that the remedies mention exist."""

import re

import pytest

from harness.cli import VERBS
from harness.config.loading import expand
from harness.config.other_tools import model_name, option_remedy, remedy, tables
from harness.plugins import kind
from harness.run.resolving import named_model

COMMANDS, OPTIONS = tables()["commands"], tables()["options"]
TASKS, CHECKERS, MODELS = (tables()[name] for name in ("tasks", "checkers", "models"))
TEXTS = [*COMMANDS.values(), *OPTIONS.values(), *TASKS.values(), *CHECKERS.values()]


def test_remedies_name_commands_and_checkers_that_exist() -> None:
    commands = r"(?:Use |, or |: |')harness ([a-z]+)\b"
    named = {verb for text in TEXTS for verb in re.findall(commands, text)}
    assert {"run", "eval", "check"} <= named <= VERBS.keys()
    assert not COMMANDS.keys() & VERBS
    used = {found[1] for text in CHECKERS.values() if (found := re.match(r"Use (\w+_\w+)", text))}
    assert used <= set(kind("checkers").names())
    assert not any(remedy(name, "tasks") for name in kind("tasks").names())
    assert not any(remedy(name, "checkers") for name in kind("checkers").names())


@pytest.mark.parametrize("option", OPTIONS)
def test_remedies_of_options_set_keys_that_exist(option: str) -> None:
    said = option_remedy(option)
    assert option_remedy(option.replace("_", "-")) == said
    tree = {"task": {"name": "jsonl"}, "model": {"backend": "openai", "name": "m"}}
    values = {"N": 3, "NUMBER": 0.5, "TEXT": "text", "URL": "http://localhost:1"}
    for key, value in re.findall(r"-o ([a-z._]+)=(\w+(?:\.\d+)?)", said):
        number = float(value) if re.match(r"\d", value) else values.get(value, value)
        number = int(number) if number == 500 else number
        assert expand(tree, "test", further={key: number} if key != "task.shots" else {})


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gpt-4o-mini", "openai/gpt-4o-mini"),
        ("o3-mini", "openai/o3-mini"),
        ("gpt-oss-20b", "vllm_server/openai/gpt-oss-20b"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("openai:chat:gpt-4o", "openai/gpt-4o"),
        ("anthropic:messages:claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("ollama:chat:llama3.2:3b", "ollama/llama3.2:3b"),
        ("llama3.2:3b", "ollama/llama3.2:3b"),
        ("hf/Qwen/Qwen3-8B", "vllm_server/Qwen/Qwen3-8B"),
        ("meta-llama/Llama-3.1-8B", "vllm_server/meta-llama/Llama-3.1-8B"),
        ("mistralai/Mistral-7B", "vllm_server/mistralai/Mistral-7B"),
        ("openai-chat-completions", "openai/NAME"),
        ("mockllm/model", "simulated"),
        ("something-else", ""),
    ],
)
def test_models(theirs: str, ours: str) -> None:
    assert model_name(theirs) == ours
    assert not ours or named_model(ours)


def test_every_pattern_of_models_is_tried() -> None:
    assert all(re.compile(pattern) for pattern in [*MODELS, *TASKS, *CHECKERS])


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("gsm8k_cot", "task.preset=gsm8k"),
        ("MMLU_pro", "harness eval lm_eval:"),
        ("truthfulqa_mc2", "harness eval lm_eval:"),
        ("humaneval", "Inspect"),
        ("unheard_of", ""),
    ],
)
def test_tasks(task: str, said: str) -> None:
    assert said in remedy(task, "tasks")
    assert bool(said) == bool(remedy(task, "tasks"))
