"""Observers, one module each, which report a run to other systems while it is executed.

``HARNESS_OBSERVERS`` selects them by module name. `harness.run.observing` calls them.
"""
