"""HTTP clients that authenticate with the credentials of a cloud.

The cloud's own library finds the credentials, as for its command-line tools
(https://google.aip.dev/auth/4110 for Google). They are not written to disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.backends._http import LEAST_KEY, HttpClient
from harness.backends._responses import treatment_of
from harness.errors import FatalCallError, TransientError
from harness.extras import import_extra

if TYPE_CHECKING:
    from httpx2 import Request as HttpRequest

ENTRA_SCOPE = "https://cognitiveservices.azure.com/.default"
RENEW_S = 300.0  # a token of Entra ID is renewed this long before it expires
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@contextlib.contextmanager
def _converting(cloud: str, remedy: str) -> Iterator[None]:
    """Convert the exceptions of a cloud's library to CallErrors in a ``with`` block."""
    try:
        yield
    except Exception as error:
        if (treatment := treatment_of(error)) is None:
            raise
        said = f"{cloud}: {type(error).__name__}: {str(error)[:300]}"
        # Google's library marks transient errors of its token server.
        if treatment == "fatal" and not getattr(error, "retryable", False):
            raise FatalCallError(said, remedy) from None
        raise TransientError(said, kind="unreachable") from None


def vertex_url(location: str) -> str:
    """Return the base URL of Vertex AI in a location such as ``europe-west4`` or ``global``."""
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{quote(location)}-aiplatform.googleapis.com/v1"


class TokenClient(HttpClient):
    """A client that sends an access token, and renews it before it expires.

    Args:
        url: The server's base URL.
        options: The options of `HttpClient`.
    """

    library: tuple[str, str]  # its module, and the extra that installs it

    def __init__(self, url: str, **options: Any) -> None:
        import_extra(*self.library)  # reported before the first call if missing
        super().__init__(url, **options)
        self._lock = asyncio.Lock()

    async def authentication(self) -> dict[str, str]:
        """Return the headers of each request, with a token that does not expire soon.

        Raises:
            CallError: If no token can be obtained.
        """
        async with self._lock:
            if not self.valid():
                token = await asyncio.to_thread(self.new_token)
                self._asked = replace(self._asked, key=token, key_variable=None)
                self._keys = tuple(one for one in self._asked.known if len(one) >= LEAST_KEY)
        return await super().authentication()

    @abstractmethod
    def valid(self) -> bool:
        """Return whether the client has a token that need not be renewed yet."""

    @abstractmethod
    def new_token(self) -> str:
        """Return a new access token. Called in a thread, since it may need the network.

        Raises:
            CallError: If no token can be obtained.
        """


class EntraClient(TokenClient):
    """A client that sends an access token of Microsoft Entra ID, for Azure OpenAI."""

    library = "azure.identity", "azure"
    _credential: Any = None
    _expires_at = 0.0

    def valid(self) -> bool:
        return time.time() < self._expires_at - RENEW_S

    def new_token(self) -> str:
        identity = import_extra(*self.library)
        with _converting("Entra ID", "Log in: az login."):
            self._credential = self._credential or identity.DefaultAzureCredential()
            found = self._credential.get_token(ENTRA_SCOPE)
        self._expires_at = found.expires_on
        token: str = found.token
        return token


class GoogleCloudClient(TokenClient):
    """A client that sends an access token of Google's Application Default Credentials."""

    library = "google.auth", "google"
    _credentials: Any = None

    def valid(self) -> bool:
        return bool(self._credentials and self._credentials.valid)

    def new_token(self) -> str:
        google = import_extra(*self.library)
        transport = import_extra("google.auth.transport.requests", "google")
        with _converting("Google Cloud", "Log in: gcloud auth application-default login."):
            if self._credentials is None:
                self._credentials, _ = google.default(scopes=[SCOPE])
            self._credentials.refresh(transport.Request())
        token: str = self._credentials.token
        return token


def bedrock_url(region: str) -> str:
    """Return the base URL of Amazon Bedrock in a region such as ``eu-central-1``."""
    return f"https://bedrock-runtime.{quote(region)}.amazonaws.com"


class AwsClient(HttpClient):
    """A client that signs its requests (AWS Signature Version 4).

    Args:
        url: The server's base URL.
        region: The AWS region.
        profile: A profile in the user's AWS configuration (default: AWS's credential chain).
        options: The options of `HttpClient`.
    """

    _credentials: Any = None

    def __init__(self, url: str, region: str, profile: str | None, **options: Any) -> None:
        import_extra("botocore", "aws")
        super().__init__(url, **options)
        self._region, self._profile = region, profile
        self._lock = threading.Lock()

    async def request(self, path: str, content: bytes) -> HttpRequest:
        headers = await asyncio.to_thread(self._signed, path, content)
        return self.build_request(path, content, headers)

    def _signed(self, path: str, content: bytes) -> dict[str, str]:
        session = import_extra("botocore.session", "aws")
        auth = import_extra("botocore.auth", "aws")
        awsrequest = import_extra("botocore.awsrequest", "aws")
        errors = import_extra("botocore.exceptions", "aws")
        with _converting("AWS", "Log in (aws sso login), or set the AWS variables."), self._lock:
            if self._credentials is None:
                self._credentials = session.Session(profile=self._profile).get_credentials()
            if self._credentials is None:
                raise errors.NoCredentialsError
            credentials = self._credentials.get_frozen_credentials()
        headers = {"content-type": "application/json", **self.headers}
        request = awsrequest.AWSRequest(
            "POST", self.base + path, headers, content, params=self.query
        )
        auth.SigV4Auth(credentials, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())
