"""vLLM's asynchronous engine in this process (as of vLLM 0.32).

Requests are translated in the same way as by vLLM's server. Settings that the run file omits come
from the model's generation configuration. Without max_tokens, an answer may fill the context.
"""

import contextlib
import functools
import json
import multiprocessing
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from harness.backends import bodies
from harness.config.settings import handed_down
from harness.errors import (
    ConfigError,
    FatalCallError,
    PromptTooLong,
    RequestRejected,
    TransientError,
)
from harness.plugins.completions import loglikelihoods
from harness.plugins.vllm.guard import kill
from harness.plugins.vllm.model import VLLMModel, flags
from harness.plugins.vllm.processes import Guard
from harness.records import DecodingConstraint, Message, Reply, Request, Usage

STEP_S = 0.05  # between checks for new child processes; a kill -9 may leave the newest ones running
PROMPTS_KEPT = 4096  # tokenised prompts to cache: an instance's samples follow each other
# Keys in ``decoding.extra``, as in vLLM's HTTP protocol, that do not concern sampling.
TEMPLATE = "chat_template_kwargs"
SPECIAL_TOKENS = "add_special_tokens"

# Held while loading: engines loaded at the same time would mix their logs, and count each other's
# memory as their own.
_ONE_AT_A_TIME = threading.Lock()


