"""vLLM's engine arguments, as a run file has them: by vLLM's own names.

    engine: {tensor_parallel_size: 2, dtype: bfloat16, max_model_len: 8192}

They go to a server as its command line's flags, to an engine in this process as they stand.
What changes what a model answers is part of what makes two calls the same; what only changes
how fast it does is not.

Source: vLLM's "Engine Arguments", as of 0.32.

>>> flags({"tensor_parallel_size": 2, "enforce_eager": True, "max_model_len": None})
['--tensor-parallel-size', '2', '--enforce-eager']
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from harness.errors import ConfigError

GIVEN = {
    "model": "model.path or model.name",
    "served_model_name": "model.name",
    "host": "",
    "port": "",
    "api_key": "",
    "enable_lora": "model.lora",
    "lora_modules": "model.lora",
}
"""Arguments that the harness itself gives, with what sets them in a run file."""

PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")

SPEED = frozenset(
    {
        *PARALLEL,
        *("data_parallel_size_local", "data_parallel_address", "data_parallel_rpc_port"),
        *("data_parallel_backend", "distributed_executor_backend", "enable_expert_parallel"),
        *("gpu_memory_utilization", "kv_cache_memory_bytes", "swap_space", "cpu_offload_gb"),
        *("block_size", "enable_prefix_caching", "num_gpu_blocks_override", "download_dir"),
        *("max_num_seqs", "max_num_batched_tokens", "max_num_queued_reqs", "max_num_queued_tokens"),
        *("enable_chunked_prefill", "async_scheduling", "scheduling_policy", "stream_interval"),
        *("enforce_eager", "compilation_config", "max_parallel_loading_workers"),
        *("disable_log_stats", "enable_log_requests", "disable_uvicorn_access_log"),
        *("uvicorn_log_level", "api_server_count", "max_logprobs", "max_cpu_loras", "max_loras"),
    }
)
"""Arguments that change how fast an answer comes, and not which: rounding aside, which no
engine keeps from one batch to the next either."""

READ = frozenset(
    (
        *("chat_template", "tokenizer", "generation_config", "hf_config_path", "config"),
        "reasoning_parser_plugin",
    )
)
"""Arguments that may name a file or folder whose content changes answers."""


BARE = frozenset(
    {"disable_log_stats", "aggregate_engine_logging", "data_parallel_multi_port_external_lb"}
)
"""Arguments whose flag has no ``--no-`` form: false is to leave it out."""


def checked(engine: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under vLLM's names, without those that are null.

    Raises: ConfigError for a name that can be none, or that the harness gives itself.
    """
    found: dict[str, Any] = {}
    for key, value in engine.items():
        name = key.removeprefix("--").replace("-", "_")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ConfigError(
                f"model.engine: {key!r} is no engine argument.",
                "Write vLLM's own names, such as tensor_parallel_size.",
            )
        if name == "hf_token":
            raise ConfigError(
                "model.engine: hf_token would stand in the run's files and the list of processes.",
                "Remove it, and set the environment variable HF_TOKEN.",
            )
        if name in GIVEN:
            remedy = f"Set {GIVEN[name]}." if GIVEN[name] else "Remove it."
            raise ConfigError(f"model.engine: {name} is given by the harness itself.", remedy)
        if value is not None:
            found[name] = value
    for name in PARALLEL:
        size = found.get(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ConfigError(f"model.engine: {name} must be 1 or more.")
    return found


def flags(engine: Mapping[str, Any]) -> list[str]:
    """The arguments as a command line has them."""
    words: list[str] = []
    for name, value in engine.items():
        flag = name.replace("_", "-")
        if value is True:
            words.append(f"--{flag}")
        elif value is None or (value is False and name in BARE):
            continue
        elif value is False:
            words.append(f"--no-{flag}")
        elif isinstance(value, list | tuple):
            words += [f"--{flag}", *map(_word, value)]
        else:
            words += [f"--{flag}", _word(value)]
    return words


def _word(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def answering(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that change what a model answers."""
    return {name: value for name, value in engine.items() if name not in SPEED}


def gpus_needed(engine: Mapping[str, Any]) -> int:
    """How many GPUs a server with these arguments works on."""
    product = 1
    for name in PARALLEL:
        product *= engine.get(name, 1)
    return product


SEATS = 256
"""Sequences that vLLM works on at a time where nothing else is said (``max_num_seqs``)."""


def depth(engine: Mapping[str, Any]) -> int:
    """How many calls in flight keep one engine's batch full: a quarter more than it holds."""
    seats = engine.get("max_num_seqs", SEATS)
    ranks = engine.get("data_parallel_size", 1)
    return math.ceil(1.25 * seats * ranks) if isinstance(seats, int) else math.ceil(1.25 * SEATS)
