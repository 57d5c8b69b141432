"""OpenAI chat completions, using the official SDK, from OpenAI or any compatible server.

    model: {backend: openai, preset: ollama, name: "llama3.2:3b"}

The presets, with their sources, are in openai_presets.yaml.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType, structs
from typing_extensions import override

from harness.backends import _bodies
from harness.backends._bodies import Dialects, TokenCount
from harness.backends._clients import EntraClient, SDKClient
from harness.backends._http import DECODE_ERRORS, MAX_REPLY_MB, HttpBackend, HttpClient
from harness.backends._responses import OnAllowances
from harness.errors import CallError, ConfigError, FatalCallError, TransientError, suggest_name
from harness.ports import (
    DECODING_PARAMETERS,
    LOGLIKELIHOODS,
    LOGPROBS,
    PROMPT_LOGPROBS,
    SAMPLES_PER_CALL,
)
from harness.records import (
    MAX_MAGNITUDE,
    REFUSALS,
    Decoding,
    DecodingConstraint,
    Reply,
    Request,
    Usage,
)


class _Message(msgspec.Struct):
    """The fields read from a message, untyped so that an invalid field does not spoil the reply."""

    content: Any = None
    refusal: Any = None
    tool_calls: Any = None
    reasoning_content: Any = None
    reasoning: Any = None


class CompletionChoice(msgspec.Struct):
    """One answer in a completion, as a ``message`` (chat completion) or a ``text``."""

    message: _Message | None = None
    text: Any = None
    index: Any = None
    finish_reason: Any = None
    error: Any = None
    logprobs: Any = None
    prompt_logprobs: Any = None


class _Details(msgspec.Struct):
    cached_tokens: TokenCount | None = None  # of the prompt
    cache_write_tokens: TokenCount | None = None
    reasoning_tokens: TokenCount | None = None  # of the completion


class _Usage(msgspec.Struct):
    prompt_tokens: TokenCount
    completion_tokens: TokenCount
    total_tokens: TokenCount | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: TokenCount | None = None  # DeepSeek's cached tokens of the prompt
    cached_tokens: TokenCount | None = None  # Kimi's

    def to_usage(self) -> Usage:
        """Convert the token counts to the harness's form."""
        # Some servers (xAI) count reasoning tokens outside the completion; the total reveals this.
        output_tokens = max(self.completion_tokens, (self.total_tokens or 0) - self.prompt_tokens)
        prompt = self.prompt_tokens_details or _Details()
        cached = prompt.cached_tokens or self.prompt_cache_hit_tokens or self.cached_tokens or 0
        written = prompt.cache_write_tokens or 0
        reasoning = (self.completion_tokens_details or _Details()).reasoning_tokens or 0
        return Usage(self.prompt_tokens, output_tokens, cached, reasoning, written)


class _Cost(msgspec.Struct):
    cost: Annotated[float, msgspec.Meta(ge=0, le=MAX_MAGNITUDE)]
    is_byok: bool | None = None


class _Completion(msgspec.Struct):
    choices: list[CompletionChoice]
    model: str | None = None
    usage: Any = None
    prompt_logprobs: Any = None
    service_tier: Any = None


def _read_cost(usage: object) -> float | UnsetType:
    """Return the cost in US dollars that OpenRouter reports for a call.

    It is unset if another provider charges the user's own key for the call. Source:
    https://openrouter.ai/docs/use-cases/usage-accounting.
    """
    reported = _bodies.decode_usage(usage, _Cost)
    return UNSET if reported is None or reported.is_byok else reported.cost


RESPONSES_PATH = "/responses"  # the path of the Responses API


