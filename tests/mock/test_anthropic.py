"""What Anthropic tells beside a body."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from harness.mock.anthropic import AnthropicMessages
from harness.mock.wire import Headers, Level, Unit


def level(unit: Unit, limit: int, reset_s: float = 0.0) -> Level:
    return Level(unit, limit, used=40, wanted=0, wait_s=0.0, reset_s=reset_s)


def told(headers: Headers, unit: str) -> list[str]:
    found = {name.decode(): value.decode() for name, value in headers}
    names = [f"anthropic-ratelimit-{unit}-{part}" for part in ("limit", "remaining", "reset")]
    return [found[name] for name in names if name in found]


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def test_resets_are_moments() -> None:
    before = datetime.now(UTC)
    headers = AnthropicMessages().headers("req", [level("requests", 100, reset_s=30)])
    limit, remaining, reset = told(headers, "requests")
    after = datetime.now(UTC)
    assert (limit, remaining) == ("100", "60")
    wait = timedelta(seconds=30)
    assert before + wait <= moment(reset) <= after + wait + timedelta(seconds=1)


def test_tokens_are_input_and_output_where_they_have_no_limit_of_their_own() -> None:
    vendor = AnthropicMessages()
    apart = [level("input tokens", 100, reset_s=5), level("output tokens", 200, reset_s=50)]
    headers = vendor.headers("req", apart)
    assert told(headers, "tokens")[:2] == ["300", "220"]
    assert told(headers, "tokens")[2] == told(headers, "output-tokens")[2]
    assert told(vendor.headers("req", [*apart, level("tokens", 250)]), "tokens")[0] == "250"
    assert told(vendor.headers("req", apart[:1]), "tokens") == []


def test_waiting_is_told_in_whole_seconds() -> None:
    headers = AnthropicMessages().headers("req", [], retry_after=5.6)
    assert headers == [(b"request-id", b"req"), (b"retry-after", b"6")]
