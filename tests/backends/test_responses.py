"""Failed calls, by status and by exception; rate limits, as servers state them."""

from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends._responses import (
    MAX_RATE_LIMIT,
    MAX_RESET_S,
    CallContext,
    exception_error,
    parse_duration,
    read_allowances,
    status_error,
)
from harness.errors import (
    AccessDenied,
    CallError,
    FatalCallError,
    PromptTooLong,
    RequestRejected,
    TransientError,
)
from harness.records import Allowance

ASKED = CallContext("http://x", "m", "KEY", "sk-1")


@pytest.mark.parametrize("kind", ["openai.OpenAIError", "anthropic.AnthropicError"])
def test_a_client_that_cannot_be_built_ends_the_run_without_its_key(kind: str) -> None:
    vendor, _, name = kind.partition(".")
    error = exception_error(getattr(import_module(vendor), name)("no key sk-1"), ASKED)
    assert isinstance(error, FatalCallError)
    assert "sk-1" not in str(error)


def test_any_error_of_the_transport_is_transient() -> None:
    import httpx2

    lost = exception_error(httpx2.RemoteProtocolError("gone"), ASKED)
    assert isinstance(lost, TransientError)
    assert lost.kind == "connection_lost"
    late = exception_error(httpx2.ReadTimeout("late"), ASKED)
    assert isinstance(late, TransientError)
    assert late.kind == "timed_out"


def test_an_exception_of_the_program_is_none_of_these() -> None:
    assert exception_error(ZeroDivisionError(), ASKED) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, AccessDenied), (402, FatalCallError), (403, AccessDenied), (404, AccessDenied),
     (408, "interrupted"), (409, "server_failed"), (429, "rate_limited"), (499, "interrupted"),
     (500, "server_failed"), (504, "interrupted"), (529, "overloaded"), (599, "server_failed"),
     (400, RequestRejected), (412, RequestRejected), (413, PromptTooLong),
     (418, RequestRejected), (422, RequestRejected)],
)  # fmt: skip
def test_each_status_has_its_treatment(status: int, kind: type[CallError] | str) -> None:
    for body in (b"", "said", {"error": {"message": "said"}}, {"message": "said"}):
        error = status_error(status, {}, body, ASKED)
        found = error.kind if isinstance(error, TransientError) else type(error)
        assert found == kind
        assert f"http://x answered {status}: " in error.message


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Bill"),
     (400, "You have reached your specified API usage limits. You will regain access on"),
     (429, "Too many tokens per day, please wait before trying again."),
     (403, "Your team x has either used all available credits or reached its monthly spending "
           "limit."),
     (429, "litellm.RateLimitError: RateLimitError: OpenAIException - You exceeded your current "
           "quota, please check your plan and billing details.")],
)  # fmt: skip
def test_an_account_that_is_used_up_ends_the_run(status: int, message: str) -> None:
    error = status_error(status, {}, {"error": {"message": message}}, ASKED)
    assert type(error) is FatalCallError
    assert message in error.message
    assert error.remedy


def test_googles_limits_a_minute_are_no_used_up_account() -> None:
    message = "You exceeded your current quota, please check your plan and billing details."
    error = status_error(429, {}, {"error": {"message": message}}, ASKED)
    assert error.kind == "rate_limited"


def test_a_model_that_a_gateway_does_not_know_is_no_rejected_prompt() -> None:
    message = "/chat/completions: Invalid model name passed in model=nosuch. Call `/v1/models`"
    error = status_error(400, {}, {"error": {"message": message}}, ASKED)
    assert type(error) is AccessDenied
    assert "answered 400" in error.message
    assert "model.name" in error.remedy


