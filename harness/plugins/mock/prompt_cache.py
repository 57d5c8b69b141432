"""The prompt cache of a provider, as Anthropic describes it.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

import time

from msgspec.structs import replace

from harness.plugins.mock.wire import MockRequest, count_tokens

LIFETIME_S = 300.0
LEAST_TOKENS = 1024  # a shorter beginning is not kept; some models need more


class PromptCache:
    """The marked beginnings of prompts, each kept for five minutes after its last use."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def with_cached_tokens(self, request: MockRequest) -> MockRequest:
        """Keep a request's marked beginning, and return the request with cached tokens counted.

        A beginning with fewer than `LEAST_TOKENS` tokens is not kept. Call this when the answer is
        sent: a beginning becomes available only then.
        """
        tokens = count_tokens(request.marked)
        if tokens < LEAST_TOKENS:
            return request
        key, now = (request.model, request.marked), time.monotonic()
        kept = self._until.get(key, 0.0) > now
        self._until[key] = now + LIFETIME_S
        return replace(request, cache_read=tokens * kept, cache_write=tokens * (not kept))
