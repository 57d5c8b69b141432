"""What a backend says about caches: of its replies, and of its provider's prompts."""

from typing import Protocol, runtime_checkable

from harness.records import Request


@runtime_checkable
class CachesPrompts(Protocol):
    """A backend that can make use of its provider's prompt cache."""

    @property
    def prompt_caching(self) -> bool:
        """Whether to send one call ahead of the others that share its prompt's beginning."""


@runtime_checkable
class KeyedByRequest(Protocol):
    """A backend whose options may change what it sends to an endpoint for the same request."""

    def key_part(self, request: Request) -> str:
        """Return text to add to a request's cache key, or "" if the request has its usual form."""


@runtime_checkable
class SharesReplies(Protocol):
    """A backend that says whether other runs may use its cached replies.

    It is the default of ``model.cache`` in run files. Without it, all runs may use the replies of
    a built-in or installed backend, and only the same run those of your own file or function.
    """

    @property
    def shares_replies(self) -> bool:
        """Whether a reply depends on nothing but the request, the endpoint and the options."""
