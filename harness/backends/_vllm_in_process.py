"""vLLM's asynchronous engine in this process: loading, requests, shutdown.

Requests are translated as by vLLM's own server: settings that the run file omits come from the
model's generation configuration, and without max_tokens an answer may fill the context.

Source: vLLM's `AsyncLLM`, `SamplingParams` and `StructuredOutputsParams`, as of 0.32.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

from harness.backends._bodies import (
    finish,
    logprobs_in,
    prompt_logprobs_in,
    split_think,
    vllm_constraint,
)
from harness.backends._guard import kill
from harness.backends._processes import Guard
from harness.backends._vllm import VLLMModel, flags
from harness.config.settings import handed_down
from harness.errors import ConfigError, FatalCallError, RequestRejected, TransientError
from harness.records import DecodingConstraint, Message, Reply, Request, Usage

STEP_S = 0.05
"""Seconds between checks for new child processes; a kill -9 may leave the newest ones running."""

PROMPTS_KEPT = 4096
"""Number of tokenised prompts to cache: an instance's samples follow each other."""

TEMPLATE = "chat_template_kwargs"
"""The key in ``decoding.extra`` for a chat template's options, as in vLLM's HTTP protocol."""

_ONE_AT_A_TIME = threading.Lock()
"""Held while loading: engines loaded at the same time would mix their logs, and count each other's
memory as their own."""


class InProcessEngine:
    """A vLLM engine; usable once `load` has returned."""

    def __init__(self, model: VLLMModel, log: Path) -> None:
        self._model, self._log = model, log
        self._guard = Guard()
        self._children: set[BaseProcess] = set()
        self._off = threading.Event()
        self._llm: Any = None

    async def load(self) -> None:
        """Load the model, which takes seconds to minutes and blocks this event loop."""
        self._template = _text(self._model.engine.get("chat_template"))
        with _ONE_AT_A_TIME, handed_down(**_log_to(self._log)), self._watched():
            self._llm = self._loaded()
        self._tokenizer = self._llm.renderer.tokenizer
        config = self._llm.model_config
        self._longest: int = config.max_model_len
        self._defaults: Mapping[str, Any] = config.get_diff_sampling_param()
        self._split = _reasoning_parser(self._llm, self._tokenizer)
        self._prompt = functools.lru_cache(PROMPTS_KEPT)(self._tokenised)
        self._lora: Any = None
        if self._model.adapter:
            await self._add_adapter()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Let the guard watch the processes that vLLM starts with `multiprocessing`, unreported."""
        others, complete = set(multiprocessing.active_children()), threading.Event()

        def look() -> None:
            for process in set(multiprocessing.active_children()) - others - self._children:
                self._children.add(process)
                self._guard.watch(process.pid or 0)

        def look_on() -> None:
            while not complete.wait(STEP_S):
                look()

        watch = threading.Thread(target=look_on, name="vllm-processes", daemon=True)
        watch.start()
        try:
            yield
        finally:
            complete.set()
            watch.join()
            look()

    def _kill(self) -> None:
        left = self._children & set(multiprocessing.active_children())
        kill([process.pid for process in left if process.pid])

    def _loaded(self) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        if self._off.is_set():  # the import takes a while
            raise FatalCallError("Loading the model was cancelled.")
        arguments = {"disable_log_stats": True, "use_tqdm_on_load": False, **self._model.engine}
        arguments.pop("chat_template", None)
        if self._model.adapter:
            arguments["enable_lora"] = True
        words = ["--model", self._model.weights, *flags(arguments)]
        parsed = AsyncEngineArgs.add_cli_args(_parser()).parse_args(words)
        return AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(parsed))

    async def _add_adapter(self) -> None:
        """Load the adapter now: an unsuitable one would kill the engine at the first request."""
        from vllm.lora.request import LoRARequest

        self._lora = LoRARequest(self._model.name, 1, self._model.adapter)
        try:
            await self._llm.add_lora(self._lora)
        except Exception as error:  # whatever the engine's processes report
            said = " ".join(str(error).split())[:300]
            raise FatalCallError(
                f"vLLM cannot load the adapter {self._model.adapter}: {said}",
                "Check model.lora; an adapter of a higher rank needs model.engine.max_lora_rank.",
            ) from None

    def call_off(self) -> None:
        """Make `load` raise soon; thread-safe. Call it repeatedly until it does."""
        self._off.set()
        self._kill()

    @property
    def dead(self) -> bool:
        return bool(self._llm.errored)

    async def shutdown(self) -> None:
        """End the engine's processes; blocks until they are dead.

        Call it in the event loop that loaded the engine. Otherwise vLLM leaves closing its sockets
        to that loop, and if one stays open, zmq waits for it forever when the engine is freed.
        """
        if self._llm is not None:
            self._llm.shutdown(timeout=10)
        self._kill()
        self._guard.close()

    async def answer(self, request: Request, name: str) -> Reply:
        from vllm import SamplingParams, TokensPrompt
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        options = json.dumps(template_options(request), sort_keys=True)
        tokens = self._prompt(request.messages, options)
        fields = sampling(request, self._defaults, self._longest - len(tokens))
        last = None
        try:
            if held := fields.get("structured_outputs"):
                fields["structured_outputs"] = StructuredOutputsParams(**held)
            params = SamplingParams(**fields, output_kind=RequestOutputKind.FINAL_ONLY)
        except TypeError as error:  # an unknown field
            raise FatalCallError(f"vLLM: {error}.", "Check decoding.extra.") from None
        except (VLLMClientError, ValueError) as error:
            raise RequestRejected(f"vLLM: {error}") from None
        prompt = TokensPrompt(prompt_token_ids=list(tokens))
        try:
            async for output in self._llm.generate(prompt, params, name, lora_request=self._lora):
                last = output
        except EngineDeadError:
            raise TransientError("The vLLM engine has died.", kind="connection_lost") from None
        except EngineGenerateError as error:
            raise TransientError(f"vLLM: {error.__cause__ or error}", kind="interrupted") from None
        except (VLLMClientError, ValueError) as error:
            raise RequestRejected(f"vLLM: {error}") from None
        if last is None:
            raise TransientError("The vLLM engine gave no answer.", kind="interrupted")
        return self._reply(last, request)

    def _reply(self, output: Any, request: Request) -> Reply:
        said, decoding = output.outputs[0], request.decoding
        prompt = _as_wire(output.prompt_logprobs) if decoding.prompt_logprobs else None
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
            logprobs=None if decoding.logprobs is None else logprobs_in(_as_chat(said.logprobs)),
            prompt_logprobs=prompt_logprobs_in(prompt),
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
        except Exception as error:  # a template is a program, and may refuse these turns
            raise RequestRejected(
                f"The model's chat template refuses this conversation: {error}",
                "A base model has no template: set model.protocol to completions, or name one in "
                "model.engine.chat_template.",
            ) from None
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def sampling(request: Request, defaults: Mapping[str, Any], room: int) -> dict[str, Any]:
    """Return the fields of vLLM's `SamplingParams`, given the tokens left to answer (`room`)."""
    decoding = request.decoding
    wanted = decoding.max_tokens
    if room < 1 or (wanted is not None and wanted > room):
        raise RequestRejected(
            f"The context has room for {max(room, 0)} tokens after this prompt, but the answer "
            f"may need {wanted or 1}.",
            "Lower decoding.max_tokens, or raise model.engine.max_model_len.",
        )
    given = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "max_tokens": wanted or min(room, defaults.get("max_tokens") or room),
        "stop": list(decoding.stop) or None,
        "seed": request.seed,
        "logprobs": decoding.logprobs,
        "prompt_logprobs": 0 if decoding.prompt_logprobs else None,
    }
    fields = dict(defaults) | {name: value for name, value in given.items() if value is not None}
    fields |= {name: value for name, value in decoding.extra.items() if name != TEMPLATE}
    if isinstance(decoding.constraint, DecodingConstraint):
        fields["structured_outputs"] = vllm_constraint(decoding.constraint)
    return fields


