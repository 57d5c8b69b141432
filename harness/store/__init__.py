"""A run's folder: configuration, manifest, append-only attempts, resume."""
