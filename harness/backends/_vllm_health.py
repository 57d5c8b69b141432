"""What a vLLM server says of itself: whether it is well, and which models it serves."""

from __future__ import annotations

import errno
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.backends._http import past_proxies
from harness.errors import FatalCallError

if TYPE_CHECKING:
    from httpx2 import AsyncClient

PATIENCE_S = 10.0
"""An engine in the middle of a long step answers late."""


class Health:
    """Looks at one server.

    base_url: of its protocol.
    key: that it is sent, empty for none.
    remedy: what to do where it lets nobody in.
    patience_s: seconds that an answer may take.
    """

    def __init__(
        self, base_url: str, key: str = "", remedy: str = "", *, patience_s: float = PATIENCE_S
    ) -> None:
        self._url = base_url.rstrip("/")
        self._key = key
        self._remedy = remedy
        self._patience_s = patience_s

    @cached_property
    def _http(self) -> AsyncClient:
        from httpx2 import AsyncClient, Limits

        return AsyncClient(
            timeout=self._patience_s,
            limits=Limits(max_keepalive_connections=0),  # looks are far apart
            mounts=past_proxies(self._url),
        )

    async def well(self) -> bool:
        """Whether it says that it is well, or at least answers where it has no health."""
        from httpx2 import HTTPError

        parts = urlsplit(self._url)
        try:
            answer = await self._http.get(f"{parts.scheme}://{parts.netloc}/health")
        except (HTTPError, OSError) as error:
            return _no_file_left(error)
        return bool(answer.status_code < 500)

    async def lists(self, model: str) -> bool:
        """Whether it serves a model; False where it does not say what it serves, or not yet.

        Raises: ModelNotFound where it serves others: a stranger may have taken the port in the
            meantime; AuthenticationFailed where it lets nobody in.
        """
        from httpx2 import HTTPError

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            answer = await self._http.get(f"{self._url}/models", headers=headers)
            if answer.status_code in (401, 403):
                raise FatalCallError(f"{self._url} answered {answer.status_code}.", self._remedy)
            names = _names(answer.json())
        except (HTTPError, OSError, ValueError):
            return False
        if names and model not in names:
            raise FatalCallError(
                f"{self._url} serves {', '.join(map(repr, names[:5]))}, and no model {model!r}.",
                "Set model.name to what the server calls it (--served-model-name).",
            )
        return model in names

    async def aclose(self) -> None:
        """Close the connection; nothing where none was made."""
        if "_http" in self.__dict__:
            await self._http.aclose()


def _names(listed: Any) -> list[str]:
    """The models of a list; none where it is no list of models."""
    try:
        found = [model["id"] for model in listed["data"]]
    except (LookupError, TypeError):
        return []
    return [name for name in found if isinstance(name, str)]


def _no_file_left(error: BaseException | None) -> bool:
    """Whether this process could not look, having too many open files: no fault of the server."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False
