"""Observers, one module each: they follow a run while it is executed, and send it elsewhere.

``HARNESS_OBSERVERS`` selects them by module name. `harness.run.observing` calls them.
"""
