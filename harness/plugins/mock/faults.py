"""Faults and latencies, which are drawn for each request, and the connection that faults break.

A draw depends only on the seed, the request's model and body, and how many earlier requests had the
same model and body, so the order in which requests arrive has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from math import exp, inf
from pathlib import Path
from statistics import NormalDist

import msgspec

from harness.plugins.mock import wire
from harness.plugins.mock.wire import Headers, JsonObject, MockError, Turn

LATENCY_FORMS = "SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA"


def draw(seed: int, digest: str, attempt: int) -> tuple[float, float]:
    """Return two pseudo-random numbers in [0, 1), by seed, request and attempt."""
    noise = blake2b(f"{seed}:{digest}:{attempt}".encode(), digest_size=16).digest()
    return _share(noise[:8]), _share(noise[8:])


def _share(noise: bytes) -> float:
    # 53 bits: as many as a float holds, so that the result stays below 1.
    return (int.from_bytes(noise) >> 11) / (1 << 53)


Fault = str  # the name of a way to fail (docs/mock.md)
_NAMES = msgspec.yaml.decode(
    Path(__file__).with_name("faults.yaml").read_bytes(), type=dict[str, list[Fault]]
)
STATUSES = _NAMES["statuses"]
ANSWERS = _NAMES["answers"]
BATCH_FAULTS = _NAMES.pop("batches")
FAULTS = [name for names in _NAMES.values() for name in names]
DETAILS: Mapping[Fault, str] = {"finish": "", "error_body": "502", "error_in_choice": "502"}
"""Faults that take a detail, as in ``finish:REASON`` and ``error_body:CODE``, with the defaults."""
CACHED = 2  # input tokens
COST_USD = 0.125
_FINISH = {"finish_reason", "stop_reason", "finishReason", "stopReason"}


def altered(answer: JsonObject, fault: Fault | None, key: str) -> JsonObject:
    """Change an answer (a JSON object) as the fault says, and return it.

    ``key`` is the key that the client has sent.
    """
    name, _, detail = (fault or "").partition(":")
    if name == "key_in_finish":
        detail = key
    if name in _ALTERATIONS:
        _ALTERATIONS[name](answer, detail or DETAILS.get(name))
    return answer


def error_of(code: str | None) -> dict[str, object]:
    """Return the error object of a gateway whose provider has failed with an HTTP status."""
    return {"code": int(code or 500), "message": f"The upstream provider answered {code}."}


def _count(count: int) -> _Alteration:
    def alter(answer: JsonObject, _: str | None) -> None:
        usage = answer.get("usageMetadata") or answer["usage"]
        for name, value in usage.items():
            if isinstance(value, int):
                usage[name] = count

    return alter


def _add_usage(**usage: float) -> _Alteration:
    return lambda answer, _: answer.get("usage", {}).update(usage)


def _finish(answer: JsonObject, reason: str | None) -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in reason or "")
    for part in (answer, *answer.get("choices", ()), *answer.get("candidates", ())):
        part.update(dict.fromkeys(_FINISH & part.keys(), msgspec.Raw(f'"{escaped}"'.encode())))


def _in_choices(change: Callable[[JsonObject, str | None], object]) -> _Alteration:
    def alter(answer: JsonObject, detail: str | None) -> None:
        for choice in answer.get("choices", ()):
            change(choice, detail)

    return alter


def _think(choice: JsonObject, _: str | None) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me think."}]}
    answer = {"type": "text", "text": choice["message"]["content"]}
    choice["message"]["content"] = [thinking, answer]


def _withhold(choice: JsonObject, _: str | None) -> None:
    del choice["message"]
    choice["finish_reason"] = "content_filter"


_Alteration = Callable[[JsonObject, str | None], None]
_ALTERATIONS: Mapping[str, _Alteration] = {
    "usage_zero": _count(0),
    "usage_huge": _count(1_000_000),
    "usage_deepseek": _add_usage(prompt_cache_hit_tokens=CACHED),
    "usage_kimi": _add_usage(cached_tokens=CACHED),
    "usage_openrouter": _add_usage(cost=COST_USD),
    "finish": _finish,
    "key_in_finish": _finish,
    "other_model": lambda answer, _: answer.update(model=f"{answer.get('model')}-2026-11-01"),
    "no_choices": lambda answer, _: answer.update(choices=[]),
    "no_message": _in_choices(_withhold),
    "refused_completion": _in_choices(_withhold),
    "no_logprobs": _in_choices(lambda choice, _: choice.update(logprobs=None)),
    "error_in_choice": _in_choices(lambda choice, code: choice.update(error=error_of(code))),
    "thinking_parts": _in_choices(_think),
}
"""How answers are changed. The last six are for chat completions of OpenAI only."""


def damaged(
    fault: Fault, reply: bytes, headers: wire.Headers, elsewhere: bytes
) -> tuple[int, bytes]:
    """Return the status and body that a fault makes of an answer, and change its headers.

    ``elsewhere`` is the URL to redirect to.
    """
    name, _, detail = fault.partition(":")
    match name:
        case "invalid_json":
            reply = reply[: len(reply) // 2]
        case "error_body":
            reply = msgspec.json.encode({"error": error_of(detail or DETAILS[name])})
        case "html":
            reply = b"<html>Please log in.</html>"
        case "latin_1":
            reply = reply.decode().encode("latin-1")
            headers.append((b"content-type", b"application/json; charset=latin-1"))
        case "refused_completion":
            return 400, reply
        case "redirect":
            headers.append((b"location", elsewhere))
            return 307, b""
        case "huge_headers":
            headers += [(b"x-padding-%d" % n, b"x" * 4000) for n in range(1000)]
        case "gzip_bomb":
            reply = gzip_bomb(reply, headers)
    return 200, reply


def gzip_bomb(content: bytes, headers: wire.Headers) -> bytes:
    """Return a compressed body with 100 MB of spaces after the content, and add its header."""
    headers.append((b"content-encoding", b"gzip"))
    return zlib.compress(content + b" " * 100_000_000, wbits=zlib.MAX_WBITS | 16)


class FaultMix:
    """A mix of faults with their probabilities (``shares``).

    If there are ``texts``, only prompts that contain one of them meet faults.
    """

    def __init__(self, shares: Mapping[str, float], texts: Iterable[str] = ()) -> None:
        self.shares = dict(shares)
        self.texts = list(texts)
        self._bounds: list[tuple[float, Fault]] = []
        total = 0.0
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise MockError(f"The probability of fault {name} must be in 0..1, not {share}.")
            total += share
            self._bounds.append((total, _fault(name)))
        # Ten probabilities of 0.1 may add up to slightly more or less than 1.
        if total > 1 + 1e-9:
            raise MockError(f"The fault probabilities add up to {total:g}, which is more than 1.")

    def changed(self, shares: Mapping[str, float] | None, texts: Iterable[str] | None) -> FaultMix:
        """Return a mix with other shares or texts (None: the same)."""
        if shares is None:
            shares = self.shares
        if texts is None:
            texts = self.texts
        return FaultMix(shares, texts)

    def pick(self, number: float, turns: Sequence[Turn] = ()) -> Fault | None:
        """Return the fault that a uniform random number in [0, 1) selects for a prompt, if any."""
        prompt = "\0".join(turn.text for turn in turns)
        if self.texts and not any(text in prompt for text in self.texts):
            return None
        for bound, fault in self._bounds:
            if number < bound:
                return fault
        return None


def parse_shares(options: Iterable[str]) -> dict[str, float]:
    """Parse options ``NAME=PROBABILITY``. Return the probabilities by name."""
    shares = {}
    for option in options:
        name, _, share = option.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise MockError(f"Invalid fault {option!r}. Write NAME=PROBABILITY.") from None
    return shares


def _fault(name: str) -> Fault:
    fault, _, detail = name.partition(":")
    if fault in FAULTS and (fault in DETAILS or not detail):
        if fault != "finish" and detail and not re.fullmatch("[45][0-9]{2}", detail):
            raise MockError(f"Fault {name!r}: write an HTTP status of an error, as in {fault}:429.")
        if fault == "finish" and not detail:
            raise MockError("Fault 'finish': write the finish reason, as in finish:network_error.")
        return name
    close = get_close_matches(fault, FAULTS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Faults: {', '.join(FAULTS)}."
    raise MockError(f"Unknown fault {name!r}. {hint}")


class Latency:
    """A distribution of seconds, written in one of `LATENCY_FORMS`, such as ``uniform:0.1:0.5``."""

    def __init__(self, spec: float | str) -> None:
        self.spec = str(spec)
        shape, *numbers = self.spec.split(":")
        self._shape = shape if numbers else "constant"
        try:
            self._values = [float(number) for number in numbers or [self.spec]]
        except ValueError:
            self._values = []
        needed = {"constant": 1, "uniform": 2, "lognormal": 2}.get(self._shape)
        disordered = self._shape == "uniform" and self._values != sorted(self._values)
        valid = len(self._values) == needed and all(0 <= value < inf for value in self._values)
        if disordered or not valid:
            raise MockError(f"Invalid latency {self.spec!r}. Write {LATENCY_FORMS}.")

    def seconds(self, quantile: float) -> float:
        """Return the distribution's value at ``quantile`` (below 1), such as the median for 0.5."""
        first = self._values[0]
        second = self._values[-1]
        if self._shape == "uniform":
            return first + (second - first) * quantile
        if self._shape == "lognormal":
            return first * exp(second * NormalDist().inv_cdf(quantile)) if quantile else 0.0
        return first


