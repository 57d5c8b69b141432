"""What runs are shown as: tables in five formats, figures, one HTML page."""
