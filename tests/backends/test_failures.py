"""A new exception in a later SDK must be looked at, not met by surprise."""

import inspect
from importlib import import_module

import pytest

from harness.backends._responses import (
    EXCEPTIONS,
    STATUSES,
    CallContext,
    from_exception,
    from_status,
)
from harness.errors import CallError, FatalCallError, RequestRejected, TransientError

ASKED = CallContext("http://x", "m", "KEY", "sk-1")


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_every_exception_of_an_sdk_has_a_counterpart(vendor: str) -> None:
    sdk = import_module(vendor)
    base = getattr(sdk, "OpenAIError", None) or sdk.AnthropicError
    kinds = {kind for _, kind in inspect.getmembers(sdk, inspect.isclass) if issubclass(kind, base)}
    assert {"APIStatusError", "APIConnectionError", "APITimeoutError"} <= {
        kind.__name__ for kind in kinds
    }
    by_status = {kind for kind in kinds if issubclass(kind, sdk.APIStatusError)}
    by_cause = {kind for kind in kinds if issubclass(kind, sdk.APIConnectionError)}
    assert {kind.__name__ for kind in kinds - by_status - by_cause} <= EXCEPTIONS.keys()
    statuses = {getattr(kind, "status_code", None) for kind in by_status}
    assert {status for status in statuses if isinstance(status, int)} <= STATUSES.keys()


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_an_exception_of_an_sdk_comes_out_as_one_of_ours(vendor: str) -> None:
    import httpx2

    sdk = import_module(vendor)
    request = httpx2.Request("POST", "http://x/v1")
    response = httpx2.Response(529, request=request, headers={"retry-after": "7"})
    busy = from_exception(sdk.APIStatusError("busy", response=response, body=None), ASKED)
    assert isinstance(busy, TransientError)
    assert (busy.kind, busy.retry_after) == ("overloaded", 7)
    lost = from_exception(sdk.APIConnectionError(request=request), ASKED)
    assert isinstance(lost, TransientError)
    assert lost.kind == "connection_lost"
    base = getattr(sdk, "OpenAIError", None) or sdk.AnthropicError
    assert isinstance(from_exception(base("no key sk-1"), ASKED), FatalCallError)
    assert "sk-1" not in str(from_exception(base("no key sk-1"), ASKED))
    assert from_exception(ZeroDivisionError(), ASKED) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, FatalCallError), (402, FatalCallError), (403, FatalCallError), (404, FatalCallError),
     (408, "interrupted"), (409, "server_failed"), (429, "rate_limited"), (499, "interrupted"),
     (500, "server_failed"), (504, "interrupted"), (529, "overloaded"), (599, "server_failed"),
     (400, RequestRejected), (412, RequestRejected), (413, RequestRejected),
     (418, RequestRejected), (422, RequestRejected)],
)  # fmt: skip
def test_each_status_has_its_treatment(status: int, kind: type[CallError] | str) -> None:
    for body in (b"", "said", {"error": {"message": "said"}}, {"message": "said"}):
        error = from_status(status, {}, body, ASKED)
        found = error.kind if isinstance(error, TransientError) else type(error)
        assert found == kind
        assert f"http://x answered {status}: " in error.message
