"""Model backends: one module per provider protocol, whose name is the name in run files.

`HttpBackend` and `HttpClient` are for your own backends: they turn every failure into one of
`harness.errors`, by the same table as the built-in ones.
"""

from harness.backends._http import HttpBackend, HttpClient

__all__ = ["HttpBackend", "HttpClient"]
