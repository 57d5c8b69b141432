"""HTTP for backends: a client that raises the harness's errors, and a base class."""

from __future__ import annotations

import contextlib
import re
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import structs
from typing_extensions import override

from harness.backends import _responses
from harness.config.settings import (
    HASHED_KEY_PREFIX,
    certificates_error,
    check_network,
    mask_url_keys,
    url_keys,
)
from harness.errors import CallError, ConfigError, FatalCallError, RequestRejected, TransientError
from harness.ports import Backend
from harness.records import FINISH_REASONS, Message, PromptCut, Reply, Request

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import AsyncClient, Response
    from httpx2 import Request as HttpRequest

RATE_LIMITS_INTERVAL_S = 0.1  # between reads of rate limits, except in a 429, to save CPU time
MAX_REPLY_MB = 64.0  # maximum body size of an answer, decompressed, in 10^6 bytes
MAX_ERROR_BYTES = 1_000_000  # that are read of an error's body
MIN_BYTES_PER_S = 10_000  # of a body, after a call's time limit
MAX_REDIRECTS = 5
# Of a reply.
TEXT_FIELDS = ("text", "finish_reason", "model", "reasoning", "reasoning_state", "tier")
MAX_CLEAN_NAMES = 1_000  # cached names of models and finish reasons that contain no key
MIN_KEY_LENGTH = 8  # characters; a shorter key is a placeholder (``EMPTY``) or a word: not masked

# What reading a hostile body may raise.
DECODE_ERRORS = (msgspec.MsgspecError, ValueError, LookupError, RecursionError)

FindCut = Callable[[Sequence[Message]], PromptCut | None]
"""Returns where the beginning that a prompt shares with others ends, or None if it shares none."""

encode = msgspec.json.Encoder().encode


