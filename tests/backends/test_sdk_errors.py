"""A new exception in a later SDK must be looked at, not met by surprise."""

import inspect
from importlib import import_module
from types import ModuleType

import pytest

from harness.backends._sdk_errors import translated
from harness.errors import CallError, FatalCallError, Overloaded, TransientError

STATUSES = {
    "openai": {
        "APIStatusError", "AuthenticationError", "BadRequestError", "ConflictError",
        "InternalServerError", "NotFoundError", "OAuthError", "PermissionDeniedError",
        "RateLimitError", "UnprocessableEntityError",
    },
    "anthropic": {
        "APIStatusError", "AuthenticationError", "BadRequestError", "ConflictError",
        "InternalServerError", "NotFoundError", "OverloadedError", "PaymentRequiredError",
        "PermissionDeniedError", "RateLimitError", "RequestTimeoutError",
        "UnprocessableEntityError",
    },
}  # fmt: skip
CONNECTIONS = {"APIConnectionError", "APITimeoutError"}


def exceptions(sdk: ModuleType) -> dict[str, type[Exception]]:
    base = getattr(sdk, "OpenAIError", None) or sdk.AnthropicError
    found = {}
    for name in dir(sdk):
        kind = getattr(sdk, name)
        if inspect.isclass(kind) and issubclass(kind, base):
            found[name] = kind
    return found


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_every_exception_of_an_sdk_comes_out_as_one_of_ours(vendor: str) -> None:
    import httpx2

    sdk = import_module(vendor)
    kinds = exceptions(sdk)
    assert STATUSES[vendor] | CONNECTIONS <= kinds.keys()
    request = httpx2.Request("POST", "http://x/v1")
    for name, kind in kinds.items():
        if issubclass(kind, sdk.APIStatusError):
            status = getattr(kind, "status_code", 418)
            response = httpx2.Response(status if isinstance(status, int) else 418, request=request)
            error: Exception = kind.__new__(kind)
            error.response, error.body, error.message = response, None, "said"  # type: ignore[attr-defined]
            error.status_code = response.status_code  # type: ignore[attr-defined]
        elif issubclass(kind, sdk.APIConnectionError):
            error = kind(request=request)
        else:
            try:
                error = kind("said")
            except TypeError:
                error = kind.__new__(kind)
        with pytest.raises(CallError) as caught, translated(sdk, "http://x", "m", "KEY", "sk-1"):
            raise error
        assert caught.value.message, name
        if name == "OverloadedError":
            assert isinstance(caught.value, Overloaded)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, FatalCallError), (402, FatalCallError), (403, FatalCallError), (404, FatalCallError),
     (408, TransientError), (409, TransientError), (429, TransientError), (499, TransientError),
     (500, TransientError), (504, TransientError), (529, TransientError),
     (400, CallError), (412, CallError), (413, CallError), (418, CallError), (422, CallError)],
)  # fmt: skip
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_statuses_are_fatal_transient_or_neither(
    vendor: str, status: int, kind: type[CallError]
) -> None:
    import httpx2

    sdk = import_module(vendor)
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://x/v1"))
    with pytest.raises(CallError) as caught, translated(sdk, "http://x", "m", "KEY", ""):
        raise sdk.APIStatusError("said", response=response, body=None)
    family = next(
        (k for k in (FatalCallError, TransientError) if isinstance(caught.value, k)), CallError
    )
    assert family is kind
