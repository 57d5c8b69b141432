"""Model backends, one module per provider protocol. Run files select a backend by module name.

Backends of plug-ins can use what this package exports. `HttpBackend` and `HttpClient` convert
failures to exceptions of `harness.errors`.
"""

from harness.backends import _bodies as bodies
from harness.backends import _responses as responses
from harness.backends._clients import SDKClient, TokenClient, converting
from harness.backends._http import (
    REPLY_MB,
    UNREADABLE,
    FindCut,
    HttpBackend,
    HttpClient,
    encode,
    past_proxies,
)
from harness.backends._owned_servers import DeadlyPrompts, Lease, OwnedServers, Turns
from harness.backends._responses import OnAllowances

__all__ = [
    "REPLY_MB",
    "UNREADABLE",
    "DeadlyPrompts",
    "FindCut",
    "HttpBackend",
    "HttpClient",
    "Lease",
    "OnAllowances",
    "OwnedServers",
    "SDKClient",
    "TokenClient",
    "Turns",
    "bodies",
    "converting",
    "encode",
    "past_proxies",
    "responses",
]