def _header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys and tokens in headers, without a scheme such as ``Bearer``."""
    for name, value in headers.items():
        secret = value.rpartition(" ")[2]
        if len(secret) >= MIN_KEY_LENGTH and re.search(
            "auth|key|token|secret", name, re.IGNORECASE
        ):
            yield secret


class HttpClient:
    """An HTTP client for the server at ``url``.

    The server is not trusted: the size of bodies is limited, redirects to other servers are refused
    by default, and the API key is masked in responses.

    Args:
        url: The server's base URL. A query, such as ``?api-version=1``, is sent with each request.
        key: API key, or "" to send none. It is masked in errors and, unless it is shorter than 8
            characters, in answers.
        key_header: The header that carries the key (default: it is sent as a bearer token).
        key_variable: The environment variable that holds the key, for error messages.
        headers: Additional headers to send. The values of those that carry a key or token are
            masked like ``key``.
        concurrency: Maximum number of connections.
        timeout_s: A call's time limit in seconds, which the caller of `post` enforces. Connecting
            may take at most half of it, and at most 10 s.
        reply_mb: Maximum size of an answer's decompressed body in MB.
        on_allowances: Called with the rate limits that the provider reports.
        clock: Returns the current Unix time.

    Raises:
        ConfigError: If the URL is invalid, or may contain a secret. Or if the URL of a proxy is
            invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        key_header: str | None = None,
        key_variable: str | None = None,
        headers: Mapping[str, str] | None = None,
        concurrency: int = 20,
        timeout_s: float = 600,
        reply_mb: float = MAX_REPLY_MB,
        on_allowances: _responses.OnAllowances | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_network()
        self.url = _check_url(url)
        self.base, _, query = self.url.partition("?")
        self.query = dict(parse_qsl(query))
        self.headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._reply_mb = reply_mb
        self.max_bytes = reply_mb * 1e6
        self._shown_url = mask_url_keys(self.url)
        secrets = (*_header_secrets(self.headers), *url_keys(self.url))
        self._set_context(_responses.CallContext(self._shown_url, "", key_variable, key, secrets))
        self._key_header = key_header
        self._on_allowances = on_allowances
        self._clock = clock
        self._limits_read_at = float("-inf")

    def _set_context(self, context: _responses.CallContext) -> None:
        """Set the context of all calls, with the secrets to mask in answers."""
        self._context = context
        self._clean_names: set[str] = set()  # that contain no secret
        self._masked_secrets = tuple(
            secret for secret in context.all_secrets if len(secret) >= MIN_KEY_LENGTH
        )

    def add_headers(self, headers: Mapping[str, str], secrets: Iterable[str]) -> None:
        """Add headers to all requests. The ``secrets`` in them are masked like the key."""
        self.headers |= headers
        self._set_context(replace(self._context, secrets=(*self._context.secrets, *secrets)))

    @cached_property
    def http(self) -> AsyncClient:
        from httpx2 import AsyncClient

        return AsyncClient(**self.client_options())

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments for creating an httpx2 client."""
        from httpx2 import Limits, Timeout

        connections = self._concurrency
        limits = Limits(max_connections=connections, max_keepalive_connections=connections)
        # No time limit for reading: after the process was suspended, it would expire before the
        # answers that have arrived are read.
        timeout = Timeout(None, connect=min(self._timeout_s / 2, 10.0))
        mounts = proxy_bypass(self.url)
        return {"limits": limits, "timeout": timeout, "mounts": mounts, "verify": tls_context()}

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        model: str = "",
        text_so_far: Callable[[bytes], str] = lambda content: "",
    ) -> bytes:
        """Post a JSON body to a path, and return the body of the response.

        Args:
            path: The path, relative to the base URL.
            body: The value to send as JSON.
            model: The model's name, for error messages.
            text_so_far: Returns the answer's text in an incomplete body. If the connection breaks,
                the text of the body so far is attached to the error as ``partial``.

        Raises:
            CallError: If the call fails.
        """
        parts: list[bytes] = []
        try:
            with self.convert_errors(model):
                response = await self._send(await self.prepare_request(path, encode(body)))
                try:
                    async for part in self._iter_limited_chunks(response):
                        parts.append(part)
                finally:
                    await response.aclose()
        except CallError as error:
            error.partial = text_so_far(self.mask_bytes(b"".join(parts)))
            raise
        content = self.mask_bytes(b"".join(parts))
        self._report_rate_limits(response)
        if not response.is_success:
            raise self._status_error(response, content, model)
        return content

    def _report_rate_limits(self, response: Response) -> None:
        """Pass the rate limits in a response's headers to ``on_allowances``, if it is time to."""
        now = self._clock()
        if response.status_code == 429 or abs(now - self._limits_read_at) >= RATE_LIMITS_INTERVAL_S:
            self._limits_read_at = now
            allowances = _responses.read_allowances(response.headers, now)
            if allowances and self._on_allowances:
                self._on_allowances(allowances)

    @contextlib.contextmanager
    def convert_errors(self, model: str = "") -> Iterator[None]:
        """In a ``with`` block, convert exceptions of the transport or an SDK to CallErrors."""
        try:
            yield
        except Exception as error:
            call_error = _responses.sdk_error(error, replace(self._context, model=model))
            if call_error is None:
                raise
            raise call_error from None

    def _status_error(self, response: Response, content: bytes, model: str) -> CallError:
        context = replace(self._context, model=model)
        return _responses.status_error(response.status_code, response.headers, content, context)

    async def prepare_request(self, path: str, content: bytes) -> HttpRequest:
        headers = {"content-type": "application/json", **await self.authentication_headers()}
        return self.build_request(path, content, headers)

    def build_request(self, path: str, content: bytes, headers: Mapping[str, str]) -> HttpRequest:
        url = self.base + path
        return self.http.build_request(
            "POST", url, content=content, headers=headers, params=self.query or None
        )

    async def authentication_headers(self) -> dict[str, str]:
        """Return the headers to send with each request, including the key or token."""
        headers = dict(self.headers)
        if self._key_header and self._context.key:
            headers[self._key_header] = self._context.key
        elif self._context.key:
            headers["authorization"] = f"Bearer {self._context.key}"
        return headers

    @contextlib.asynccontextmanager
    async def open_response(
        self, method: str, url: str, *, model: str = "", elsewhere: bool = False, **options: Any
    ) -> AsyncIterator[Response]:
        """Send a request about files or batches, and yield the response before its body is read.

        Args:
            method: The HTTP method.
            url: A path, or the URL of another path of the server.
            model: The model, for error messages.
            elsewhere: Whether to follow a redirect to another server, without the key.
            options: The content, parameters, files or further headers of the request, as arguments
                of ``httpx2.AsyncClient.build_request``.

        Raises:
            CallError: If the request fails, or reading the body in the ``with`` block does.
        """
        with self.convert_errors(model):
            headers = await self.authentication_headers() | options.pop("headers", {})
            options["timeout"] = self._timeout_s
            if url.startswith("/"):
                url = self.base + url
                options["params"] = self.query | options.get("params", {}) or None
            request = self.http.build_request(method, url, headers=headers, **options)
            if _origin(request) != _origin(self.http.build_request("GET", self.url)):
                raise FatalCallError(f"{self._shown_url} names another server, {_origin(request)}.")
            response = await self._send(request, elsewhere=elsewhere)
            try:
                if not response.is_success:
                    raise self._status_error(response, await self.read_body(response), model)
                yield response
            finally:
                await response.aclose()

    async def _send(self, request: HttpRequest, *, elsewhere: bool = False) -> Response:
        """Send a request, and return the response before its body is read.

        Redirects are followed. One to another server is followed only if ``elsewhere``, and without
        the request's headers.
        """
        for _ in range(MAX_REDIRECTS):
            response = await self.http.send(request, stream=True, follow_redirects=False)
            if (target := response.next_request) is None:
                return response
            await response.aclose()
            if elsewhere and _origin(target) != _origin(request):
                target = self.http.build_request("GET", target.url)
            elif _origin(target) != _origin(request):
                problem = (
                    f"{self._shown_url} redirects to another server, {_origin(target)}: refused."
                )
                remedy = "Set model.base_url to that server if you trust it with prompts and key."
                raise FatalCallError(problem, remedy)
            request = target
        raise FatalCallError(f"{self._shown_url} redirects in a loop.", "Check model.base_url.")

    async def read_body(self, response: Response) -> bytes:
        """Read the body of a response and mask the key. Of an error, only the beginning is read.

        Raises:
            RequestRejected: If the body of a successful response is too large.
        """
        return self.mask_bytes(
            b"".join([part async for part in self._iter_limited_chunks(response)])
        )

    async def _iter_limited_chunks(self, response: Response) -> AsyncIterator[bytes]:
        """Yield the chunks of a body up to its maximum size, without masking the key."""
        remaining_bytes = self.max_bytes if response.is_success else MAX_ERROR_BYTES
        async for part in self.iter_chunks(response):
            yield part
            remaining_bytes -= len(part)
            if remaining_bytes < 0 and response.is_success:
                raise self.too_large_error()
            if remaining_bytes < 0:
                break

    async def iter_chunks(self, response: Response) -> AsyncIterator[bytes]:
        """Yield the chunks of a body as they arrive, without masking the key.

        Raises:
            TransientError: If the body takes longer than a call's time limit, and arrives at less
                than `MIN_BYTES_PER_S`. Otherwise, a trickling body would never end.
        """
        started = time.monotonic()
        size = 0
        async for part in response.aiter_bytes():
            size += len(part)
            if time.monotonic() - started > self._timeout_s + size / MIN_BYTES_PER_S:
                raise TransientError(f"An answer of {self._shown_url} comes too slowly.")
            yield part

    def too_large_error(self) -> CallError:
        """Return the error for an answer with more than ``most_bytes`` bytes."""
        problem = f"An answer of {self._shown_url} has more than {self._reply_mb:g} MB: not read."
        error = RequestRejected(problem, "Raise limits.reply_mb if it is genuine.")
        error.billed = True
        return error

    def mask_bytes(self, content: bytes) -> bytes:
        """Return a body with the API key and other secrets masked."""
        for key in self._masked_secrets:
            content = content.replace(key.encode(), _responses.MASK.encode())
        return content

    def mask_reply(self, reply: Reply) -> Reply:
        """Return a reply with the API key masked, even where JSON escapes hid it."""
        changes: dict[str, Any] = {}
        if reply.others:
            joint_replies = reply.others.items()
            changes["others"] = {sample: self.mask_reply(joint) for sample, joint in joint_replies}
        for name in TEXT_FIELDS:
            text = getattr(reply, name)
            if text and any(key in text for key in self._masked_secrets):
                changes[name] = self.mask_text(text)
        changes |= self._mask_names(reply)
        return structs.replace(reply, **changes) if changes else reply

    def _mask_names(self, reply: Reply) -> dict[str, str]:
        """Return the changed names in a reply, with the key and parts of it masked as in errors."""
        masked: dict[str, str] = {}
        for field, name in (("finish_reason", reply.finish_reason), ("model", reply.model)):
            if not name or name in FINISH_REASONS or name in self._clean_names:
                continue
            context = replace(self._context, key="", secrets=self._masked_secrets)
            masked_name = context.mask_secrets(name)
            if masked_name != name:
                masked[field] = masked_name
            elif len(self._clean_names) < MAX_CLEAN_NAMES:
                self._clean_names.add(name)
        return masked

    def mask_text(self, text: str) -> str:
        """Return text with the API key and other secrets masked."""
        for key in self._masked_secrets:
            text = text.replace(key, _responses.MASK)
        return text

    def malformed_error(self, content: bytes, error: Exception, model: str = "") -> CallError:
        """Return the error for a body that lacks an answer.

        It is the failure that the body reports or, if it reports none, ``error``, the exception
        from reading it.
        """
        reported_error = _responses.body_error(content, replace(self._context, model=model))
        if reported_error is not None:
            return reported_error
        beginning = self._context.mask_secrets(content[:2000].decode(errors="replace"))[:200]
        problem = f"The answer of {self._shown_url} is malformed ({error}): {beginning!r}"
        return TransientError(problem, kind="malformed")

    def entry_error(self, status: int, body: object, model: str) -> CallError:
        """Return the error for a failure that an entry of a batch or stream reports.

        ``status`` is its HTTP status, and ``body`` the error object.
        """
        return _responses.status_error(status, {}, body, replace(self._context, model=model))

    async def aclose(self) -> None:
        if "http" in self.__dict__:
            await self.http.aclose()


