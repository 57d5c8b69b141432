"""Loads a model into vLLM's asynchronous engine: its arguments, and where its log goes."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, NoReturn

from harness.backends._engine_processes import STEP_S, EngineProcesses
from harness.backends._vllm_arguments import flags
from harness.backends._vllm_model import VLLMModel
from harness.config.settings import handed_down
from harness.errors import ConfigError

_ONE_AT_A_TIME = threading.Lock()
"""Engines that are loaded at the same time would be told each other's log, and take each other's
memory for their own."""


def loaded(model: VLLMModel, log: Path, processes: EngineProcesses) -> Any:
    """An `AsyncLLM` with a model; takes from seconds to minutes, and blocks.

    log: file of what vLLM says.
    processes: watches those that vLLM begins.

    Raises: ConfigError for an engine argument that vLLM does not know; FatalCallError where the
        loading was called off; whatever vLLM raises where the model cannot be loaded.
    """
    while not _ONE_AT_A_TIME.acquire(timeout=STEP_S):
        processes.check()
    try:
        with handed_down(**_log_to(log)), processes.begun():
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            processes.check()
            arguments = dict(model.engine)
            arguments.pop("chat_template", None)
            arguments = {"disable_log_stats": True, "use_tqdm_on_load": False, **arguments}
            if model.adapter:
                arguments["enable_lora"] = True
            parser = AsyncEngineArgs.add_cli_args(_parser())
            words = ["--model", model.weights, *flags(arguments)]
            return AsyncLLM.from_engine_args(
                AsyncEngineArgs.from_cli_args(parser.parse_args(words))
            )
    finally:
        _ONE_AT_A_TIME.release()


def _log_to(log: Path) -> dict[str, str]:
    """Variables that have vLLM, here and in the processes that it begins, write into a file.

    Those are spawned: a process that has threads must not be forked.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(process)d %(message)s"}},
        "handlers": {
            "file": {
                "class": "logging.FileHandler",
                "filename": str(log.absolute()),
                "formatter": "plain",
            }
        },
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path = log.with_suffix(".json")
    path.write_text(json.dumps(config))
    return {
        "VLLM_LOGGING_CONFIG_PATH": str(path.absolute()),
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }


def _parser() -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise ConfigError(
                f"model.engine: vLLM says: {message}.", "See its documentation of engine arguments."
            )

    return Parser(add_help=False)