@dataclass(frozen=True, slots=True)
class ProviderPreset:
    """The URL, key and dialect of a provider or local server.

    Args:
        title: The provider's name in messages.
        url: Base URL, or None if it differs for each user.
        key: The key's environment variable, or None if no key is needed.
        max_tokens, seed: The provider's names for these parameters, or None if it has no seed.
        stop: Whether the API has stop sequences.
        hint: The form of the URL, if ``url`` is None.
        responses: Pattern of the models that only the Responses API serves.
        fixed_sampling: Pattern of the models that reject temperature and top_p, and return no
            log-probabilities.
        constraints: The supported decoding constraints, and their request fields.
        logprobs: Whether the provider promises log-probabilities in OpenAI's form. Together AI has
            another form; OpenRouter and Hugging Face forward requests to other providers.
        prompt_logprobs: Whether the API returns log-probabilities of the prompt's tokens, as vLLM's
            does.
        echo: Whether text completions echo a prompt with the log-probabilities of its tokens.
        states_cost: Whether ``usage.cost`` in a reply is its price in US dollars.
        n: Whether the API draws several samples with one call, for the price of one prompt.
        entra: Whether calls are authenticated by Microsoft Entra ID instead of a key.
    """

    title: str
    url: str | None
    key: str | None
    max_tokens: str = "max_tokens"
    seed: str | None = "seed"
    stop: bool = True
    hint: str = ""
    responses: str = ""
    fixed_sampling: str = ""
    constraints: Dialects = field(default_factory=lambda: _bodies.SCHEMA_DIALECTS)
    logprobs: bool = False
    prompt_logprobs: bool = False
    echo: bool = False
    entra: bool = False
    states_cost: bool = False
    n: bool = False

    def needs_responses_api(self, model: str) -> bool:
        """Return whether only the Responses API serves a model."""
        return bool(self.responses and re.fullmatch(self.responses, model))

    def features(self, model: str) -> frozenset[str]:
        """Return the supported features for a model, including ``free`` for a local server."""
        features = {*DECODING_PARAMETERS, *self.constraints}
        if not self.seed:
            features.discard("seed")
        if not self.stop:
            features.discard("stop")
        if self.prompt_logprobs:
            features.add(PROMPT_LOGPROBS)
        if self.logprobs:
            features.add(LOGPROBS)
        if self.fixed_sampling and re.fullmatch(self.fixed_sampling, model):
            features -= {"temperature", "top_p", LOGPROBS}
        if self.key is None and self.url is not None:
            features.add("free")
        if self.n:
            features.add(SAMPLES_PER_CALL)
        return frozenset(features)


PRESETS = msgspec.yaml.decode(
    Path(__file__).with_name("openai_presets.yaml").read_bytes(), type=dict[str, ProviderPreset]
)


def resolve_preset(
    preset: str | None, base_url: str | None, api_key_env: str | None
) -> tuple[ProviderPreset, str, str | None]:
    """Return the preset, base URL and key variable that a run file's section ``model`` selects.

    A preset's key is sent only to the preset's URL or, if the preset has no URL (Azure), to the
    user's URL.

    Args:
        preset: The preset's name (default: ``openai``, or a compatible server with ``base_url``).
        base_url: The server's base URL (default: the preset's).
        api_key_env: The environment variable with the key (default: the preset's).

    Returns:
        The preset, the base URL, and the key's environment variable (None: no key is sent).

    Raises:
        ConfigError: If there is no such preset, or if the preset needs a base URL.
    """
    name = preset or "openai"
    if name not in PRESETS:
        problem = f"model.preset: there is no preset named {name!r}."
        raise ConfigError(problem, suggest_name(name, PRESETS))
    provider = PRESETS[name]
    if preset is None and base_url not in (None, provider.url):
        provider = COMPATIBLE_PRESET
    url = base_url or provider.url
    if url is None:
        problem = f"model.preset {preset!r} needs model.base_url."
        raise ConfigError(problem, f"Its form is {provider.hint}.")
    if api_key_env is None and provider.url in (None, url.rstrip("/")):
        api_key_env = provider.key
    return provider, url, api_key_env


COMPATIBLE_PRESET = ProviderPreset(
    "any compatible server",
    None,
    None,
    constraints={},
    logprobs=True,
    echo=True,
)
"""The preset of a server of which only the URL is known.

Such a server may silently ignore a decoding constraint, so the preset has none. It may be asked for
log-probabilities, because a reply without them is noticed.
"""