class HttpBackend(Backend):
    """A backend that sends one POST request per call."""

    cacheable = True
    path = ""
    ready = False

    def __init__(self, client: HttpClient, features: frozenset[str]) -> None:
        self.client = client
        self.endpoint = client.url
        self.features = features

    @abstractmethod
    def body(self, request: Request) -> Mapping[str, Any]:
        """Return the JSON body to send for a request."""

    @abstractmethod
    def reply(self, content: bytes, request: Request) -> Reply:
        """Return the answer in the body of a successful response.

        If the body is malformed, implementations raise one of the exceptions in `DECODE_ERRORS`.

        Raises:
            CallError: If the body reports that there is no answer.
        """

    def path_for(self, request: Request) -> str:
        return self.path

    @override
    async def start(self, on_status: Callable[[str], None]) -> None:
        """Import the HTTP library, so that no rate limit counts a call long before it is sent."""
        self.client.http  # noqa: B018 (importing what it needs takes up to half a second)
        self.ready = True

    async def generate(self, request: Request) -> Reply:
        content = await self.client.post(self.path_for(request), self.body(request), request.model)
        return self.decode_reply(content, request)

    def decode_reply(self, content: bytes, request: Request) -> Reply:
        """Return the answer in a body, with the API key masked.

        Raises:
            CallError: If the body is malformed, or reports that there is no answer.
        """
        try:
            return self.client.mask_reply(self.reply(content, request))
        except CallError as error:
            error.message = self.client.mask_text(error.message)
            error.args = (error.message,)
            raise
        except DECODE_ERRORS as error:
            raise self.client.malformed_error(content, error, request.model) from None

    @override
    async def aclose(self) -> None:
        await self.client.aclose()


