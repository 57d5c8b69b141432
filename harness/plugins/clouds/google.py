"""Requests to Google Cloud, with the credentials of Google's own tools.

Source: https://google.aip.dev/auth/4110.
"""

from typing import Any
from urllib.parse import quote

from harness.backends import TokenClient, converting
from harness.errors import import_extra

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def vertex_url(location: str) -> str:
    """Return the base URL of Vertex AI in a location such as ``europe-west4`` or ``global``."""
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{quote(location)}-aiplatform.googleapis.com/v1"


class GoogleCloudClient(TokenClient):
    """A client that sends an access token of Google's Application Default Credentials."""

    library = "google.auth", "google"
    _credentials: Any = None

    def valid(self) -> bool:
        return bool(self._credentials and self._credentials.valid)

    def new_token(self) -> str:
        google = import_extra(*self.library)
        transport = import_extra("google.auth.transport.requests", "google")
        with converting("Google Cloud", "Log in: gcloud auth application-default login."):
            if self._credentials is None:
                self._credentials, _ = google.default(scopes=[SCOPE])
            self._credentials.refresh(transport.Request())
        token: str = self._credentials.token
        return token
