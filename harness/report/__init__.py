"""Presents results: tables in five formats, figures, and an HTML page."""
