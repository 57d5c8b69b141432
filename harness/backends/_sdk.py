"""One vendor's asynchronous client, as the backends use it.

Requests go through the SDK's `post`, which gives its authentication, transport
and errors without building its response objects: three times the requests a
second of its typed methods. The SDK's own retries are off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

from harness.backends._sdk_errors import translated
from harness.errors import ConfigError, MalformedReply

OWN_HOSTS = ("api.openai.com", "api.anthropic.com")
CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


class SDKClient:
    """A client of one server.

    vendor: whose SDK.
    url: the server's base URL.
    key_variable: the environment variable that holds the key, None to send none.
    secret: gives a secret by its variable's name.
    concurrency: connections to hold.
    timeout_s: seconds for connecting and reading.
    headers: sent with every request.

    Raises: ConfigError for a URL that is none, or that holds a password; SecretMissing.
    """

    def __init__(
        self,
        vendor: Literal["openai", "anthropic"],
        url: str,
        key_variable: str | None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.url = _checked(url)
        self._vendor = vendor
        self._key_variable = key_variable
        self._key = secret(key_variable) if key_variable else ""
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._headers = dict(headers or {})

    @cached_property
    def _sdk(self) -> ModuleType:
        return import_module(self._vendor)  # a third of a second: only when it is needed

    @cached_property
    def _client(self) -> Any:
        from httpx2 import Limits, Timeout

        most = self._concurrency
        client = getattr(self._sdk, CLIENTS[self._vendor])(
            api_key=self._key or "none",
            base_url=self.url,
            max_retries=0,
            default_headers=self._headers,
            http_client=self._sdk.DefaultAioHttpClient(
                limits=Limits(max_connections=most, max_keepalive_connections=most),
                timeout=Timeout(self._timeout_s, connect=min(self._timeout_s / 2, 10.0)),
            ),
        )
        if urlsplit(self.url).hostname not in OWN_HOSTS:
            # The SDKs add what they find in the environment: not for other hosts.
            client._custom_headers = self._headers
            client.organization = client.project = None
        return client

    async def post(self, path: str, body: Mapping[str, Any], model: str) -> bytes:
        """The body of a successful answer.

        model: what a message calls the model.

        Raises: a `harness.errors.CallError`.
        """
        from httpx2 import Response

        with translated(self._sdk, self.url, model, self._key_variable, self._key):
            response = await self._client.post(path, body=body, cast_to=Response)
            content: bytes = response.content
        return content

    def malformed(self, content: bytes, error: Exception) -> MalformedReply:
        """What a body is that is not what the protocol promises; shows how it begins."""
        begin = content.decode(errors="replace")
        if self._key:
            begin = begin.replace(self._key, "***")
        return MalformedReply(f"The answer of {self.url} is malformed ({error}): {begin[:200]!r}")

    async def close(self) -> None:
        """Close the connections; nothing where none were made."""
        if "_client" in self.__dict__:
            await self._client.close()


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an IPv6 address or a port that is none
        usable = False
    if not usable:
        raise ConfigError(
            f"model.base_url: {url!r} is no URL.", "Write it like http://localhost:8000/v1."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            f"model.base_url: the URL of {parts.hostname} holds more than a host and a path.",
            "Secrets do not belong in run files: name a variable in model.api_key_env.",
        )
    return url.rstrip("/")