@pytest.mark.parametrize(
    "detail",
    [{"message": "no", "code": "context_length_exceeded"},
     {"message": "no", "type": "request_too_large"},
     {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000"},
     {"message": "prompt is too long: 213462 tokens > 200000 maximum"},
     {"message": "Input is too long for requested model."},
     {"message": "The input token count (1196265) exceeds the maximum number of tokens allowed"},
     {"message": "the request exceeds the available context size, try increasing it"},
     {"message": "Please reduce the length of the messages or completion."}],
)  # fmt: skip
def test_a_prompt_that_is_too_long_is_known_as_such(detail: dict[str, str]) -> None:
    assert type(status_error(400, {}, {"error": detail}, ASKED)) is PromptTooLong


NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("6m0s", 360), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("7.66s", 7.66), ("1d", 86400),
     ("1m30.951s", 90.951), ("59", 59), ("0.5", 0.5), ("0s", 0), ("1h", 3600), ("1s20ms", 1.02)],
)  # fmt: skip
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["soon", "-1s", "1s2h", "s", "", "1..5s", "1e3", "inf", "nan", "١s", "+1", " 1s", "9" * 41],
)
def test_what_is_no_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


def test_openais_headers() -> None:
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "29970",
        "x-ratelimit-reset-tokens": "60ms",
    }
    assert read_allowances(headers, NOW) == (
        Allowance("requests", 500, 499, 0.12),
        Allowance("tokens", 30_000, 29_970, 0.06),
    )


def test_anthropics_headers() -> None:
    headers = {}
    for name in ("requests", "tokens", "input-tokens", "output-tokens"):
        headers[f"anthropic-ratelimit-{name}-limit"] = "4000"
        headers[f"anthropic-ratelimit-{name}-remaining"] = "0"
        headers[f"anthropic-ratelimit-{name}-reset"] = "2027-01-15T08:00:10Z"
    units = ("requests", "tokens", "input_tokens", "output_tokens")
    assert read_allowances(headers, NOW) == tuple(Allowance(unit, 4000, 0, 10.0) for unit in units)
    past = headers | {"anthropic-ratelimit-requests-reset": "2027-01-15T07:59:50Z"}
    assert read_allowances(past, NOW)[0].reset_s == 0


def test_a_longer_windows_limit_is_not_one_for_a_minute() -> None:
    groq = {
        "x-ratelimit-limit-requests": "14400",
        "x-ratelimit-remaining-requests": "14370",
        "x-ratelimit-reset-requests": "2m59.56s",
        "x-ratelimit-limit-tokens": "18000",
        "x-ratelimit-remaining-tokens": "17997",
        "x-ratelimit-reset-tokens": "7.66s",
    }
    assert read_allowances(groq, NOW) == (
        Allowance("requests", None, 14_370, 179.56),
        Allowance("tokens", 18_000, 17_997, 7.66),
    )


def test_nothing_told_is_nothing() -> None:
    assert read_allowances({}, NOW) == ()
    assert read_allowances({"x-ratelimit-limit": "10", "retry-after": "3"}, NOW) == ()


@pytest.mark.parametrize("odd", ["", "many", "-1", "1.5", "1e9", "inf", "9" * 17, "9" * 5000, "١"])
def test_an_odd_count_is_left_out(odd: str) -> None:
    headers = {"x-ratelimit-limit-tokens": odd, "x-ratelimit-remaining-tokens": "7"}
    assert read_allowances(headers, NOW) == (Allowance("tokens", None, 7),)


@pytest.mark.parametrize(
    "odd",
    ["", "soon", "-1s", "1760000000", "9999-12-31T23:59:59Z", "2027-01-15T08:00:10", "99999d",
     "0001-01-01T00:00:00+23:59"],
)  # fmt: skip
def test_an_odd_reset_is_left_out(odd: str) -> None:
    headers = {"x-ratelimit-limit-tokens": "7", "x-ratelimit-reset-tokens": odd}
    found = read_allowances(headers, NOW)
    assert found in ((Allowance("tokens", 7),), (Allowance("tokens", 7, None, 0.0),))


@given(st.text() | st.from_regex(r"[0-9.]+(d|h|m|s|ms)?([0-9]+(d|h|m|s|ms))?", fullmatch=True))
def test_no_header_is_believed_beyond_all_bounds(text: str) -> None:
    headers = {f"x-ratelimit-{what}-requests": text for what in ("limit", "remaining", "reset")}
    for told in read_allowances(headers, NOW):
        assert 0 <= (told.limit or 0) <= MAX_RATE_LIMIT
        assert 0 <= (told.remaining or 0) <= MAX_RATE_LIMIT
        assert 0 <= (told.reset_s or 0) <= MAX_RESET_S