@cache
def tls_context() -> SSLContext:
    """Return the TLS context, which all clients share: reading certificates takes 30 ms.

    Raises:
        ConfigError: If the certificates that an environment variable names cannot be loaded.
    """
    from httpx2 import create_ssl_context

    try:
        return create_ssl_context()
    except OSError:
        raise certificates_error() from None


def proxy_bypass(url: str) -> dict[str, None]:
    """Return the httpx2 mounts that bypass proxies for a local URL ({} for another URL)."""
    host = urlsplit(url).hostname or ""
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        return {}
    return {f"all://[{host}]" if ":" in host else f"all://{host}": None}


def _origin(request: HttpRequest) -> str:
    url = request.url
    return f"{url.scheme}://{url.netloc.decode()}"


def _check_url(url: str) -> str:
    """Return a base URL without a final slash, or raise ConfigError if it is invalid or secret."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid IPv6 address or port
        is_valid = False
    if not is_valid:
        problem = f"model.base_url: {url!r} is not a valid URL."
        remedy = "Write it like http://localhost:8000/v1."
        if variable := re.search(r"\$\{?(\w+)", url):
            override = f"-o model.base_url=${variable[1]}"
            remedy = f"A run file has no environment variables. On the command line: {override}…"
        raise ConfigError(problem, remedy)
    if HASHED_KEY_PREFIX in url:
        problem = "model.base_url was recorded without the key in its path."
        raise ConfigError(problem, "State it again, in the run file or with -o model.base_url=….")
    has_secret = re.search("key|token|secret|auth|sig|code|pass", parts.query, re.IGNORECASE)
    if parts.username or parts.password or has_secret or parts.fragment:
        problem = f"model.base_url: the URL of {parts.hostname} has a password, key or fragment."
        remedy = "Secrets do not belong in run files: name a variable in model.api_key_env."
        raise ConfigError(problem, remedy)
    query = f"?{parts.query}" if parts.query else ""
    return url.partition("?")[0].rstrip("/") + query
