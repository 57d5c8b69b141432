"""vLLM's asynchronous engine, as one object: what imports vLLM, and nothing else does.

To import this module takes seconds.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness.backends._bodies import finish
from harness.backends._logprobs import logprobs_in, prompt_logprobs_in
from harness.backends._reasoning import split_think
from harness.backends._vllm_arguments import flags
from harness.backends._vllm_model import VLLMModel
from harness.backends._vllm_sampling import sampling, template_options
from harness.config.settings import hand_down
from harness.errors import (
    BrokenOff,
    ConfigError,
    ConnectionLost,
    ParameterRefused,
    RequestRejected,
)
from harness.records import Message, Reply, Request, Usage

PROMPTS_KEPT = 4096
"""Tokenised prompts that are kept: the samples of an instance come one after the other."""


class InProcessEngine:
    """An engine with its model loaded.

    model: what it loads.
    log: file of what vLLM says.

    It takes from seconds to minutes, and blocks.

    Raises: ConfigError for an engine argument that vLLM does not know; whatever vLLM raises
        where the model cannot be loaded.
    """

    def __init__(self, model: VLLMModel, log: Path) -> None:
        _log_to(log)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = dict(model.engine)
        template = arguments.pop("chat_template", None)
        arguments = {"disable_log_stats": True, "use_tqdm_on_load": False, **arguments}
        if model.adapter:
            arguments["enable_lora"] = True
        parser = AsyncEngineArgs.add_cli_args(_parser())
        words = ["--model", model.weights, *flags(arguments)]
        self._model = model
        self._llm = AsyncLLM.from_engine_args(
            AsyncEngineArgs.from_cli_args(parser.parse_args(words))
        )
        self._tokenizer = self._llm.renderer.tokenizer
        self._template = _text(template)
        config = self._llm.model_config
        self._longest: int = config.max_model_len
        self._defaults: Mapping[str, Any] = config.get_diff_sampling_param()
        self._lora = _adapter(model)
        self._split = _reasoning_parser(self._llm, self._tokenizer)
        self._guard = _guarded([child.pid for child in multiprocessing.active_children()])
        self._prompt = functools.lru_cache(PROMPTS_KEPT)(self._tokenised)

    @property
    def dead(self) -> bool:
        """Whether it answers nothing any more."""
        return bool(self._llm.errored)

    def shutdown(self) -> None:
        """End its processes; blocks until they are gone."""
        self._guard.kill()
        self._guard.communicate()
        self._llm.shutdown(timeout=10)

    async def answer(self, request: Request, name: str) -> Reply:
        """The answer to one request.

        name: of the request, unique.

        Raises: a `harness.errors.CallError`.
        """
        from vllm import SamplingParams, TokensPrompt
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        options = json.dumps(template_options(request), sort_keys=True)
        tokens = self._prompt(request.messages, options)
        fields = sampling(request, self._defaults, self._longest - len(tokens))
        last = None
        try:
            if "structured_outputs" in fields:
                fields["structured_outputs"] = StructuredOutputsParams(
                    **fields["structured_outputs"]
                )
            params = SamplingParams(**fields, output_kind=RequestOutputKind.FINAL_ONLY)
        except TypeError as error:  # a field that there is not
            raise ParameterRefused(f"vLLM: {error}.", "Mend decoding.extra.") from None
        except (VLLMClientError, ValueError) as error:
            raise RequestRejected(f"vLLM: {error}") from None
        prompt = TokensPrompt(prompt_token_ids=list(tokens))
        try:
            async for output in self._llm.generate(prompt, params, name, lora_request=self._lora):
                last = output
        except EngineDeadError:
            raise ConnectionLost("The vLLM engine has died.", "It is made anew.") from None
        except EngineGenerateError as error:
            raise BrokenOff(f"vLLM: {error.__cause__ or error}") from None
        except VLLMClientError as error:
            raise RequestRejected(f"vLLM: {error}") from None
        except ValueError as error:
            raise RequestRejected(f"vLLM: {error}") from None
        if last is None:
            raise BrokenOff("The vLLM engine has ended the answer without a word.")
        return self._reply(last, request)

    def _reply(self, output: Any, request: Request) -> Reply:
        said, decoding = output.outputs[0], request.decoding
        reason = finish(said.finish_reason)
        text, reasoning = self._split(said.text)
        return Reply(
            text,
            reason,
            Usage(
                input_tokens=len(output.prompt_token_ids or ()),
                output_tokens=len(said.token_ids),
                cached_input_tokens=output.num_cached_tokens or 0,
            ),
            self._model.name,
            reasoning=reasoning,
            logprobs=None if decoding.logprobs is None else logprobs_in(_positions(said.logprobs)),
            prompt_logprobs=prompt_logprobs_in(_of_prompt(output.prompt_logprobs))
            if decoding.prompt_logprobs
            else None,
        )

    def _tokenised(self, messages: Sequence[Message], options: str) -> tuple[int, ...]:
        if self._model.protocol == "completions":
            text = "\n\n".join(message.content for message in messages)
            return tuple(self._tokenizer.encode(text))
        turns = [{"role": message.role, "content": message.content} for message in messages]
        more = json.loads(options)
        if self._template is not None:
            more["chat_template"] = self._template
        try:
            text = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **more
            )
        except Exception as error:  # a template is a program: it may refuse these turns
            raise RequestRejected(
                f"The model's chat template refuses this conversation: {error}",
                "A base model has none: set model.protocol to completions, or name one in "
                "model.engine.chat_template.",
            ) from None
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def _log_to(log: Path) -> None:
    """Have vLLM, here and in the processes that it begins, write its log into a file.

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
    hand_down(VLLM_LOGGING_CONFIG_PATH=str(path.absolute()), VLLM_WORKER_MULTIPROC_METHOD="spawn")


