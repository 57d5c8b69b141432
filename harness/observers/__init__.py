"""Observers, one per module, report runs to other systems while the runs are in progress.

``HARNESS_OBSERVERS`` selects them by module name. `harness.run.observing` calls them.
"""
