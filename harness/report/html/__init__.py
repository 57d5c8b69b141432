"""The report as one page: a file that opens anywhere, offline, with nothing beside it.

>>> write_page(Path("report.html"), Report(runs=runs, …))  # doctest: +SKIP
"""

from harness.report.html.page import Report, write_page

__all__ = ["Report", "write_page"]