class ChatReplies:
    """Mixin that reads the bodies of chat and text completions, from any server."""

    states_cost = False  # as in `ProviderPreset`

    def reply(self, content: bytes, request: Request) -> Reply:
        """Return the reply in a response's body, a chat or text completion in JSON."""
        completion = _bodies.decode_body(content, _Completion)
        if not completion.choices:
            raise ValueError("the list of choices is empty")
        usage = _bodies.decode_usage(completion.usage, _Usage)
        answers = [[choice] for choice in completion.choices]
        if request.loglikelihoods:
            answers = [completion.choices]
        first, *other_replies = _bodies.read_answers(
            answers, lambda choices: self._reply(choices, completion, request)
        )
        first = structs.replace(first, usage=usage.to_usage() if usage else None)
        if self.states_cost:
            first = structs.replace(first, cost_usd=_read_cost(completion.usage))
        return _bodies.join_samples(first, other_replies, request)

    def replies(self, content: bytes, requests: Sequence[Request]) -> list[Reply | CallError]:
        """Return the replies to several prompts that were completed by one call.

        Args:
            content: The response's body, a text completion in JSON.
            requests: The requests in the order of their prompts.

        Returns:
            For each request, the reply, or an error if its answer is unusable.

        Raises:
            FatalCallError: If the server did not answer each prompt once.
        """
        completion = _bodies.decode_body(content, _Completion)
        choices: dict[int, CompletionChoice] = {}
        for choice in completion.choices:
            choices[choice.index if isinstance(choice.index, int) else -1] = choice
        if len(completion.choices) != len(requests) or choices.keys() != set(range(len(requests))):
            error = FatalCallError(
                f"The server was sent {len(requests)} prompts, and returned "
                f"{len(completion.choices)} choices that are not one for each.",
                "Remove model.prompts_per_request.",
            )
            error.billed = True
            raise error
        usage = _bodies.decode_usage(completion.usage, _Usage)
        replies: list[Reply | CallError] = []
        usages = divide_usage(usage.to_usage() if usage else None, requests)
        for index, (request, usage_share) in enumerate(zip(requests, usages, strict=True)):
            try:
                reply = self._reply([choices[index]], completion, request)
                replies.append(structs.replace(reply, usage=usage_share))
            except CallError as error:
                replies.append(error)
            except DECODE_ERRORS as error:  # the other answers are paid for
                problem = f"An answer is malformed ({error})."
                replies.append(TransientError(problem, kind="malformed"))
        return replies

    def _reply(
        self, choices: Sequence[CompletionChoice], completion: _Completion, request: Request
    ) -> Reply:
        text, reason, reasoning = self.read_answer(choices, request)
        logprobs = prompt_logprobs = None
        if request.decoding.logprobs is not None:
            logprobs = _bodies.read_logprobs(choices[0].logprobs)
        if request.decoding.prompt_logprobs:
            tokens = completion.prompt_logprobs or choices[0].prompt_logprobs
            prompt_logprobs = _bodies.read_prompt_logprobs(tokens)
        return Reply(
            text,
            reason,
            model=completion.model,
            tier=_bodies.service_tier(completion.service_tier),
            reasoning=reasoning,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
        )

    def read_answer(
        self, choices: Sequence[CompletionChoice], request: Request
    ) -> tuple[str, str, str | None]:
        """Return the text, the finish reason and the reasoning (or None) of an answer.

        ``choices`` are the choices that belong to it: one, unless log-likelihoods are requested.
        """
        return self.read_choice(choices[0])

    def read_choice(self, choice: CompletionChoice) -> tuple[str, str, str | None]:
        """Return the text, the finish reason and the reasoning (or None) in a choice.

        Raises:
            CallError: If the server interrupted the answer.
            ValueError: If the choice has no usable answer.
        """
        if choice.error:
            raise ValueError("a choice has an error")
        reason = _bodies.finish_reason(choice.finish_reason)
        if (message := choice.message) is None:
            if reason in REFUSALS:  # Azure's content filter
                return "", reason, None
            raise ValueError("a choice has no message")
        answer = _bodies.content_text(message.content)
        if not answer and (refusal := _bodies.nonempty_text(message.refusal)):
            return refusal, "refusal", None
        calls = _iter_tool_calls(message.tool_calls)
        text, reason = _bodies.format_answer(answer, reason, calls)
        reasoning = (
            _bodies.nonempty_text(message.reasoning_content)
            or _bodies.nonempty_text(message.reasoning)
            or _thinking_text(message.content)
            or None
        )
        return text, reason, reasoning


def _thinking_text(content: object) -> str:
    """Return the reasoning in a message's content, where Mistral puts it."""
    parts = content if isinstance(content, list) else ()
    thinking = [part.get("thinking") for part in parts if isinstance(part, dict)]
    return "".join(map(_bodies.content_text, thinking))


def _iter_tool_calls(calls: object) -> Iterator[tuple[object, object]]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield function.get("name"), function.get("arguments")


def check_constraint_names(decoding: Decoding) -> None:
    """Check that a run file does not use names of constraints that vLLM ignores since 0.12.

    Raises:
        ConfigError: If ``decoding.extra`` has such a name.
    """
    for key in sorted(decoding.extra):
        if key.startswith("guided_"):
            problem = f"vLLM no longer knows decoding.extra.{key}, and would ignore it."
            raise ConfigError(problem, "Set decoding.constraint (harness docs providers).")


