"""Runs the command line as ``python -m harness``."""

from harness.cli import main

if __name__ == "__main__":  # spawned processes import this module under another name
    main()
