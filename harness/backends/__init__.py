"""Model backends, one module per provider protocol. Run files select a backend by module name.

Backends of plug-ins can use what this package exports. `HttpBackend` and `HttpClient` convert
failures to exceptions of `harness.errors`.
"""

from harness.backends import _bodies as bodies
from harness.backends import _responses as responses
from harness.backends._clients import SDKClient, TokenClient, convert_cloud_errors
from harness.backends._http import (
    DECODE_ERRORS,
    MAX_REPLY_MB,
    FindCut,
    HttpBackend,
    HttpClient,
    encode,
    proxy_bypass,
)
from harness.backends._owned_servers import DeadlyPrompts, EngineGate, Lease, OwnedServers
from harness.backends._responses import OnAllowances

__all__ = [
    "DECODE_ERRORS",
    "MAX_REPLY_MB",
    "DeadlyPrompts",
    "EngineGate",
    "FindCut",
    "HttpBackend",
    "HttpClient",
    "Lease",
    "OnAllowances",
    "OwnedServers",
    "SDKClient",
    "TokenClient",
    "bodies",
    "convert_cloud_errors",
    "encode",
    "proxy_bypass",
    "responses",
]
