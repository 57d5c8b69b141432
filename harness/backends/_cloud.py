"""HTTP clients that authenticate with the credentials of a cloud.

The cloud's own library finds the credentials, as for its command-line tools
(https://google.aip.dev/auth/4110 for Google). They are not written to disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.backends._http import LEAST_KEY, HttpClient
from harness.backends._responses import treatment_of
from harness.errors import FatalCallError, TransientError, import_extra

ENTRA_SCOPE = "https://cognitiveservices.azure.com/.default"
RENEW_S = 300.0  # a token of Entra ID is renewed this long before it expires


@contextlib.contextmanager
def converting(cloud: str, remedy: str) -> Iterator[None]:
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
        with converting("Entra ID", "Log in: az login."):
            self._credential = self._credential or identity.DefaultAzureCredential()
            found = self._credential.get_token(ENTRA_SCOPE)
        self._expires_at = found.expires_on
        token: str = found.token
        return token
