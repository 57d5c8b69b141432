"""vLLM's asynchronous engine, as one object: what it is asked, and what it answers."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.backends._bodies import finish, logprobs_in, prompt_logprobs_in, split_think
from harness.backends._engine_processes import EngineProcesses
from harness.backends._vllm_loading import loaded
from harness.backends._vllm_model import VLLMModel
from harness.backends._vllm_sampling import sampling, template_options
from harness.errors import (
    ConfigError,
    FatalCallError,
    RequestRejected,
    TransientError,
)
from harness.records import Message, Reply, Request, Usage

PROMPTS_KEPT = 4096
"""Tokenised prompts that are kept: the samples of an instance come one after the other."""


class InProcessEngine:
    """An engine, once `load` has returned.

    model: what it loads.
    log: file of what vLLM says.
    """

    def __init__(self, model: VLLMModel, log: Path) -> None:
        self._model = model
        self._log = log
        self._processes = EngineProcesses()
        self._llm: Any = None

    async def load(self) -> None:
        """Load the model; takes from seconds to minutes, and blocks the loop, which is its own.

        Raises: ConfigError for an engine argument that vLLM does not know; FatalCallError where
            it was called off, or the adapter cannot be loaded; whatever vLLM raises where the
            model cannot.
        """
        self._template = _text(self._model.engine.get("chat_template"))
        self._llm = loaded(self._model, self._log, self._processes)
        self._tokenizer = self._llm.renderer.tokenizer
        config = self._llm.model_config
        self._longest: int = config.max_model_len
        self._defaults: Mapping[str, Any] = config.get_diff_sampling_param()
        self._split = _reasoning_parser(self._llm, self._tokenizer)
        self._prompt = functools.lru_cache(PROMPTS_KEPT)(self._tokenised)
        self._lora = _adapter(self._model)
        if self._lora is not None:
            await self._add(self._lora)

    async def _add(self, adapter: Any) -> None:
        """Load an adapter: with the first request, one that does not fit kills the engine."""
        try:
            await self._llm.add_lora(adapter)
        except Exception as error:  # whatever its engine's processes have told
            said = " ".join(str(error).split())[:300]
            raise FatalCallError(
                f"vLLM cannot load the adapter {self._model.adapter}: {said}",
                "Mend model.lora; for an adapter of a higher rank, model.engine.max_lora_rank.",
            ) from None

    def call_off(self) -> None:
        """Have `load` raise soon, from another thread."""
        self._processes.call_off()

    @property
    def dead(self) -> bool:
        """Whether it answers nothing any more."""
        return bool(self._llm.errored)

    async def shutdown(self) -> None:
        """End its processes; blocks until they are gone.

        In the loop that it was loaded in: from elsewhere, vLLM leaves the closing of its sockets
        to that loop, and where one stays open, zmq waits for it for ever when the engine is freed.
        """
        if self._llm is not None:
            self._llm.shutdown(timeout=10)
        self._processes.end()

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
            raise FatalCallError(f"vLLM: {error}.", "Mend decoding.extra.") from None
        except (VLLMClientError, ValueError) as error:
            raise RequestRejected(f"vLLM: {error}") from None
        prompt = TokensPrompt(prompt_token_ids=list(tokens))
        try:
            async for output in self._llm.generate(prompt, params, name, lora_request=self._lora):
                last = output
        except EngineDeadError:
            raise TransientError(
                "The vLLM engine has died.", "It is made anew.", kind="connection_lost"
            ) from None
        except EngineGenerateError as error:
            raise TransientError(f"vLLM: {error.__cause__ or error}", kind="interrupted") from None
        except VLLMClientError as error:
            raise RequestRejected(f"vLLM: {error}") from None
        except ValueError as error:
            raise RequestRejected(f"vLLM: {error}") from None
        if last is None:
            raise TransientError(
                "The vLLM engine has ended the answer without a word.", kind="interrupted"
            )
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