def template_options(request: Request) -> dict[str, Any]:
    options = request.decoding.extra.get(TEMPLATE, {})
    if not isinstance(options, dict):
        raise RequestRejected(
            f"decoding.extra.{TEMPLATE} must be a mapping.", "Write {name: value}."
        )
    return options


def _text(template: str | None) -> str | None:
    """Return a chat template, read from its file if given as a path; None if there is none."""
    if template is None or "{" in template:
        return template
    try:
        return Path(template).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"model.engine.chat_template: {template}: {error}.") from None


def _reasoning_parser(llm: Any, tokenizer: Any) -> Any:
    """Return the function that splits off reasoning: vLLM's parser if set, else `split_think`."""
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


def _as_chat(logprobs: Any) -> dict[str, Any]:
    """Return an answer's log-probabilities in the chat form, which keeps tokens of equal text."""
    positions = [
        [{"token": one.decoded_token, "logprob": one.logprob} for one in position.values()]
        for position in logprobs or ()
    ]
    return {"content": [{"top_logprobs": likeliest} for likeliest in positions]}


def _as_wire(logprobs: Any) -> list[Any]:
    """Return a prompt's log-probabilities in the form of vLLM's HTTP protocol."""
    return [
        position
        and {
            number: {"logprob": one.logprob, "decoded_token": one.decoded_token}
            for number, one in position.items()
        }
        for position in logprobs or ()
    ]


def _log_to(log: Path) -> dict[str, str]:
    """Return environment variables that make vLLM and the processes it starts log to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    file = {"class": "logging.FileHandler", "filename": str(log.absolute()), "formatter": "plain"}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(process)d %(message)s"}},
        "handlers": {"file": file},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path = log.with_suffix(".json")
    path.write_text(json.dumps(config))
    where = str(path.absolute())
    # A process with threads must not be forked.
    return {"VLLM_LOGGING_CONFIG_PATH": where, "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def _parser() -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise ConfigError(
                f"model.engine: vLLM says: {message}.", "See its documentation of engine arguments."
            )

    return Parser(add_help=False)