class InProcessEngine:
    """A vLLM engine in this process, usable once `load` has returned."""

    def __init__(self, model: VLLMModel, log: Path) -> None:
        self._model = model
        self._log = log
        self._guard = Guard()
        self._children: set[BaseProcess] = set()
        self._off = threading.Event()
        self._llm: Any = None

    async def load(self) -> None:
        """Load the model, which blocks the event loop for seconds to minutes."""
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
        """Let the guard watch all processes that vLLM starts within the block."""
        others = set(multiprocessing.active_children())
        complete = threading.Event()

        def watch() -> None:
            last = False
            while not last:
                last = complete.wait(STEP_S)
                for process in set(multiprocessing.active_children()) - others - self._children:
                    self._children.add(process)
                    self._guard.watch(process.pid or 0)

        thread = threading.Thread(target=watch, name="vllm-processes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            complete.set()
            thread.join()

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
        """Load the adapter now: an invalid one would kill the engine at the first request."""
        from vllm.lora.request import LoRARequest

        self._lora = LoRARequest(self._model.name, 1, self._model.adapter)
        try:
            await self._llm.add_lora(self._lora)
        except Exception as error:  # whatever the engine's processes report
            message = " ".join(str(error).split())[:300]
            problem = f"vLLM cannot load the adapter {self._model.adapter}: {message}"
            remedy = (
                "Check model.lora; an adapter of a higher rank needs model.engine.max_lora_rank."
            )
            raise FatalCallError(problem, remedy) from None

    def call_off(self) -> None:
        """Cancel `load`. Thread-safe. Must be called repeatedly until `load` has ended."""
        self._off.set()
        self._kill()

    @property
    def dead(self) -> bool:
        return bool(self._llm.errored)

    async def shutdown(self) -> None:
        """End the engine's processes, killing those that have not ended after 10 seconds. Blocks.

        Must be called in the event loop that loaded the engine. Otherwise zmq would wait forever
        for vLLM's open sockets when the engine is freed.
        """
        if self._llm is not None:
            self._llm.shutdown(timeout=10)
        self._kill()
        self._guard.close()

    async def answer(self, request: Request, name: str) -> Reply:
        if request.loglikelihoods:
            return await self._likelihoods(request, name)
        options = json.dumps(template_options(request), sort_keys=True)
        tokens = self._prompt(request.messages, options, self._special(request))
        fields = sampling(request, self._defaults, self._longest - len(tokens))
        return self._reply(await self._output(tokens, fields, name), request)

    async def _likelihoods(self, request: Request, name: str) -> Reply:
        """Score answers, or windows of a text, one after another, to reuse the cached context."""
        special = self._special(request)
        encode = functools.partial(self._tokenizer.encode, add_special_tokens=special)
        if request.window:
            [(prefix, text)] = request.continuations
            plain = functools.partial(encode, add_special_tokens=False)
            parts = loglikelihoods.windows(plain(prefix), plain(text), request.window)
        else:
            parts = [loglikelihoods.encoded(*pair, encode) for pair in request.continuations]
        likelihoods = []
        usage = Usage()
        for number, (prompt, count) in enumerate(parts):
            output = await self._scored(request, prompt, count, f"{name}-{number}")
            places = zip(prompt[-count:], output.prompt_logprobs[-count:], strict=True)
            pairs = [_own_and_best(token, place) for token, place in places]
            likelihoods.append(loglikelihoods.summed(pairs))
            usage += Usage(len(prompt), 1, output.num_cached_tokens or 0)
        totals = (
            [(sum(total for total, *_ in likelihoods), False)] if request.window else likelihoods
        )
        return Reply(msgspec.json.encode(totals).decode(), "stop", usage, self._model.name)

    async def _scored(self, request: Request, prompt: Sequence[int], count: int, name: str) -> Any:
        """Return vLLM's output with the log-probabilities of a prompt's last ``count`` tokens."""
        fields = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 1}
        fields |= _of_sampling(request.decoding.extra)
        # For tokens in the prefix cache, vLLM returns undefined ids and log-probabilities.
        fields |= {"detokenize": False, "skip_reading_prefix_cache": False}
        output = await self._output(prompt, fields, name)
        if (output.num_cached_tokens or 0) >= len(prompt) - count:
            fields["skip_reading_prefix_cache"] = True
            output = await self._output(prompt, fields, f"{name}-again")
        return output

    async def _output(self, tokens: Sequence[int], fields: dict[str, Any], name: str) -> Any:
        """Return vLLM's output for a prompt, given the fields of its `SamplingParams`."""
        from vllm import SamplingParams, TokensPrompt
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        last = None
        try:
            if constraint := fields.get("structured_outputs"):
                fields["structured_outputs"] = StructuredOutputsParams(**constraint)
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
        return last

    def _reply(self, output: Any, request: Request) -> Reply:
        completion = output.outputs[0]
        decoding = request.decoding
        reason = bodies.finish(completion.finish_reason)
        text, thought = self._split(completion.text)
        usage = Usage(
            input_tokens=len(output.prompt_token_ids or ()),
            output_tokens=len(completion.token_ids),
            cached_input_tokens=output.num_cached_tokens or 0,
        )
        logprobs = prompt = None
        if decoding.logprobs is not None:
            logprobs = bodies.likeliest(map(_pairs, completion.logprobs or ()))
        if decoding.prompt_logprobs:  # the prompt's own token comes first
            prompt_tokens = (_pairs(position)[:1] for position in output.prompt_logprobs or ())
            prompt = tuple(next(bodies.tokens(pair), None) for pair in prompt_tokens)
        name = self._model.name
        return Reply(
            text, reason, usage, name, reasoning=thought, logprobs=logprobs, prompt_logprobs=prompt
        )

    def _special(self, request: Request) -> bool:
        """Return whether the tokenizer should add special tokens."""
        usual = self._model.protocol == "completions"  # a chat template has its own
        return bool(request.decoding.extra.get(SPECIAL_TOKENS, usual))

    def _tokenised(
        self, messages: Sequence[Message], options: str, special: bool
    ) -> tuple[int, ...]:
        if self._model.protocol == "completions":
            text = "\n\n".join(message.content for message in messages)
            return tuple(self._tokenizer.encode(text, add_special_tokens=special))
        turns = [{"role": message.role, "content": message.content} for message in messages]
        more = json.loads(options)
        if self._template is not None:
            more["chat_template"] = self._template
        try:
            text = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **more
            )
        except Exception as error:  # a template is a program, and may refuse these turns
            problem = f"The model's chat template refuses this conversation: {error}"
            remedy = "Set model.protocol to completions (a base model), or engine.chat_template."
            raise RequestRejected(problem, remedy) from None
        return tuple(self._tokenizer.encode(text, add_special_tokens=special))


