"""The report as one page: a self-contained file that works offline."""
