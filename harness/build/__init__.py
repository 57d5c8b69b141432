"""Making new benchmarks: pipelines of their own, that need no model and no network."""
