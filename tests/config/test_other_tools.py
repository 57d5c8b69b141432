"""Words of other tools: the commands and names that the remedies mention exist."""

import re
from typing import Any

import pytest
import yaml

from harness.cli.verbs import all_verbs
from harness.config.loading import expand
from harness.config.other_tools import model_name, option_remedy, remedy, tables
from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.run.resolving import named_model, resolved
from harness.scoring.checks import Rules, read_checks

COMMANDS, OPTIONS = tables()["commands"], tables()["options"]
TASKS, CHECKERS, MODELS = (tables()[name] for name in ("tasks", "checkers", "models"))
KEYS = tables()["task_keys"]
TEXTS = [*COMMANDS.values(), *OPTIONS.values(), *TASKS.values(), *CHECKERS.values()]


def test_remedies_name_commands_and_checkers_that_exist() -> None:
    commands = r"(?:Use |, or |: |')harness ([a-z]+)\b"
    named = {verb for text in TEXTS for verb in re.findall(commands, text)}
    assert {"run", "eval", "check"} <= named <= all_verbs().keys()
    assert not COMMANDS.keys() & all_verbs().keys()
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
        ("local-chat-completions/qwen/q3", "openai/qwen/q3"),
        ("local-completions/x", "openai_completions/x"),
        ("mockllm/model", "simulated"),
        ("something-else", ""),
    ],
)
def test_models(theirs: str, ours: str) -> None:
    assert model_name(theirs) == ours
    assert not ours or named_model(ours)


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [("0", 0.0), ("1", 1.0), ("1.0", 1.0), ("1.00", 1.0), ("00.5", 0.5), (".25", 0.25), ("0.", 0)],
)
def test_a_simulated_model_named_by_a_number_has_this_accuracy(name: str, accuracy: float) -> None:
    assert named_model(f"simulated/{name}")["accuracy"] == accuracy
    assert "accuracy" not in named_model(f"simulated/next-{name}")


@pytest.mark.parametrize("name", ["1.01", "80", "-0.5", "2"])
def test_an_accuracy_beyond_0_and_1_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not from 0 to 1"):
        named_model(f"simulated/{name}")


def test_every_pattern_is_valid_and_says_something() -> None:
    assert all(re.compile(pattern) for pattern in [*MODELS, *TASKS, *CHECKERS, *KEYS])


@pytest.mark.parametrize(
    ("check", "ours"),
    [
        ("not-contains", {"contains": {"target": "a", "mode": "none"}}),
        ("not-icontains-any", {"contains": {"target": "a", "mode": "none"}}),
        ("not-regex", {"regex_match": {"pattern": "a", "negate": True}}),
        ("starts-with", {"regex_match": {"pattern": "^a"}}),
        ("not-starts-with", {"regex_match": {"pattern": "^a", "negate": True}}),
    ],
)
def test_a_check_of_another_tool_is_written_as_the_remedy_says(
    check: str, ours: dict[str, dict[str, Any]]
) -> None:
    with pytest.raises(ConfigError) as refused:
        read_checks([check], "task.checks")
    said = refused.value.remedy.replace("TEXT", "a").replace("PATTERN", "a")
    found = re.match(r"Write (\{.*\})\.", said)
    assert found
    assert yaml.safe_load(found[1]) == ours
    Rules(read_checks([ours], "task.checks"))


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("not-equals", "./my_check.py"),
        ("not-is-json", "./my_check.py"),
        ("not-word-count", "./my_check.py"),
        ("not-llm-rubric", "harness judges"),
        ("latency", "--max latency_p95="),
        ("cost", "--max cost_per_sample="),
    ],
)
def test_checks(check: str, said: str) -> None:
    assert said in remedy(check, "checkers")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("assert", "Write task.checks."),
        ("defaultTest", "Write task.checks."),
        ("vars", "Write task.rows"),
        ("transform", "Write task.extract."),
        ("chekcs", "Did you mean 'checks'?"),
    ],
)
def test_keys_of_a_task(key: str, said: str) -> None:
    task = {"name": "jsonl", key: [{"type": "contains"}]}
    (run,) = expand({"task": task, "model": {"backend": "simulated"}}, "test").values()
    with pytest.raises(ConfigError) as refused:
        resolved(run)
    assert (key in refused.value.message, said in refused.value.remedy) == (True, True)
    (other,) = expand(
        {"task": {"name": "ifeval", key: 1}, "model": "simulated"}, "test", (), {}, named_model
    ).values()
    with pytest.raises(ConfigError) as refused:
        resolved(other)
    assert "task.checks" not in refused.value.remedy


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
