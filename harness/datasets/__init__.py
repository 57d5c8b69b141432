"""Finding, fetching, converting and streaming data sets."""
