"""Model backends: one module per provider protocol; the module's name is its name in run files.

`HttpBackend` and `HttpClient` are for your own backends: they map every failure to one of
`harness.errors`, using the same tables as the built-in backends.
"""

from harness.backends._http import HttpBackend, HttpClient

__all__ = ["HttpBackend", "HttpClient"]
