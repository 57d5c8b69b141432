"""Names that other evaluation tools use, and what error messages suggest instead of them.

The tools are lm-evaluation-harness, Inspect and promptfoo (docs/coming_from.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_DIRECT = "Name the run file without an option: harness run FILE."
_KEPT = "All answers are kept in the run's folder, runs/NAME; HARNESS_RUNS_DIR moves it."
_CACHED = "Replies are always cached: harness cache."
_MODEL_KEY = (
    "Write -o model.KEY=VALUE, such as -o model.base_url=URL; 'harness backends' lists keys."
)

COMMANDS: Mapping[str, str] = {
    "evaluate": "Use harness eval for benchmarks, or harness run for a run file.",
    "list": "Use harness ls for runs, tasks for benchmarks, configs for run files, or backends.",
    "log": "Use harness ls for runs, or harness show RUN for one of them.",
    "logs": "Use harness ls for runs, or harness show RUN for one of them.",
    "results": "Use harness ls for runs, or harness show RUN for one of them.",
    "models": "Use harness backends for backends and presets, or harness prices for known models.",
    "providers": "Use harness backends.",
    "benchmarks": "Use harness tasks.",
    "datasets": "Use harness data ls.",
    "scorers": "Use harness checkers, or harness judges.",
    "metrics": "Use harness checkers, or harness judges.",
    "assertions": "Use harness checkers, or harness judges.",
    "test": "Use harness check for a gate on a run, or pytest --harness FILE.",
    "gate": "Use harness check.",
    "validate": "Use harness run FILE --dry-run, or harness judge validate.",
    "resume": "Use the command that started the run again.",
    "retry": "Use the command that started the run again.",
    "eval-retry": "Use the command that started the run again.",
    "eval-set": "Use harness eval with several tasks and models, separated by commas.",
    "start": "Use harness run quickstart to begin, or harness view to see runs in the browser.",
    "share": "Use harness report RUN, which writes a file that you can share.",
    "delete": "Use harness rm.",
    "redteam": "The harness has no red teaming.",
}
"""Commands that the harness does not have, and what to use."""

OPTIONS: Mapping[str, str] = {
    "--tasks": "Name benchmarks without an option: harness eval TASK,TASK --model MODEL.",
    "--model_args": _MODEL_KEY,
    "--num_fewshot": "Write -o task.shots=N; for lm-eval's tasks, -o task.num_fewshot=N.",
    "--include_path": "Write -o task.include_path=FOLDER (docs/lm_eval.md).",
    "--fewshot_as_multiturn": "Write -o task.fewshot_as_multiturn=true (docs/lm_eval.md).",
    "--batch_size": "Write -o limits.concurrency=N.",
    "--gen_kwargs": "Write -o decoding.temperature=0.7 -o decoding.max_tokens=500.",
    "--output_path": _KEPT,
    "--log_samples": _KEPT,
    "--log-dir": _KEPT,
    "--use_cache": _CACHED,
    "--cache": _CACHED,
    "--no-cache": "Write --fresh for a new run; HARNESS_CACHE_DIR sets another cache.",
    "--apply_chat_template": "For lm-eval's tasks, write -o task.apply_chat_template=true.",
    "--device": "Local models are run by vLLM (docs/vllm.md).",
    "--system_instruction": "For lm-eval's tasks: -o task.system_instruction=TEXT.",
    "--seed": "Write -o seed=N.",
    "-T": "Write -o task.KEY=VALUE.",
    "-M": _MODEL_KEY,
    "--model-base-url": "Write -o model.base_url=URL.",
    "--epochs": "Write -o samples=N.",
    "--max-connections": "Write -o limits.concurrency=N.",
    "--temperature": "Write -o decoding.temperature=NUMBER.",
    "--max-tokens": "Write -o decoding.max_tokens=N.",
    "-c": _DIRECT,
    "--config": _DIRECT,
    "-r": "Write --model BACKEND/NAME.",
    "--providers": "Write --model BACKEND/NAME.",
    "-j": "Write -o limits.concurrency=N.",
    "--max-concurrency": "Write -o limits.concurrency=N.",
    "--repeat": "Write -o samples=N.",
    "--output": "Use harness export RUN --output FILE, or harness report RUN, after the run.",
}
"""Options that ``harness run`` and ``harness eval`` do not have, and what to write.

