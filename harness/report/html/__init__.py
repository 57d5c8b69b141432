"""The report as one page: a self-contained file that works offline.

>>> write_page(Path("report.html"), Report(runs=runs, …))  # doctest: +SKIP
"""

from harness.report.html.page import ReportPage, write_page

__all__ = ["ReportPage", "write_page"]
