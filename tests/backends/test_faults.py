"""Each error class of the SDKs has a row here: a new class fails until its treatment is decided."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from harness.backends._responses import (
    CODES,
    CallContext,
    exception_treatment,
    sdk_error,
    status_error,
)
from harness.errors import CallError, FatalCallError, PromptRefused, TransientError

ASKED = CallContext("http://x", "m", "KEY")


def treated(error: CallError | None) -> str:
    """The treatment of a failed call, as the tables name it."""
    if error is None:
        return "none"
    if isinstance(error, TransientError):
        return error.kind
    if isinstance(error, FatalCallError):
        return "fatal"
    return "filtered" if isinstance(error, PromptRefused) else "rejected"


def classes(*modules: str) -> Iterator[type[Exception]]:
    """The error classes that modules hold, each once, without warnings and Python's own."""
    found = [kind for name in modules for kind in vars(import_module(name)).values()]
    for kind in dict.fromkeys(one for one in found if inspect.isclass(one)):
        own = kind.__module__.partition(".")[0] == modules[0].partition(".")[0]
        if own and issubclass(kind, Exception) and not issubclass(kind, Warning):
            yield kind


def rows(table: Mapping[str, str]) -> dict[str, str]:
    return {name: treatment for treatment, names in table.items() for name in names.split()}


# Base classes and errors without a fixed status are left out of these two tables.
OPENAI = {
    "rejected": "BadRequestError UnprocessableEntityError",
    "none": "InvalidWebhookSignatureError",
    "fatal": """
        OpenAIError APIError AuthenticationError OAuthError PermissionDeniedError NotFoundError
        _AmbiguousModuleClientUsageError LengthFinishReasonError ContentFilterFinishReasonError
        WebSocketConnectionClosedError WebSocketQueueFullError
    """,
    "server_failed": "ConflictError InternalServerError",
    "rate_limited": "RateLimitError",
    "malformed": "APIResponseValidationError",
    "connection_lost": "APIConnectionError APITimeoutError",
}
ANTHROPIC = {
    "rejected": """
        BadRequestError PreconditionFailedError ContentTooLargeError UnprocessableEntityError
        RequestHeaderFieldsTooLargeError RequestBodyTooLargeAfterDecodingError
        RequestBodyEncodingInvalidError RequestBodyEncodingUnsupportedError
        BetaUnsupportedCharsetError ClaudeCodeVersionTooOldError ClaudeCodeKeyCreatorNotMemberError
        ToolNameConflictError ToolReferenceUnresolvedError AvailableToolsLimitExceededError
        FileNotDownloadableError StorageQuotaExceededError OrgMemberLimitExceededError
        ThreadAlreadyContinuedError ThreadContinueInFlightError ThreadFingerprintMismatchError
        ThreadUnsupportedRequestError CompactionBlockAmbiguousError CompactionBlockMisplacedError
        CompactionContentMismatchError CompactionIncompleteTurnError
        CompactionNothingToSummarizeError CompactionSignatureInvalidError
        CompactionToolChangesMismatchError CompactionTooManyToolReferencesError
        BetaRequestBodyTimeoutError
    """,
    "fatal": """
        AnthropicError APIError APIWebhookValidationError RetryableError CredentialsError
        IdentityTokenFileError WorkloadIdentityError AuthenticationError PaymentRequiredError
        PermissionDeniedError NotFoundError OrganizationOnHoldError
        OrganizationTypeNotSupportedError
        ParentOrganizationRequiredError CMEKKeyDisabledError CMEKKeyNetworkBlockedError
        LinkedOrganizationBillingUnavailableError LinkedOrganizationSpendLimitReachedError
        ContractSpendLimitReachedError EnforcedSpendLimitReachedError SandboxEgressRestrictedError
        UserProfileRequiredError UserProfileNotFoundError UserProfileNotBillableError
        UserProfileBillingNotAuthorizedError FileExpiredError ThreadNotFoundError
        RBACRoleNotFoundError BetaOrganizationNotEnrolledInBetaError
    """,
    "server_failed": """
        ConflictError ConcurrentMembershipChangeError SkillReadBlockedUndecryptableError
        InternalServerError HTTPNotImplementedError
    """,
    "rate_limited": "RateLimitError RampLimitExceededError",
    "overloaded": """
        ServiceUnavailableError OverloadedError CompactionUnavailableError CMEKKeyUnreachableError
        CMEKContextUnavailableError
    """,
    "interrupted": "RequestTimeoutError ClientClosedRequestError GatewayTimeoutError",
    "malformed": "APIResponseValidationError",
    "connection_lost": "APIConnectionError APITimeoutError",
}
# Endpoints for administrators, which the harness never calls.
ADMINISTRATION = ("anthropic.types.organization.", "anthropic.types.beta.")