Options with ``-`` in place of ``_`` have the same remedy.
"""

_LIKELIHOODS = (
    "lm-eval's tasks run here: harness eval lm_eval:NAME. They need a model whose server returns "
    "log-likelihoods, or a variant that generates its answer (docs/lm_eval.md)."
)
_EXECUTION = (
    "It runs generated code, which the harness does not: use Inspect, and 'harness import'."
)

TASKS: Mapping[str, str] = {
    "gsm8k.*": (
        "It is a preset for your file of its rows: harness eval FILE.jsonl -o task.preset=gsm8k "
        "--model MODEL (docs/jsonl.md). Or run lm-eval's: harness eval lm_eval:gsm8k."
    ),
    "(mmlu|hellaswag|truthfulqa|arc|winogrande|piqa|boolq|openbookqa|lambada|race|sciq).*": (
        _LIKELIHOODS
    ),
    r"inspect_evals/.*|.*\.py(@\w+)?": (
        "If it is a task of Inspect: harness eval inspect:FILE.py@NAME --model MODEL "
        "(docs/inspect.md)."
    ),
    "(humaneval|mbpp|swe_?bench|livecodebench|bigcodebench|gaia|agentbench).*": _EXECUTION,
    "concodeeval": "There are concodeeval_generation and concodeeval_validation.",
    "leaderboard_ifeval|google_ifeval": "It is called ifeval here.",
}
"""Patterns of benchmarks' names, in lower case, and what to do instead."""

_PROMPTFOO = "It is a promptfoo configuration: docs/coming_from.md has its keys and ours."
_LM_EVAL = (
    "It is a task of lm-evaluation-harness: harness eval lm_eval:FILE --model MODEL "
    "(docs/lm_eval.md)."
)

FILES: Mapping[str, str] = {
    "prompts": _PROMPTFOO,
    "providers": _PROMPTFOO,
    "dataset_path": _LM_EVAL,
    "doc_to_text": _LM_EVAL,
}
"""Keys of other tools' configuration files, and what to do with such a file."""

_JUDGE = "Use a judge: harness judges (docs/judges.md)."

CHECKERS: Mapping[str, str] = {
    "equals|exact|match|exact-match": "Use exact_match.",
    "includes?|icontains|i?contains-(any|all)": "Use contains.",
    "regex|pattern|matches": "Use regex_match.",
    "(is|contains)-json|json|is-valid-json": "Use json_schema.",
    "number|numeric|f1|math": "Use numeric_match, or a checker of your own: ./my_check.py.",
    "python|javascript|custom": "Name a file with a function: ./my_check.py (docs/jsonl.md).",
    "llm-rubric|factuality|g-eval|answer-relevance|similar|model[-_]graded.*": _JUDGE,
    "cost|latency": "Bound it for the run: harness check RUN --max cost_per_sample=USD.",
}
"""Patterns of checks' names, and what to use instead."""

MODELS: Mapping[str, str] = {
    r"mockllm/.*|echo|dummy": "simulated",
    r"openai:(?:chat:|responses:)?(.+)": r"openai/\1",
    r"anthropic:(?:messages:)?(.+)": r"anthropic/\1",
    r"(ollama|mistral|groq|together|deepseek|openrouter|xai|google):(?:chat:)?(.+)": r"\1/\2",
    r"(?:hf|vllm|pretrained)[/=](.+)": r"vllm_server/\1",
    r"(?:openai|local)-(?:chat-)?completions": "openai/NAME",
    r"anthropic-(?:chat-)?completions|anthropic-chat": "anthropic/NAME",
    r"(gpt-oss-.+)": r"vllm_server/openai/\1",
    r"((?:chatgpt|gpt|davinci|babbage|ft:gpt)-.+|o[1-9].*)": r"openai/\1",
    r"(claude-.+)": r"anthropic/\1",
    r"(gemini-.+)": r"google/\1",
    r"(deepseek-(?:chat|reasoner))": r"deepseek/\1",
    r"((?:open-)?(?:mistral|mixtral|ministral|codestral|magistral)-.+)": r"mistral/\1",
    r"(grok-.+)": r"xai/\1",
    r"((?:llama|qwen|gemma|phi|smollm)[\w.-]*:[\w.-]+)": r"ollama/\1",
    r"((?:meta-llama|mistralai|Qwen|deepseek-ai|microsoft|allenai|HuggingFaceTB|01-ai|tiiuae"
    r"|ibm-granite|nvidia|EleutherAI|NousResearch)/.+)": r"vllm_server/\1",
}
"""Patterns of models' names, and their names here. The first pattern that matches counts."""


def option_remedy(option: str) -> str:
    """Return what to write instead of an unknown option, or "" if it is not one of `OPTIONS`."""
    long = re.sub(r"(?<=\w)-", "_", option)
    return OPTIONS.get(option) or OPTIONS.get(long, "")


def remedy(name: str, known: Mapping[str, str]) -> str:
    """Return the remedy for a name that a pattern in ``known`` matches, or "" if none does."""
    name = name.lower()
    return next((said for pattern, said in known.items() if re.fullmatch(pattern, name)), "")


def model_name(name: str) -> str:
    """Translate another tool's name of a model to one for ``--model``, or return "" if unknown.

    >>> model_name("gpt-4o-mini"), model_name("meta-llama/Llama-3.1-8B")
    ('openai/gpt-4o-mini', 'vllm_server/meta-llama/Llama-3.1-8B')
    """
    for known, here in MODELS.items():
        if found := re.fullmatch(known, name):
            return found.expand(here)
    return ""