class OpenAIBackend(ChatReplies, HttpBackend):
    """OpenAI's Chat Completions API.

    Args:
        preset: Name of a provider or local server. Sets base URL, key and dialect.
        base_url: A server's base URL (default: OpenAI's, or the preset's).
        api_key_env: The key's environment variable (default: the preset's). A server given only by
            its URL receives a key only if this is set.
        prompt_caching: Whether to send one call ahead of the others that share its prompt's
            beginning, so that they find it in the cache of a provider that keeps beginnings.
        service_tier: The provider's service tier, such as ``flex`` or ``priority``.
    """

    may_change = frozenset({"prompt_caching", "service_tier"})
    path = "/chat/completions"
    url_variable = "OPENAI_BASE_URL"
    conversation = True
    # Default request fields of constraints at a URL that no preset has (see `key_part`).
    usual_dialects: ClassVar[Dialects] = {
        "json_schema": "response_format",
        **dict.fromkeys(("regex", "choices", "grammar"), "structured_outputs"),
    }

    def __init__(
        self,
        preset: str | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        prompt_caching: bool = False,
        service_tier: str | None = None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        reply_mb: float = MAX_REPLY_MB,
        model: str = "",
        on_allowances: OnAllowances | None = None,
    ) -> None:
        provider, url, key = resolve_preset(preset, base_url, api_key_env)
        if provider.needs_responses_api(model) and self.path != RESPONSES_PATH:
            raise ConfigError(
                f"{provider.title} serves {model} only through the Responses API.",
                "Set model.backend: openai_responses.",
            )
        self.preset = self.adapt_preset(provider)
        self.preset_name = next((name for name in PRESETS if PRESETS[name] is provider), "")
        limits: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
        limits |= {"reply_mb": reply_mb, "on_allowances": on_allowances}
        client: HttpClient
        if provider.entra and key is None:
            client = EntraClient(url, **limits)
        else:
            client = SDKClient("openai", url, key, secret, **limits)
        features = set(self.preset.features(model))
        if self.conversation:
            features.add("conversation")
        elif provider.echo:
            features.add(LOGLIKELIHOODS)
        url_preset = next(
            (candidate for candidate in PRESETS.values() if candidate.url == client.url), None
        )
        self.prompt_caching = prompt_caching
        self.service_tier = service_tier
        self._default_fields = url_preset.constraints if url_preset else self.usual_dialects
        self.states_cost = provider.states_cost or (
            url_preset is not None and url_preset.states_cost
        )
        super().__init__(client, frozenset(features))

    @override
    def key_part(self, request: Request) -> str:
        """Return the part of the cache key that depends on the decoding constraint's request field.

        A server may ignore an unknown field, so replies to requests with different fields need
        different keys. The result is the field's name, or "" without a constraint or for the
        default field at this URL, so that replies cached by earlier versions keep their keys.
        """
        constraint = request.decoding.constraint
        if not isinstance(constraint, DecodingConstraint):
            return ""
        field = self.preset.constraints.get(constraint.kind, "")
        return "" if field == self._default_fields.get(constraint.kind) else field

    @override
    def check_decoding(self, name: str, decoding: Decoding) -> None:
        """Check the decoding parameters, also for constraints that vLLM no longer knows.

        Raises:
            ConfigError: If the backend does not support a parameter.
        """
        super().check_decoding(name, decoding)
        if "regex" in self.features:
            check_constraint_names(decoding)

    def adapt_preset(self, preset: ProviderPreset) -> ProviderPreset:
        """Return a preset, adapted to the API endpoint that this backend calls."""
        return preset

    def body(self, request: Request) -> Mapping[str, Any]:
        body: dict[str, Any] = {"messages": request.messages}
        if request.decoding.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.decoding.logprobs}
        return body | self.parameters(request)

    def parameters(self, request: Request) -> dict[str, Any]:
        """Return the fields of a request's body except the messages, without unset ones."""
        decoding = request.decoding
        preset = self.preset
        fields: dict[str, Any] = {
            # 0: only the prompt's own tokens
            "prompt_logprobs": 0 if decoding.prompt_logprobs else None,
            "model": request.model,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            preset.max_tokens: decoding.max_tokens,
            "stop": list(decoding.stop) or None,
            "service_tier": self.service_tier,
            "n": 1 + len(request.others) if request.others else None,
        }
        if preset.seed:
            fields[preset.seed] = request.seed
        if isinstance(decoding.constraint, DecodingConstraint):
            fields |= _bodies.constraint_fields(decoding.constraint, preset.constraints)
        set_fields = {name: value for name, value in fields.items() if value is not None}
        return set_fields | dict(decoding.extra)


def divide_usage(usage: Usage | None, requests: Sequence[Request]) -> list[Usage | None]:
    """Divide the token counts of a joint call among its requests. The shares add up to the total.

    Input tokens are divided in proportion to the prompts' UTF-8 bytes, output tokens equally.
    ``usage`` and the shares are None if the counts are unknown.
    """
    if usage is None:
        return [None] * len(requests)
    sizes = []
    for request in requests:
        sizes.append(1 + sum(len(message.content.encode()) for message in request.messages))
    return [*usage.split(sizes)]
