"""Makes ``python -m harness`` run the command line."""

from harness.cli import main

if __name__ == "__main__":  # spawned processes import this module under another name
    main()