def _guarded(pids: Sequence[int | None]) -> subprocess.Popen[bytes]:
    """A guard that kills processes when this one has died without doing so."""
    guard = [sys.executable, "-I", str(Path(__file__).with_name("_orphan_guard.py"))]
    return subprocess.Popen(  # noqa: S603
        [*guard, *(str(pid) for pid in pids if pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _parser() -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise ConfigError(
                f"model.engine: vLLM says: {message}.", "See its documentation of engine arguments."
            )

    return Parser(add_help=False)


def _text(template: str | None) -> str | None:
    """A chat template: a file's, or as it stands."""
    if template is None or "{" in template:
        return template
    try:
        return Path(template).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"model.engine.chat_template: {template}: {error}.") from None


def _adapter(model: VLLMModel) -> Any:
    if not model.adapter:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest(model.name, 1, model.adapter)


def _reasoning_parser(llm: Any, tokenizer: Any) -> Any:
    """What splits a text into the answer and the reasoning before it."""
    name = llm.vllm_config.structured_outputs_config.reasoning_parser
    if not name:
        return split_think
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.reasoning import ReasoningParserManager

    parser = ReasoningParserManager.get_reasoning_parser(name)(tokenizer)
    empty = ChatCompletionRequest(messages=[], model="m")

    def split(content: str) -> tuple[str, str | None]:
        reasoning, answer = parser.extract_reasoning(content, empty)
        return answer or "", reasoning

    return split


def _positions(logprobs: Any) -> dict[str, Any]:
    """An answer's log-probabilities in the form of a chat: two tokens may have the same text."""
    told = [
        [{"token": one.decoded_token, "logprob": one.logprob} for one in position.values()]
        for position in logprobs or ()
    ]
    return {"content": [{"top_logprobs": likeliest} for likeliest in told]}


def _of_prompt(logprobs: Any) -> list[Any]:
    """A prompt's in the form of the wire."""
    return [
        position
        and {
            number: {"logprob": one.logprob, "decoded_token": one.decoded_token}
            for number, one in position.items()
        }
        for position in logprobs or ()
    ]
