"""Runs a model in this process on vLLM's asynchronous engine (as of vLLM 0.32), without HTTP.

Needs vLLM in the same environment: ``pip install 'harness-instruct[vllm]'``. Every sample is a
separate request with its own seed and cache key. The samples of a prompt share its computation
through the engine's prefix cache.

Requests are translated in the same way as by vLLM's server. Settings that the run file omits come
from the model's generation configuration. Without max_tokens, an answer may fill the context.
"""

import asyncio
import contextlib
import functools
import importlib.util
import itertools
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from pydantic import Field
from typing_extensions import override

from harness.backends import OwnedServers, bodies
from harness.config.settings import temporary_variables
from harness.errors import (
    ConfigError,
    FatalCallError,
    HarnessError,
    PromptTooLong,
    RequestRejected,
    TransientError,
)
from harness.plugins.completions import loglikelihoods
from harness.plugins.vllm.guard import kill
from harness.plugins.vllm.model import (
    LOADING,
    Protocol,
    VLLMBackend,
    VLLMModel,
    cached_hashes,
    depth,
    features,
    flags,
)
from harness.plugins.vllm.processes import Guard, tail
from harness.records import DecodingConstraint, Message, Reply, Request, Usage
from harness.wording import to_one_line

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
        with _ONE_AT_A_TIME, temporary_variables(**_log_to(self._log)), self._watched():
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
            message = to_one_line(str(error))
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
        reason = bodies.finish_reason(completion.finish_reason)
        text, thought = self._split(completion.text)
        usage = Usage(
            input_tokens=len(output.prompt_token_ids or ()),
            output_tokens=len(completion.token_ids),
            cached_input_tokens=output.num_cached_tokens or 0,
        )
        logprobs = prompt = None
        if decoding.logprobs is not None:
            logprobs = bodies.rank_tokens(map(_pairs, completion.logprobs or ()))
        if decoding.prompt_logprobs:  # the prompt's own token comes first
            prompt_tokens = (_pairs(position)[:1] for position in output.prompt_logprobs or ())
            prompt = tuple(next(bodies.valid_tokens(pair), None) for pair in prompt_tokens)
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


# Seconds to wait for an engine to end. Its processes have 10 s, and importing vLLM, which cannot be
# interrupted, takes as long.
END_S = 20.0

_NUMBERS = itertools.count()  # the names of requests, unique within this process


class EngineThread:
    """A thread that loads an engine in its own event loop, and keeps it until `end` is called.

    An engine takes minutes to load and is bound to its event loop, but each variant of a run file
    runs in a new loop. While the engine loads, the display and Ctrl-C keep working.
    """

    def __init__(self, engine: InProcessEngine) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._loaded: Future[None] = Future()
        self._loaded.set_running_or_notify_cancel()  # a cancelled waiter must not cancel it
        self._thread = threading.Thread(target=self._run, name="vllm-engine", daemon=True)
        self._thread.start()

    async def loaded(self) -> None:
        """Wait until the engine is loaded, and raise the error if loading fails."""
        await asyncio.wrap_future(self._loaded)

    async def answer(self, request: Request, name: str) -> Reply:
        """Return the loaded engine's reply to a request. ``name`` must be unique in this process.

        Raises:
            TransientError: If the engine has died or failed.
            RequestRejected: If vLLM rejects the request.
            FatalCallError: If ``decoding.extra`` has an unknown field.
        """
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._engine.answer(request, name), self._loop)
        )

    def has_ended(self) -> bool:
        """Return whether loading has failed or the engine has died. False during loading."""
        if not self._loaded.done():
            return False
        failed = self._loaded.exception() is not None
        return failed or self._engine.dead or not self._thread.is_alive()

    def end(self) -> None:
        """End the engine, even while it loads, and wait for at most 2 * `END_S` seconds."""
        until = time.monotonic() + END_S
        while not self._loaded.done() and time.monotonic() < until:
            self._engine.call_off()
            self._thread.join(0.1)
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        """Load the engine, keep it until it is no longer needed, and end it."""
        try:
            await self._engine.load()
        except BaseException as error:
            try:
                await self._engine.shutdown()
            finally:
                self._loaded.set_exception(error)
        else:
            self._loaded.set_result(None)
            await self._over.wait()
            await self._engine.shutdown()


