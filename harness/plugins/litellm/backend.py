"""LiteLLM, for providers that have no other backend. A model's name begins with the provider's.

    model: {backend: litellm, name: replicate/meta/meta-llama-4}

LiteLLM translates requests and replies, so prefer the other backends, which know more about them.
LiteLLM's own retries, cache and telemetry are off.
Source: https://docs.litellm.ai/docs/completion/input.
"""

from collections.abc import Callable
from typing import Any

from harness.backends import DECODE_ERRORS, responses
from harness.backends.openai import ChatReplies
from harness.config.settings import check_network, mask_url_keys, temporary_variables
from harness.errors import TransientError, import_extra
from harness.plugin import Backend
from harness.records import Reply, Request


class LiteLLMBackend(ChatReplies, Backend):
    """LiteLLM's chat completions, for providers that have no other backend.

    Args:
        base_url: The base URL (default: the provider's).
        api_key_env: The key's environment variable (default: LiteLLM reads the provider's own).
    """

    cacheable = True
    features = frozenset({"temperature", "top_p", "max_tokens", "stop", "extra", "conversation"})

    def __init__(
        self,
        base_url: str | None = None,
        api_key_env: str | None = None,
        *,
        secret: Callable[[str], str],
        timeout_s: float,
    ) -> None:
        check_network()
        with temporary_variables(LITELLM_LOCAL_MODEL_COST_MAP="True"):  # no download of prices
            self._litellm = import_extra("litellm", "litellm")
        self._litellm.telemetry = False
        self._litellm.cache = None
        self._litellm.suppress_debug_info = True
        key = secret(api_key_env) if api_key_env else ""
        self.endpoint = base_url or ""
        self._asked = responses.CallContext(
            mask_url_keys(base_url or "LiteLLM"), "", api_key_env, key
        )
        self._options = {"base_url": base_url, "api_key": key or None, "timeout": timeout_s}

    async def generate(self, request: Request) -> Reply:
        decoding = request.decoding
        sent: dict[str, Any] = {
            "model": request.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
            "stop": list(decoding.stop) or None,
            **self._options,
        }
        parameters = {name: value for name, value in sent.items() if value is not None}
        fixed = {"num_retries": 0, "max_retries": 0, "caching": False, "drop_params": False}
        try:
            answer = await self._litellm.acompletion(**parameters, **fixed, **decoding.extra)
        except Exception as error:
            if (
                call_error := responses.sdk_error(_lost_connection(error) or error, self._asked)
            ) is None:
                raise
            raise call_error from None
        content: str = answer.model_dump_json()
        if self._asked.key:
            content = content.replace(self._asked.key, responses.MASK)
        try:
            return self.reply(content.encode(), request)
        except DECODE_ERRORS as error:
            problem = f"LiteLLM's answer is malformed: {error}"
            raise TransientError(problem, kind="malformed") from None


def _lost_connection(error: Exception) -> Exception | None:
    """Return the connection error that LiteLLM reports as status 500, if there is one."""
    link: BaseException | None = error
    while link is not None and type(link).__name__ != "APIConnectionError":
        link = link.__cause__ or link.__context__
    return link if isinstance(link, Exception) else None
