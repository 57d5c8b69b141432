"""What a third party adds to the harness: one file per plug-in, found by entry points."""