def sampling(request: Request, defaults: Mapping[str, Any], room: int) -> dict[str, Any]:
    """Return the fields for vLLM's `SamplingParams`.

    Args:
        request: The request, whose settings have precedence.
        defaults: The model's generation configuration.
        room: Tokens of the context that the prompt leaves for the answer.

    Raises:
        PromptTooLong: If ``room`` is less than the request's ``max_tokens``, or less than 1.
    """
    decoding = request.decoding
    max_tokens = request.decoding.max_tokens
    if room < 1 or (max_tokens is not None and max_tokens > room):
        answer = f"but the answer may need {max_tokens or 1}."
        problem = f"The context has room for {max(room, 0)} tokens after this prompt, {answer}"
        remedy = "Lower decoding.max_tokens, or raise model.engine.max_model_len."
        raise PromptTooLong(problem, remedy)
    settings = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "max_tokens": max_tokens or min(room, defaults.get("max_tokens") or room),
        "stop": list(decoding.stop) or None,
        "seed": request.seed,
        "logprobs": decoding.logprobs,
        "prompt_logprobs": 0 if decoding.prompt_logprobs else None,
    }
    fields = dict(defaults) | {name: value for name, value in settings.items() if value is not None}
    fields |= _of_sampling(decoding.extra)
    if isinstance(decoding.constraint, DecodingConstraint):
        fields["structured_outputs"] = bodies.vllm_constraint(decoding.constraint)
    return fields


def _of_sampling(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {k: value for k, value in extra.items() if k not in (TEMPLATE, SPECIAL_TOKENS)}


def template_options(request: Request) -> dict[str, Any]:
    """Return the options of the chat template that a request has in ``decoding.extra``."""
    options = request.decoding.extra.get(TEMPLATE, {})
    if not isinstance(options, dict):
        problem = f"decoding.extra.{TEMPLATE} must be a mapping."
        raise RequestRejected(problem, "Write {name: value}.")
    return options


def _text(template: str | None) -> str | None:
    """Return a chat template, given the template itself or a file's path."""
    if template is None or "{" in template:
        return template
    try:
        return Path(template).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"model.engine.chat_template: {template}: {error}.") from None


def _reasoning_parser(llm: Any, tokenizer: Any) -> Any:
    """Return a function that splits off reasoning if vLLM has a parser for it."""
    name = llm.vllm_config.structured_outputs_config.reasoning_parser
    if not name:
        return lambda content: (content, None)
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.reasoning import ReasoningParserManager

    parser = ReasoningParserManager.get_reasoning_parser(name)(tokenizer)
    empty = ChatCompletionRequest(messages=[], model="m")

    def split(content: str) -> tuple[str, str | None]:
        reasoning, answer = parser.extract_reasoning(content, empty)
        return answer or "", reasoning

    return split


def _pairs(position: Any) -> list[tuple[str, float]]:
    """Return the tokens and log-probabilities at a position."""
    return [(token.decoded_token, token.logprob) for token in (position or {}).values()]


def _own_and_best(token: int, position: Any) -> tuple[float, float] | None:
    """Return the log-probabilities of a token and of the likeliest token at its position."""
    if not position:
        return None
    return position[token].logprob, max(candidate.logprob for candidate in position.values())


def _log_to(log: Path) -> dict[str, str]:
    """Return environment variables that make vLLM log to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    file = {"class": "logging.FileHandler", "filename": str(log.absolute()), "formatter": "plain"}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(process)d %(message)s"}},
        "handlers": {"file": file},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path = log.with_suffix(".json").absolute()
    path.write_text(json.dumps(config))
    # A process with threads must not be forked.
    return {"VLLM_LOGGING_CONFIG_PATH": str(path), "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def _parser() -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            problem = f"model.engine: vLLM says: {message}."
            raise ConfigError(problem, "See its documentation of engine arguments.")

    return Parser(add_help=False)
