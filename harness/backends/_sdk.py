"""The client of a vendor's SDK, as the backends use it.

The SDK gives its authentication and transport. It builds the first request to a path; later ones
are copies with another body, sent by the same HTTP client: half the CPU time of the SDK's
`post`, and a quarter of that of its typed methods (scripts/bench_calls.py). The SDK's own retries
are off.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from harness.backends._http import HttpClient

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Request, Response

OWN_HOSTS = ("api.openai.com", "api.anthropic.com")
CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


class SDKClient(HttpClient):
    """A client of one server, by a vendor's SDK.

    Args:
        vendor: Whose SDK.
        url: The server's base URL.
        key_variable: The environment variable that holds the key; None to send none.
        secret: Gives a secret by its variable's name.
        options: As `HttpClient` takes them.

    Raises:
        ConfigError: The URL is not valid, or holds a password.
        SecretMissing: The variable is not set.
    """

    def __init__(
        self,
        vendor: Literal["openai", "anthropic"],
        url: str,
        key_variable: str | None,
        *,
        secret: Callable[[str], str],
        **options: Any,
    ) -> None:
        key = secret(key_variable) if key_variable else ""
        super().__init__(url, key=key, key_variable=key_variable, **options)
        self._vendor = vendor
        self._key = key
        self._first: dict[str, Request] = {}

    @cached_property
    def _sdk(self) -> ModuleType:
        return import_module(self._vendor)  # takes a third of a second: only when it is needed

    @cached_property
    def http(self) -> AsyncClient:
        """The SDK's own HTTP client, on aiohttp."""
        client: AsyncClient = self._sdk.DefaultAioHttpClient(**self.options())
        return client

    @cached_property
    def _client(self) -> Any:
        client = getattr(self._sdk, CLIENTS[self._vendor])(
            api_key=self._key or "none",
            base_url=self.url,
            max_retries=0,
            default_headers=self.headers,
            http_client=self.http,
        )
        if urlsplit(self.url).hostname not in OWN_HOSTS:
            # The SDKs add what they find in the environment: not for other hosts.
            client._custom_headers = self.headers
            client.organization = client.project = None
        return client

    async def send(self, path: str, content: bytes) -> Response:
        """The answer to a JSON body; raises the exceptions of the SDK or its transport."""
        from httpx2 import ByteStream, Request, Response

        first = self._first.get(path)
        if first is None:
            response: Response = await self._client.post(path, content=content, cast_to=Response)
            self._first[path] = (*response.history, response)[0].request
            return response
        headers = first.headers.copy()
        headers["Content-Length"] = str(len(content))
        stream = ByteStream(content)
        request = Request(
            "POST", first.url, headers=headers, stream=stream, extensions=first.extensions
        )
        request.read()
        return await self.http.send(request)
