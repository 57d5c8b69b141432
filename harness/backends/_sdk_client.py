"""An HTTP client that uses a vendor's SDK for authentication and transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from harness.backends._http import HttpClient

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from httpx2 import Request as HttpRequest

OWN_HOSTS = ("api.openai.com", "api.anthropic.com")
CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


class SDKClient(HttpClient):
    """A client of one server that uses a vendor's SDK for authentication and transport.

    It sends copies of one request per path, a fraction of the CPU time of the SDK's own methods.

    Args:
        vendor: The SDK's package.
        url: The server's base URL.
        key_variable: The environment variable that holds the API key, or None to send none.
        secret: Returns the value of an environment variable.
        options: The options of `HttpClient`.
    """

    def __init__(
        self,
        vendor: Literal["openai", "anthropic"],
        url: str,
        key_variable: str | None,
        secret: Callable[[str], str],
        **options: Any,
    ) -> None:
        key = secret(key_variable) if key_variable else ""
        super().__init__(url, key=key, key_variable=key_variable, **options)
        if vendor == "openai":
            self._asked = replace(self._asked, url_hint=_url_hint(self.url))
        self._vendor = vendor
        self._first: dict[str, HttpRequest] = {}

    @cached_property
    def http(self) -> AsyncClient:
        sdk = import_module(self._vendor)  # takes a third of a second, so only when needed
        client: AsyncClient = sdk.DefaultAioHttpClient(**self.options())
        return client

    def _client(self, http: AsyncClient) -> Any:
        client = getattr(import_module(self._vendor), CLIENTS[self._vendor])(
            api_key=self._asked.key or "none",
            base_url=self.base,
            default_query=self.query,
            max_retries=0,
            default_headers=self.headers,
            timeout=self._timeout_s,
            http_client=http,
        )
        if urlsplit(self.url).hostname not in OWN_HOSTS:
            # The SDKs add headers from the environment; never send those to other hosts.
            client._custom_headers = self.headers
            client.organization = client.project = None
        return client

    async def authentication(self) -> dict[str, str]:
        built = await self._built("/")
        of_body = {"host", "content-length", "content-type"}
        return {name: value for name, value in built.headers.items() if name not in of_body}

    async def _built(self, path: str) -> HttpRequest:
        from httpx2 import AsyncClient, MockTransport, Response

        client = self._client(AsyncClient(transport=MockTransport(lambda _: Response(200))))
        built: Response = await client.post(path, content=b"{}", cast_to=Response)
        for name in list(built.request.headers):
            if name.startswith("x-stainless-"):  # the SDK's telemetry, 3% of a call's CPU time
                del built.request.headers[name]
        built.request.extensions["timeout"] = self.http.timeout.as_dict()
        return built.request

    async def request(self, path: str, content: bytes) -> HttpRequest:
        from httpx2 import ByteStream, Request

        if path not in self._first:
            self._first[path] = await self._built(path)
        first = self._first[path]
        headers, stream = first.headers.copy(), ByteStream(content)
        headers["Content-Length"] = str(len(content))
        extra = first.extensions
        request = Request("POST", first.url, headers=headers, stream=stream, extensions=extra)
        request.read()
        return request


def _url_hint(url: str) -> str:
    """Return a hint for fixing an OpenAI-compatible server's base URL, or "" if it looks right."""
    path = urlsplit(url).path.strip("/")
    for end in ("chat/completions", "completions", "responses"):
        if path.endswith(end):
            return f"Remove /{end} from the end of model.base_url."
    return "" if path else f"Did you mean {url.rstrip('/')}/v1?"