Message = JsonObject  # each kind of ASGI message has its own keys
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

TRICKLE_S = 1.0  # seconds between a trickling answer's bytes: less than any client's read timeout
SPACES = b" " * 1_000_000

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Connection:
    """The connection of one ASGI request."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self._scope = scope
        # ASGI cannot reset or close a connection: `server._Protocol` passes its transport.
        self._transport: asyncio.Transport = scope["state"]["transport"]
        self._receive = receive
        self._send = send

    async def body(self) -> bytes | None:
        """Return the request's body, or None if the client disconnected while sending it."""
        event = await self._receive()
        body: bytes = event.get("body", b"")
        while event.get("more_body"):
            event = await self._receive()
            body += event.get("body", b"")
        return None if event["type"] == "http.disconnect" else body

    async def answer(self, status: int, body: bytes, headers: Headers) -> None:
        """Send a complete reply."""
        await self._start(status, len(body), headers)
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, length: int, headers: Headers, part: bytes) -> None:
        """Send status 200, headers for ``length`` bytes, and only a part of the body."""
        await self._start(200, length, headers)
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def flood(self, times: int) -> None:
        """Send up to ``times`` megabytes of spaces as the rest of the body."""
        for left in reversed(range(times)):
            await self._send({"type": "http.response.body", "body": SPACES, "more_body": left > 0})
            if self._transport.is_closing():
                return

    def elsewhere(self) -> bytes:
        """Return this request's URL with the other name of this host: localhost or 127.0.0.1."""
        by_name = dict(self._scope["headers"])[b"host"].startswith(b"localhost")
        host = "127.0.0.1" if by_name else "localhost"
        return f"http://{host}:{self._scope['server'][1]}{self._scope['path']}".encode()

    async def trickle(self, body: bytes, headers: Headers) -> None:
        """Send the body slowly, byte by byte except the last byte."""
        await self._start(200, len(body), headers)
        for offset in range(len(body) - 1):
            byte = body[offset : offset + 1]
            await self._send({"type": "http.response.body", "body": byte, "more_body": True})
            if await self.left_within(TRICKLE_S):
                return
        await self.gone()

    async def close(self) -> None:
        """Close the connection, and wait until the client has disconnected."""
        self._transport.close()
        await self.gone()

    async def reset(self) -> None:
        """Break the connection so that the client sees a connection reset."""
        raw = self._transport.get_extra_info("socket")
        if raw.fileno() >= 0:  # Otherwise the client has already left.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()
        await self.gone()

    async def gone(self) -> None:
        """Wait until the client has disconnected or the server is stopped."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def left_within(self, seconds: float) -> bool:
        """Return whether the client disconnects within ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.gone()
                return True
        return False

    async def _start(self, status: int, length: int, headers: Headers) -> None:
        required = [(b"content-length", b"%d" % length)]
        if all(name != b"content-type" for name, _ in headers):
            required.append((b"content-type", b"application/json"))
        start = {"type": "http.response.start", "status": status, "headers": required + headers}
        await self._send(start)
