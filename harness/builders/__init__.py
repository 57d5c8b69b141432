"""Making new benchmarks: pipelines of their own. Where one asks models, it is given them."""