@pytest.mark.parametrize(
    ("modules", "table"),
    [(("openai",), OPENAI), (("anthropic", "anthropic._error_classes"), ANTHROPIC)],
    ids=["openai", "anthropic"],
)
def test_each_error_class_of_an_sdk_has_a_row(modules: tuple[str, ...], table: Any) -> None:
    found = {
        kind.__name__: treated(sdk_error(raised(kind), ASKED))
        for kind in classes(*modules)
        if kind.__name__ != "APIStatusError" and not kind.__module__.startswith(ADMINISTRATION)
    }
    assert found == rows(table)


def raised(kind: type[Exception]) -> Exception:
    """An error of this class, as its SDK raises it for a response with its status and code."""
    error = kind.__new__(kind)
    bases = {base.__name__ for base in kind.__mro__}
    codes = get_args(inspect.get_annotations(kind).get("error_code"))
    attributes: dict[str, Any] = {"request_id": None}
    if "APIStatusError" in bases or "APIResponseValidationError" in bases:
        status = 500 if "APIStatusError" in bases else 200
        attributes["response"] = SimpleNamespace(headers={})
        attributes["status_code"] = getattr(kind, "status_code", status)
        attributes["body"] = {
            "error": {"message": "No.", "details": {"error_code": [*codes, ""][0]}}
        }
    for name, value in attributes.items():
        setattr(error, name, value)
    if "APIConnectionError" in bases:
        import httpx2

        error.__cause__ = httpx2.RemoteProtocolError("gone")
    return error


CREDENTIALS = {
    ("google.auth.exceptions",): {
        "unreachable": "TransportError TimeoutError ResponseError",
        "fatal": """
            GoogleAuthError RefreshError UserAccessTokenError DefaultCredentialsError OAuthError
            MutualTLSChannelError ClientCertError ReauthFailError ReauthSamlChallengeFailError
            MalformedError InvalidResource InvalidOperation InvalidValue InvalidType OSError
        """,
    },
    ("azure.core.exceptions", "azure.identity"): {
        "unreachable": """
            ServiceRequestError ServiceRequestTimeoutError ServiceResponseError
            ServiceResponseTimeoutError
        """,
        "fatal": """
            AzureError HttpResponseError DecodeError IncompleteReadError ResourceExistsError
            ResourceNotFoundError ResourceModifiedError ResourceNotModifiedError
            ClientAuthenticationError TooManyRedirectsError ODataV4Error StreamConsumedError
            StreamClosedError ResponseNotReadError AuthenticationRequiredError
            CredentialUnavailableError
        """,
        "none": "SerializationError DeserializationError",
    },
    ("botocore.exceptions",): {
        "unreachable": """
            HTTPClientError ConnectionError EndpointConnectionError SSLError ConnectionClosedError
            ReadTimeoutError ConnectTimeoutError ProxyConnectionError ResponseStreamingError
        """,
        "fatal": """
            BotoCoreError DataNotFoundError UnknownServiceError UnknownRegionError
            ApiVersionNotFoundError InvalidIMDSEndpointError InvalidIMDSEndpointModeError
            NoCredentialsError NoAuthTokenError TokenRetrievalError UnknownTokenProviderError
            PartialCredentialsError CredentialRetrievalError UnknownSignatureVersionError
            ServiceNotInRegionError BaseEndpointResolverError NoRegionError EndpointVariantError
            UnknownEndpointError UnknownFIPSEndpointError ProfileNotFound ConfigParseError
            ConfigNotFound MissingParametersError ValidationError ParamValidationError
            UnknownKeyError RangeError UnknownParameterError InvalidRegionError
            AliasConflictParameterError UnknownServiceStyle PaginationError
            OperationNotPageableError ChecksumError UnseekableStreamError WaiterError
            IncompleteReadError InvalidExpressionError UnknownCredentialError WaiterConfigError
            UnknownClientMethodError UnsupportedSignatureVersionError InvalidDNSNameError
            InvalidS3AddressingStyleError UnsupportedS3ArnError UnsupportedS3ControlArnError
            InvalidHostLabelError UnsupportedOutpostResourceError UnsupportedS3ConfigurationError
            UnsupportedS3AccesspointConfigurationError InvalidEndpointDiscoveryConfigurationError
            UnsupportedS3ControlConfigurationError InvalidRetryConfigurationError
            InvalidMaxRetryAttemptsError InvalidRetryModeError
            InvalidS3UsEast1RegionalEndpointConfigError InvalidSTSRegionalEndpointsConfigError
            StubResponseError StubAssertionError UnStubbedResponseError InvalidConfigError
            InfiniteLoopConfigError RefreshWithMFAUnsupportedError MD5UnavailableError
            MissingDependencyException MetadataRetrievalError SSOError SSOTokenLoadError
            UnauthorizedSSOTokenError LoginError LoginRefreshRequired LoginInsufficientPermissions
            LoginTokenLoadError LoginAuthorizationCodeError CapacityNotAvailableError
            InvalidProxiesConfigError InvalidDefaultsMode AwsChunkedWrapperError
            FlexibleChecksumError InvalidEndpointConfigurationError EndpointProviderError
            EndpointResolutionError UnknownEndpointResolutionBuiltInName
            InvalidChecksumConfigError UnsupportedServiceProtocolsError
        """,
        "none": """
            ClientError EventStreamError UndefinedModelAttributeError MissingServiceIdError
        """,
    },
}


