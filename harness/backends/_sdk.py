"""One vendor's asynchronous client, as the backends use it.

The SDK gives its authentication, transport and errors. It builds the first
request to a path; later ones are copies with another body, sent by the same
HTTP client: half the CPU time of the SDK's `post`, a quarter of its typed
methods (scripts/bench_calls.py). The SDK's own retries are off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from ipaddress import ip_address
from ssl import SSLError
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from harness.backends._allowances import OnAllowances, allowances
from harness.backends._sdk_errors import translated
from harness.errors import ConfigError, MalformedReply

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Headers, Request, Response

OWN_HOSTS = ("api.openai.com", "api.anthropic.com")
CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}

TELLING_S = 0.1
"""Seconds between two readings of the rate limits in good answers: headers are slow to read."""

_encode = msgspec.json.Encoder().encode


class SDKClient:
    """A client of one server.

    vendor: whose SDK.
    url: the server's base URL.
    key_variable: the environment variable that holds the key, None to send none.
    secret: gives a secret by its variable's name.
    concurrency: connections to hold.
    timeout_s: seconds for connecting and reading.
    headers: sent with every request.
    on_allowances: is told what the provider says of its rate limits.

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
        on_allowances: OnAllowances | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = _checked(url)
        self._vendor = vendor
        self._key_variable = key_variable
        self._key = secret(key_variable) if key_variable else ""
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._headers = dict(headers or {})
        self._on_allowances = on_allowances
        self._clock = clock
        self._told_at = float("-inf")
        self._first: dict[str, Request] = {}

    @cached_property
    def _sdk(self) -> ModuleType:
        return import_module(self._vendor)  # a third of a second: only when it is needed

    @cached_property
    def _http(self) -> AsyncClient:
        from httpx2 import Limits, Timeout

        most = self._concurrency
        client: AsyncClient = self._sdk.DefaultAioHttpClient(
            limits=Limits(max_connections=most, max_keepalive_connections=most),
            timeout=Timeout(self._timeout_s, connect=min(self._timeout_s / 2, 10.0)),
            mounts=past_proxies(self.url),
        )
        return client

    @cached_property
    def _client(self) -> Any:
        client = getattr(self._sdk, CLIENTS[self._vendor])(
            api_key=self._key or "none",
            base_url=self.url,
            max_retries=0,
            default_headers=self._headers,
            http_client=self._http,
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
        sdk = self._sdk
        with translated(sdk, self.url, model, self._key_variable, self._key):
            try:
                response = await self._answer(path, _encode(body))
            except sdk.APIStatusError as error:
                if error.status_code == 429:
                    self._tell(error.response.headers)
                raise
        if self._on_allowances and abs(self._clock() - self._told_at) >= TELLING_S:
            self._tell(response.headers)
        return response.content

    async def _answer(self, path: str, content: bytes) -> Response:
        """A successful answer.

        Raises: the SDK's exceptions.
        """
        from httpx2 import ByteStream, Request, RequestError, Response, TimeoutException

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
        try:
            response = await self._http.send(request)
        except TimeoutException as error:
            raise self._sdk.APITimeoutError(request=request) from error
        except (RequestError, SSLError) as error:
            raise self._sdk.APIConnectionError(request=request) from error
        if not response.is_success:
            raise self._client._make_status_error_from_response(response)
        return response

    def _tell(self, headers: Headers) -> None:
        self._told_at = self._clock()
        if self._on_allowances and (found := allowances(headers, self._told_at)):
            self._on_allowances(found)

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


def past_proxies(url: str) -> dict[str, None]:
    """What has an HTTP client reach this machine itself, and not through ``http_proxy``'s."""
    host = urlsplit(url).hostname or ""
    try:
        here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        here = False
    return {f"all://[{host}]" if ":" in host else f"all://{host}": None} if here else {}


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