class VLLMEngineBackend(VLLMBackend):
    """A model on vLLM's engine in this process.

    Args:
        path: Folder of the weights, or their name on the hub (default: the model's name).
        lora: Folder of an adapter, or its name on the hub.
        engine: vLLM's engine arguments, by vLLM's names; ``chat_template`` is a template or its
            file.
        protocol: ``chat`` uses the model's chat template; ``completions`` is for base models.
        restarts: Maximum number of consecutive reloads of an engine that dies without answering.
    """

    runner = "engine"
    may_change = frozenset({"engine", "restarts"})

    def __init__(
        self,
        path: str = "",
        lora: str = "",
        engine: dict[str, Any] | None = None,
        protocol: Protocol = "chat",
        restarts: Annotated[int, Field(ge=0)] = 3,
        *,
        model: str = "",
        servers: OwnedServers,
        logs: Path,
        cache_dir: Path,
    ) -> None:
        super().__init__(model, logs / "vllm-engine.log", restarts, servers)
        self._model = VLLMModel(model, path, lora, engine or {}, protocol, cached_hashes(cache_dir))
        self.features = features(protocol)
        self.endpoint = self._model.endpoint()
        self.preferred_concurrency = depth(self._model.engine)
        self._lease = servers.lease(f"engine {self._model!r}")
        self._thread: EngineThread | None = None

    @override
    def fingerprint(self) -> Mapping[str, str]:
        return self._model.fingerprint()

    @property
    @override
    def ready(self) -> bool:
        return self._thread is not None and not self._thread.has_ended()

    @override
    async def start(self, on_status: Callable[[str], None]) -> None:
        """Load the model, or load it again after the engine died.

        Runs of the same model share the engine.

        Raises:
            FatalCallError: If vLLM is not installed, cannot load the model, or died repeatedly
                without answering.
        """
        if importlib.util.find_spec("vllm") is None:
            remedy = "pip install 'harness-instruct[vllm]', or use vllm_server (harness docs vllm)."
            raise FatalCallError("vLLM is not installed in this environment.", remedy)
        on_status(LOADING)
        failed = self._thread
        renew = self._servers.acquire
        thread = await asyncio.to_thread(renew, self._lease, failed, self._launch)
        try:
            await thread.loaded()
        except HarnessError as error:
            raise FatalCallError(error.message, error.remedy) from None
        except Exception as error:  # whatever vLLM raises for a model that cannot be loaded
            message = to_one_line(f"{type(error).__name__}: {error}")
            raise self._failed(f"did not start ({message})", tail(self._log)) from None
        self._thread = thread

    def _launch(self) -> EngineThread:
        self._count_start(tail(self._log))
        return EngineThread(InProcessEngine(self._model, self._log))

    async def generate(self, request: Request) -> Reply:
        """Return the engine's reply.

        Raises:
            TransientError: If the engine has died or failed, or is being reloaded.
            RequestRejected: If vLLM rejects the request, or the prompt has crashed it repeatedly.
        """
        async with self._turns.admit(request) as alone:
            if (thread := self._thread) is None or thread.has_ended():
                raise TransientError("The vLLM engine is being reloaded.", kind="unreachable")
            try:
                reply = await thread.answer(request, str(next(_NUMBERS)))
            except TransientError as error:
                if error.kind == "connection_lost":
                    self._prompts.record_death(request, thread, alone=alone)
                raise
            self._prompts.record_answer(request)
            self._starts = 1
            return reply

    @override
    async def aclose(self) -> None:
        """Release the engine, which ends with its last user."""
        await asyncio.to_thread(self._servers.release, self._lease)
