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

HEADERS_EVERY_S = 0.1  # between reads of rate limits (always read in a 429), to save CPU time
REPLY_MB = 64.0  # maximum body size of an answer, decompressed, in 10^6 bytes
ERROR_BYTES = 1_000_000  # maximum bytes read of an error's body
SLOWEST = 10_000  # bytes per second of a body that takes longer than a call may
REDIRECTS = 5
TEXTS = ("text", "finish_reason", "model", "reasoning", "reasoning_state", "tier")  # of a reply
MOST_NAMES = 1_000  # of models and finish reasons that are known to hold no key
LEAST_KEY = 8  # characters; a shorter key is a placeholder (``EMPTY``) or a word, and not masked

# What reading a hostile body may raise.
UNREADABLE = (msgspec.MsgspecError, ValueError, LookupError, RecursionError)

FindCut = Callable[[Sequence[Message]], PromptCut | None]
"""Returns the end of the beginning that a prompt shares with others, or None if it shares none."""

encode = msgspec.json.Encoder().encode


def _secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys and tokens in headers, without a scheme such as ``Bearer``."""
    for name, value in headers.items():
        secret = value.rpartition(" ")[2]
        if len(secret) >= LEAST_KEY and re.search("auth|key|token|secret", name, re.IGNORECASE):
            yield secret


class HttpClient:
    """An HTTP client for the server at ``url``.

    It trusts the server as little as possible: the size of bodies is limited, redirects to other
    servers are refused by default, and the API key is masked in the server's responses.

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
            may take half of it, but at most 10 s.
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
        reply_mb: float = REPLY_MB,
        on_allowances: _responses.OnAllowances | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_network()
        self.url = _checked(url)
        self.base, _, query = self.url.partition("?")
        self.query = dict(parse_qsl(query))
        self.headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._reply_mb = reply_mb
        self.most_bytes = reply_mb * 1e6
        self._shown = mask_url_keys(self.url)
        secrets = (*_secrets(self.headers), *url_keys(self.url))
        self._set_context(_responses.CallContext(self._shown, "", key_variable, key, secrets))
        self._key_header = key_header
        self._on_allowances = on_allowances
        self._clock = clock
        self._read_at = float("-inf")

    def _set_context(self, context: _responses.CallContext) -> None:
        """Set the context of all calls, whose secrets are masked in answers."""
        self._context = context
        self._clean: set[str] = set()  # names that hold no secret
        self._keys = tuple(secret for secret in context.all_secrets if len(secret) >= LEAST_KEY)

    def add_headers(self, headers: Mapping[str, str], secrets: Iterable[str]) -> None:
        """Send further headers. The ``secrets`` in their values are masked like the key."""
        self.headers |= headers
        self._set_context(replace(self._context, secrets=(*self._context.secrets, *secrets)))

    @cached_property
    def http(self) -> AsyncClient:
        from httpx2 import AsyncClient

        return AsyncClient(**self.options())

    def options(self) -> dict[str, Any]:
        """Return keyword arguments for an httpx2 client."""
        from httpx2 import Limits, Timeout

        connections = self._concurrency
        limits = Limits(max_connections=connections, max_keepalive_connections=connections)
        # Without a time limit for reading: if the process was suspended, that would fire before the
        # answers that arrived meanwhile are read.
        timeout = Timeout(None, connect=min(self._timeout_s / 2, 10.0))
        proxies = past_proxies(self.url)
        return {"limits": limits, "timeout": timeout, "mounts": proxies, "verify": certificates()}

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        model: str = "",
        text_so_far: Callable[[bytes], str] = lambda content: "",
    ) -> bytes:
        """Post a JSON body to a path, and return the body of the response.

        Rate limits in the headers are passed to ``on_allowances`` (see `HEADERS_EVERY_S`).

        Args:
            path: The path.
            body: The value to send as JSON.
            model: The model, for error messages.
            text_so_far: Returns the answer's text in the part of a body that has arrived. If the
                connection breaks, the text is attached to the error as ``partial``.

        Raises:
            CallError: If the call fails.
        """
        parts: list[bytes] = []
        try:
            with self.converting(model):
                response = await self._send(await self.request(path, encode(body)))
                try:
                    async for part in self._parts(response):
                        parts.append(part)
                finally:
                    await response.aclose()
        except CallError as error:
            error.partial = text_so_far(self.without_key(b"".join(parts)))
            raise
        content = self.without_key(b"".join(parts))
        now = self._clock()
        if response.status_code == 429 or abs(now - self._read_at) >= HEADERS_EVERY_S:
            self._read_at = now
            allowances = _responses.allowances(response.headers, now)
            if allowances and self._on_allowances:
                self._on_allowances(allowances)
        if not response.is_success:
            raise self._refusal(response, content, model)
        return content

    @contextlib.contextmanager
    def converting(self, model: str = "") -> Iterator[None]:
        """Convert exceptions of the transport or an SDK to CallErrors."""
        try:
            yield
        except Exception as error:
            failure = _responses.from_sdk(error, replace(self._context, model=model))
            if failure is None:
                raise
            raise failure from None

    def _refusal(self, response: Response, content: bytes, model: str) -> CallError:
        context = replace(self._context, model=model)
        return _responses.from_status(response.status_code, response.headers, content, context)

    async def request(self, path: str, content: bytes) -> HttpRequest:
        headers = {"content-type": "application/json", **await self.authentication()}
        return self.build_request(path, content, headers)

    def build_request(self, path: str, content: bytes, headers: Mapping[str, str]) -> HttpRequest:
        url = self.base + path
        return self.http.build_request(
            "POST", url, content=content, headers=headers, params=self.query or None
        )

    async def authentication(self) -> dict[str, str]:
        """Return the headers that each request has, with the key or token."""
        headers = dict(self.headers)
        if self._key_header and self._context.key:
            headers[self._key_header] = self._context.key
        elif self._context.key:
            headers["authorization"] = f"Bearer {self._context.key}"
        return headers

    @contextlib.asynccontextmanager
    async def opened(
        self, method: str, url: str, *, model: str = "", elsewhere: bool = False, **parts: Any
    ) -> AsyncIterator[Response]:
        """Send a request about files or batches, and yield the response before its body is read.

        Args:
            method: The HTTP method.
            url: A path, or the URL of another path of the server.
            model: The model, for error messages.
            elsewhere: Whether to follow a redirect to another server, without the key.
            parts: The content, parameters, files or further headers of the request, as arguments
                of ``httpx2.AsyncClient.build_request``.

        Raises:
            CallError: If the request fails, or reading the body in the ``with`` block does.
        """
        with self.converting(model):
            headers = await self.authentication() | parts.pop("headers", {})
            parts["timeout"] = self._timeout_s
            if url.startswith("/"):
                url = self.base + url
                parts["params"] = self.query | parts.get("params", {}) or None
            request = self.http.build_request(method, url, headers=headers, **parts)
            if _origin(request) != _origin(self.http.build_request("GET", self.url)):
                raise FatalCallError(f"{self._shown} names another server, {_origin(request)}.")
            response = await self._send(request, elsewhere=elsewhere)
            try:
                if not response.is_success:
                    raise self._refusal(response, await self.body(response), model)
                yield response
            finally:
                await response.aclose()

    async def _send(self, request: HttpRequest, *, elsewhere: bool = False) -> Response:
        """Send a request, and return the response without reading its body.

        Only with ``elsewhere`` are redirects to other servers followed, without any headers.
        """
        for _ in range(REDIRECTS):
            response = await self.http.send(request, stream=True, follow_redirects=False)
            if (target := response.next_request) is None:
                return response
            await response.aclose()
            if elsewhere and _origin(target) != _origin(request):
                target = self.http.build_request("GET", target.url)
            elif _origin(target) != _origin(request):
                problem = f"{self._shown} redirects to another server, {_origin(target)}: refused."
                remedy = "Set model.base_url to that server if you trust it with prompts and key."
                raise FatalCallError(problem, remedy)
            request = target
        raise FatalCallError(f"{self._shown} redirects in a loop.", "Check model.base_url.")

    async def body(self, response: Response) -> bytes:
        """Return the body of a response without the key, or only the beginning of an error.

        Raises:
            RequestRejected: If the body of a successful response is too large.
        """
        return self.without_key(b"".join([part async for part in self._parts(response)]))

    async def _parts(self, response: Response) -> AsyncIterator[bytes]:
        """Yield the parts of what `body` returns, with the key."""
        left = self.most_bytes if response.is_success else ERROR_BYTES
        async for part in self.parts(response):
            yield part
            left -= len(part)
            if left < 0 and response.is_success:
                raise self.too_large()
            if left < 0:
                break

    async def parts(self, response: Response) -> AsyncIterator[bytes]:
        """Yield the parts of a body as they arrive, with the key.

        Raises:
            TransientError: If after a call's time limit they have come more slowly than `SLOWEST`:
                a body that trickles would never end.
        """
        started = time.monotonic()
        size = 0
        async for part in response.aiter_bytes():
            size += len(part)
            if time.monotonic() - started > self._timeout_s + size / SLOWEST:
                raise TransientError(f"An answer of {self._shown} comes too slowly.")
            yield part

    def too_large(self) -> CallError:
        """Return the error for an answer with more than ``most_bytes`` bytes."""
        problem = f"An answer of {self._shown} has more than {self._reply_mb:g} MB: not read."
        error = RequestRejected(problem, "Raise limits.reply_mb if it is genuine.")
        error.billed = True
        return error

    def without_key(self, content: bytes) -> bytes:
        for key in self._keys:
            content = content.replace(key.encode(), _responses.MASK.encode())
        return content

    def masked(self, reply: Reply) -> Reply:
        """Return a reply with the API key masked, even where JSON escapes hid it."""
        if reply.others:
            others = {
                number: self.masked(joint_reply) for number, joint_reply in reply.others.items()
            }
            return structs.replace(self.masked(structs.replace(reply, others={})), others=others)
        masked: dict[str, str] = {}
        for name in TEXTS:
            text = getattr(reply, name)
            if text and any(key in text for key in self._keys):
                masked[name] = self.mask(text)
        # Names are shown like errors, and are no answers: parts of the key are masked as well.
        names = {"finish_reason": reply.finish_reason, "model": reply.model}
        for name, text in names.items():
            if text and text not in FINISH_REASONS and text not in self._clean:
                context = replace(self._context, key="", secrets=self._keys)
                masked[name] = context.without_key(text)
                if masked[name] == text and len(self._clean) < MOST_NAMES:
                    self._clean.add(text)
        return structs.replace(reply, **masked) if masked else reply

    def mask(self, text: str) -> str:
        """Return text with the API key and other secrets masked."""
        for key in self._keys:
            text = text.replace(key, _responses.MASK)
        return text

    def malformed(self, content: bytes, error: Exception, model: str = "") -> CallError:
        """Return the error for a body without an answer, which may report a failure itself."""
        failure = _responses.from_body(content, replace(self._context, model=model))
        if failure is not None:
            return failure
        beginning = self._context.without_key(content[:2000].decode(errors="replace"))[:200]
        problem = f"The answer of {self._shown} is malformed ({error}): {beginning!r}"
        return TransientError(problem, kind="malformed")

    def entry_error(self, status: int, body: object, model: str) -> CallError:
        """Return the error for a failure in a batch or stream."""
        return _responses.from_status(status, {}, body, replace(self._context, model=model))

    async def aclose(self) -> None:
        if "http" in self.__dict__:
            await self.http.aclose()


