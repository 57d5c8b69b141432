"""Model backends, one module per provider protocol. Run files select a backend by module name.

Your own backend can use `HttpBackend` and `HttpClient`, which convert failures to exceptions of
`harness.errors`.
"""

from harness.backends._http import HttpBackend, HttpClient

__all__ = ["HttpBackend", "HttpClient"]
