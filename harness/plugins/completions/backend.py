"""OpenAI's legacy text completions, which the GPT-3 papers used and base models still use.

There are no turns: the texts of the messages are joined into one prompt, separated by empty lines.
Conversations (rounds of feedback) are refused.

Calls that differ only in their prompts are gathered, so that one HTTP request sends several. For
the layers above, each prompt remains a call with its key, cache entry, retries, limits and
attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from harness.backends import DECODE_ERRORS, MAX_REPLY_MB, OnAllowances, bodies, encode
from harness.backends.openai import CompletionChoice, OpenAIBackend, ProviderPreset
from harness.errors import CallError, ConfigError, RequestRejected, TransientError
from harness.plugins.completions import loglikelihoods
from harness.records import Message, Reply, Request, Usage

SEVERAL = {"n", "best_of"}  # request fields with which a prompt has several choices


class _Tokenised(msgspec.Struct):
    tokens: list[int]


class OpenAICompletionsBackend(OpenAIBackend):
    """OpenAI's legacy Completions API.

    Args:
        preset: Name of a provider or local server. Sets base URL, key and dialect.
        base_url: A server's base URL (default: OpenAI's, or the preset's).
        api_key_env: The key's environment variable (default: the preset's).
        prompt_caching: Whether to send one call ahead of the others that share its prompt's
            beginning.
        service_tier: The provider's service tier, such as ``flex`` or ``priority``.
        prompts_per_request: Maximum number of prompts to send with one HTTP request.
    """

    may_change = OpenAIBackend.may_change | {"prompts_per_request"}
    path = "/completions"
    conversation = False
    usual_dialects: ClassVar[bodies.Dialects] = {
        **OpenAIBackend.usual_dialects,
        "json_schema": "structured_outputs",
    }

    def __init__(
        self,
        preset: str | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        prompt_caching: bool = False,
        service_tier: str | None = None,
        prompts_per_request: int = 1,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        reply_mb: float = MAX_REPLY_MB,
        model: str = "",
        on_allowances: OnAllowances | None = None,
    ) -> None:
        super().__init__(
            *(preset, base_url, api_key_env, prompt_caching, service_tier),
            secret=secret,
            concurrency=concurrency,
            timeout_s=timeout_s,
            reply_mb=reply_mb,
            model=model,
            on_allowances=on_allowances,
        )
        if prompts_per_request < 1:
            raise ConfigError("model.prompts_per_request must be at least 1.")
        alone = super().generate
        several = prompts_per_request > 1
        self._joint = JointPrompts(prompts_per_request, self._together, alone) if several else None
        self._takes_lists = True  # of prompts, as far as is known

    def adapt_preset(self, preset: ProviderPreset) -> ProviderPreset:
        """Return the preset for the Completions API, which rejects newer parameters."""
        constraints = {}
        for kind, dialect in preset.constraints.items():
            if not dialect.startswith("response_format"):
                constraints[kind] = dialect
        return replace(preset, max_tokens="max_tokens", constraints=constraints)

    def body(self, request: Request) -> Mapping[str, Any]:
        if request.loglikelihoods:
            return {**self.parameters(request), **loglikelihoods.body(request)}
        body: dict[str, Any] = {"prompt": _prompt(request)}
        if request.decoding.logprobs is not None:
            body["logprobs"] = request.decoding.logprobs
        return body | self.parameters(request)

    def read_answer(
        self, choices: Sequence[CompletionChoice], request: Request
    ) -> tuple[str, str, str | None]:
        if not request.loglikelihoods:
            return super().read_answer(choices, request)
        echoes = [choice.logprobs for choice in sorted(choices, key=_place)]
        if request.window:
            return loglikelihoods.logprobs(echoes), "stop", None
        return loglikelihoods.read(request, echoes), "stop", None

    async def generate(self, request: Request) -> Reply:
        """Return the reply to a request."""
        if self._joint is not None and _joins(request):
            return await self._joint(encode(self._shared(request)), request)
        if not request.window:
            if request.loglikelihoods and len(request.continuations) > 1:
                return await self._scored(request)
            return await super().generate(request)
        [(prefix, text)] = request.continuations
        before = await self._tokens(prefix, request.model)
        tokens = await self._tokens(text, request.model)
        windows = loglikelihoods.windows(before, tokens, request.window)
        body = {**self.body(request), "prompt": [window for window, _ in windows]}
        reply = self.decode_reply(await self.client.post(self.path, body, request.model), request)
        log_likelihood = loglikelihoods.total(reply.text, [count for _, count in windows])
        return structs.replace(reply, text=log_likelihood)

    async def _scored(self, request: Request) -> Reply:
        """Score texts with one HTTP request or, if the server takes no list, with one for each.

        llama-cpp-python's server answers a list with the status 500.
        """
        refused: CallError | None = None
        if self._takes_lists:
            try:
                return await super().generate(request)
            except (RequestRejected, TransientError) as error:
                if isinstance(error, TransientError) and error.kind != "server_failed":
                    raise
                refused = error
        replies = []
        for context, text in request.continuations:
            messages = Message("user", context), Message("assistant", text)
            try:
                replies.append(await super().generate(structs.replace(request, messages=messages)))
            except TransientError as error:
                raise refused or error from None
            self._takes_lists = False
            refused = None
        texts = []
        usage: Usage | None = Usage()
        for reply in replies:
            texts.append(reply.text)
            if usage is not None:
                usage = None if reply.usage is None else usage + reply.usage
        return structs.replace(replies[0], text=loglikelihoods.joined(texts), usage=usage)

    def _shared(self, request: Request) -> dict[str, Any]:
        """Return the body without the prompt and, at temperature 0, without the seed."""
        if request.decoding.temperature == 0:
            request = structs.replace(request, seed=None)
        return self.parameters(request)

    async def _together(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        """Send several prompts with one request, and return the outcome of each.

        Raises:
            CallError: If the request fails, or the response is malformed.
        """
        first = requests[0]
        body = {"prompt": [_prompt(request) for request in requests], **self._shared(first)}
        content = await self.client.post(self.path, body, first.model)
        try:
            replies = self.replies(content, requests)
        except DECODE_ERRORS as error:
            raise self.client.malformed_error(content, error) from None
        outcomes: list[Reply | CallError] = []
        for reply in replies:
            if not isinstance(reply, CallError):
                reply = self.client.mask_reply(reply)
            outcomes.append(reply)
        return outcomes

    async def _tokens(self, text: str, model: str) -> list[int]:
        """Return the ids of a text's tokens, from vLLM's endpoint ``/tokenize``."""
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        content = await self.client.post("/../tokenize", body, model)
        try:
            return msgspec.json.decode(content, type=_Tokenised).tokens
        except DECODE_ERRORS as error:
            raise self.client.malformed_error(content, error) from None

    def read_choice(self, choice: CompletionChoice) -> tuple[str, str, str | None]:
        if not isinstance(choice.text, str):
            raise ValueError("a choice has no text")
        return choice.text, bodies.finish_reason(choice.finish_reason), None


def _place(choice: CompletionChoice) -> int:
    return choice.index if isinstance(choice.index, int) else 0


def _prompt(request: Request) -> str:
    return "\n\n".join(message.content for message in request.messages)


def _joins(request: Request) -> bool:
    """Return whether a request's prompt may be sent with others."""
    decoding = request.decoding
    scored = request.loglikelihoods or decoding.logprobs or decoding.prompt_logprobs
    return not (scored or request.others or decoding.extra.keys() & SEVERAL)