@pytest.mark.parametrize("modules", CREDENTIALS, ids=lambda modules: modules[0])
def test_each_error_class_of_a_credentials_library_has_a_row(modules: tuple[str, ...]) -> None:
    pytest.importorskip(modules[0], reason="needs the extras google, azure and aws")
    found = {
        kind.__name__: exception_treatment(kind.__new__(kind)) or "none"
        for kind in classes(*modules)
    }
    assert found == rows(CREDENTIALS[modules])


BEDROCK = {
    "rejected": "ValidationException",
    "fatal": "AccessDeniedException ResourceNotFoundException",
    "interrupted": "ModelTimeoutException",
    "server_failed": "InternalServerException ModelErrorException",
    "rate_limited": "ThrottlingException ModelNotReadyException",
    "overloaded": "ServiceUnavailableException",
}


def test_each_modelled_error_of_converse_has_a_row() -> None:
    pytest.importorskip("botocore", reason="needs the extra aws")
    loader = import_module("botocore.loaders").Loader()
    model = loader.load_service_model("bedrock-runtime", "service-2")
    shapes = model["shapes"]
    names = [error["shape"] for error in model["operations"]["Converse"]["errors"]]
    found = {
        name: treated(
            status_error(shapes[name]["error"]["httpStatusCode"], {}, {"message": "No."}, ASKED)
        )
        for name in names
    }
    assert found == rows(BEDROCK)


# Errors in images, which the harness does not send: the request is rejected.
IMAGES = """
    invalid_image invalid_image_format invalid_base64_image invalid_image_url invalid_image_mode
    image_too_large image_too_small image_parse_error image_file_too_large image_file_not_found
    unsupported_image_media_type empty_image_file failed_to_download_image
"""


def test_each_code_of_a_failed_response_has_a_row() -> None:
    from openai.types.responses import ResponseError

    codes = get_args(ResponseError.model_fields["code"].annotation)
    assert {code for code in codes if code not in CODES} == set(IMAGES.split())


GOOGLE = {
    "by status": "APIError ClientError ServerError",
    # The SDK's own, of features that the harness does without: functions, uploads, sessions.
    "none": """
        UnknownFunctionCallArgumentError UnsupportedFunctionError FunctionInvocationError
        UnknownApiResponseError ContinuationInterruptedError
    """,
}


def test_each_error_class_of_google_genai_has_a_row() -> None:
    errors = pytest.importorskip("google.genai.errors", reason="google-genai is not installed")
    found = {
        kind.__name__: "by status" if issubclass(kind, errors.APIError) else "none"
        for kind in classes("google.genai.errors")
    }
    assert found == rows(GOOGLE)