class HttpBackend(Backend):
    """A backend that makes each call with one POST request."""

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

        If the body is malformed, implementations raise one of the exceptions in `UNREADABLE`.

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
        return self.decoded(content, request)

    def decoded(self, content: bytes, request: Request) -> Reply:
        """Return the answer in a body, without the API key.

        Raises:
            CallError: If the body is malformed, or reports that there is no answer.
        """
        try:
            return self.client.masked(self.reply(content, request))
        except CallError as error:
            error.message = self.client.mask(error.message)
            error.args = (error.message,)
            raise
        except UNREADABLE as error:
            raise self.client.malformed(content, error, request.model) from None

    @override
    async def aclose(self) -> None:
        await self.client.aclose()


@cache
def certificates() -> SSLContext:
    """Return the TLS settings. All clients share them, since reading certificates takes 30 ms.

    Raises:
        ConfigError: If the certificates that an environment variable names cannot be loaded.
    """
    from httpx2 import create_ssl_context

    try:
        return create_ssl_context()
    except OSError:
        raise certificates_error() from None


def past_proxies(url: str) -> dict[str, None]:
    """Return httpx2 mounts that bypass proxies if the URL is local, else {}."""
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


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid IPv6 address or port
        usable = False
    if not usable:
        problem = f"model.base_url: {url!r} is not a valid URL."
        remedy = "Write it like http://localhost:8000/v1."
        if variable := re.search(r"\$\{?(\w+)", url):
            override = f"-o model.base_url=${variable[1]}"
            remedy = f"A run file has no environment variables. On the command line: {override}…"
        raise ConfigError(problem, remedy)
    if HASHED_KEY_PREFIX in url:
        problem = "model.base_url was recorded without the key in its path."
        raise ConfigError(problem, "State it again, in the run file or with -o model.base_url=….")
    secret = re.search("key|token|secret|auth|sig|code|pass", parts.query, re.IGNORECASE)
    if parts.username or parts.password or secret or parts.fragment:
        problem = f"model.base_url: the URL of {parts.hostname} has a password, key or fragment."
        remedy = "Secrets do not belong in run files: name a variable in model.api_key_env."
        raise ConfigError(problem, remedy)
    query = f"?{parts.query}" if parts.query else ""
    return url.partition("?")[0].rstrip("/") + query
