"""HTTP clients that authenticate by a vendor's SDK or with the credentials of a cloud.

A cloud's own library finds the credentials, as for its command-line tools
(https://google.aip.dev/auth/4110 for Google). They are not written to disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from harness.backends._http import HttpClient
from harness.backends._responses import exception_treatment
from harness.errors import FatalCallError, TransientError, import_extra

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from httpx2 import Request as HttpRequest

VENDOR_HOSTS = ("api.openai.com", "api.anthropic.com")
CLIENT_CLASSES = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


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
            self._context = replace(self._context, url_hint=_url_hint(self.url))
        self._vendor = vendor
        self._templates: dict[str, HttpRequest] = {}

    @cached_property
    def http(self) -> AsyncClient:
        sdk = import_module(self._vendor)  # takes a third of a second, so only when needed
        client: AsyncClient = sdk.DefaultAioHttpClient(**self.client_options())
        return client

    def _client(self, http: AsyncClient) -> Any:
        client = getattr(import_module(self._vendor), CLIENT_CLASSES[self._vendor])(
            api_key=self._context.key or "none",
            base_url=self.base,
            default_query=self.query,
            max_retries=0,
            default_headers=self.headers,
            timeout=self._timeout_s,
            http_client=http,
        )
        if urlsplit(self.url).hostname not in VENDOR_HOSTS:
            # The SDKs add headers from the environment; never send those to other hosts.
            client._custom_headers = self.headers
            client.organization = client.project = None
        return client

    async def authentication_headers(self) -> dict[str, str]:
        request = await self._sdk_request("/")
        excluded = {"host", "content-length", "content-type"}
        return {name: value for name, value in request.headers.items() if name not in excluded}

    async def _sdk_request(self, path: str) -> HttpRequest:
        """Return a request to a path as the SDK builds it, without the SDK's telemetry."""
        from httpx2 import AsyncClient, MockTransport, Response

        client = self._client(AsyncClient(transport=MockTransport(lambda _: Response(200))))
        response: Response = await client.post(path, content=b"{}", cast_to=Response)
        request = response.request
        for name in list(request.headers):
            if name.startswith("x-stainless-"):  # the SDK's telemetry, 3% of a call's CPU time
                del request.headers[name]
        request.extensions["timeout"] = self.http.timeout.as_dict()
        return request

    async def prepare_request(self, path: str, content: bytes) -> HttpRequest:
        from httpx2 import ByteStream, Request

        if path not in self._templates:
            self._templates[path] = await self._sdk_request(path)
        template = self._templates[path]
        headers = template.headers.copy()
        headers["Content-Length"] = str(len(content))
        request = Request(
            "POST",
            template.url,
            headers=headers,
            stream=ByteStream(content),
            extensions=template.extensions,
        )
        request.read()
        return request


def _url_hint(url: str) -> str:
    """Return a hint for fixing an OpenAI-compatible server's base URL, or "" if it looks right."""
    path = urlsplit(url).path.strip("/")
    for ending in ("chat/completions", "completions", "responses"):
        if path.endswith(ending):
            return f"Remove /{ending} from the end of model.base_url."
    return "" if path else f"Did you mean {url.rstrip('/')}/v1?"


ENTRA_SCOPE = "https://cognitiveservices.azure.com/.default"
RENEWAL_MARGIN_S = 300.0  # a token of Entra ID is renewed this long before it expires


@contextlib.contextmanager
def convert_cloud_errors(cloud: str, remedy: str) -> Iterator[None]:
    """In a ``with`` block, convert exceptions of a cloud's library to CallErrors.

    ``cloud`` is the cloud's name in the message, and ``remedy`` says how to log in.
    """
    try:
        yield
    except Exception as error:
        if (treatment := exception_treatment(error)) is None:
            raise
        problem = f"{cloud}: {type(error).__name__}: {str(error)[:300]}"
        # Google's library marks transient errors of its token server.
        if treatment == "fatal" and not getattr(error, "retryable", False):
            raise FatalCallError(problem, remedy) from None
        raise TransientError(problem, kind="unreachable") from None


class TokenClient(HttpClient):
    """A client that sends an access token and renews it before it expires.

    Args:
        url: The server's base URL.
        options: The options of `HttpClient`.
    """

    library: tuple[str, str]  # the module that fetches tokens, and the extra that installs it

    def __init__(self, url: str, **options: Any) -> None:
        import_extra(*self.library)  # reported before the first call if missing
        super().__init__(url, **options)
        self._lock = asyncio.Lock()

    async def authentication_headers(self) -> dict[str, str]:
        """Return the headers to send with each request, including a token that is still valid.

        Raises:
            CallError: If no token can be obtained.
        """
        async with self._lock:
            if not self.has_valid_token():
                token = await asyncio.to_thread(self.fetch_token)
                self._set_context(replace(self._context, key=token, key_variable=None))
        return await super().authentication_headers()

    @abstractmethod
    def has_valid_token(self) -> bool:
        """Return whether the client has a token that it need not renew yet."""

    @abstractmethod
    def fetch_token(self) -> str:
        """Fetch a new access token. Called in a thread, because it may use the network.

        Raises:
            CallError: If no token can be obtained.
        """


class EntraClient(TokenClient):
    """A client that sends an access token of Microsoft Entra ID, for Azure OpenAI."""

    library = "azure.identity", "azure"
    _credential: Any = None
    _expires_at = 0.0

    def has_valid_token(self) -> bool:
        return time.time() < self._expires_at - RENEWAL_MARGIN_S

    def fetch_token(self) -> str:
        identity = import_extra(*self.library)
        with convert_cloud_errors("Entra ID", "Log in: az login."):
            self._credential = self._credential or identity.DefaultAzureCredential()
            access = self._credential.get_token(ENTRA_SCOPE)
        self._expires_at = access.expires_on
        token: str = access.token
        return token
