"""How runs are shown: tables in five formats, figures, one HTML page."""
