"""Model backends, one module per provider protocol. Run files select a backend by module name.

Build your own backends on `HttpBackend` and `HttpClient`, which turn every failure into an
exception of `harness.errors`.
"""

from harness.backends._http import HttpBackend, HttpClient

__all__ = ["HttpBackend", "HttpClient"]
