"""Plug-ins that are shipped with the harness, and enter like those of other packages."""
