"""Observers, one module each, report runs to other systems while the runs are executed.

``HARNESS_OBSERVERS`` selects them by module name. `harness.run.observing` calls them.
"""