GATHERING_S = 0.005  # seconds that the first call waits for others

Outcome = Reply | CallError


@dataclass(eq=False, slots=True)
class _Group:
    requests: list[Request]
    most: int
    answers: list[asyncio.Future[Outcome | None]] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class JointPrompts:
    """Sends calls of one kind together.

    If a server rejects a joint request because of one prompt, each prompt is sent alone. Any other
    failure of the request fails all of its calls. Because one prompt may be its cause, a prompt is
    then sent with half as many others as before, and alone after a time-out.

    Args:
        most: Maximum number of prompts per HTTP request.
        together: Sends several prompts, and returns an outcome for each.
        alone: Sends one prompt.
    """

    most: int
    together: Callable[[Sequence[Request]], Awaitable[Sequence[Outcome]]]
    alone: Callable[[Request], Awaitable[Reply]]

    def __post_init__(self) -> None:
        self._open: dict[Hashable, _Group] = {}
        self._fewer: dict[Hashable, int] = {}
        """The maximum number of prompts per request for those whose last request has failed."""

    async def __call__(self, kind: Hashable, request: Request) -> Reply:
        call = request.messages, request.sample, request.redraw
        group_size = self._fewer.get(call, self.most)
        if group_size == 1:
            reply = await self.alone(request)
        else:
            try:
                reply = await self._answer((kind, group_size), request, group_size)
            except asyncio.CancelledError:
                self._fewer[call] = 1
                raise
            except CallError as error:
                if error.shared:
                    self._fewer[call] = group_size // 2
                raise
        self._fewer.pop(call, None)
        return reply

    async def _answer(self, kind: Hashable, request: Request, group_size: int) -> Reply:
        if (group := self._open.get(kind)) is None:
            outcome = await self._lead(kind, request, group_size)
        else:
            group.requests.append(request)
            answer: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
            group.answers.append(answer)
            if len(group.requests) == group.most:
                del self._open[kind]
                group.full.set()
            outcome = await answer
        if outcome is None:
            return await self.alone(request)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    async def _lead(self, kind: Hashable, request: Request, group_size: int) -> Outcome | None:
        """Gather and send calls. Return this call's outcome, or None if it must be sent alone."""
        group = self._open[kind] = _Group([request], group_size)
        outcomes: Sequence[Outcome | None] = [None]
        try:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATHERING_S):
                        await group.full.wait()
            finally:
                if self._open.get(kind) is group:
                    del self._open[kind]
            if group.answers:
                outcomes = await self.together(group.requests)
        except RequestRejected:
            outcomes = [None] * len(group.requests)
        except CallError as error:
            error.shared = True
            outcomes = [error] * len(group.requests)
        except BaseException:  # such as a time limit: whether the server answers is unknown
            problem = "The HTTP request was abandoned by another call that it was sent for."
            abandoned = TransientError(problem, kind="interrupted")
            abandoned.shared = True
            outcomes = [abandoned] * len(group.requests)
            raise
        finally:
            for answer, outcome in zip(group.answers, outcomes[1:], strict=True):
                if not answer.done():
                    answer.set_result(outcome)
        return outcomes[0]
