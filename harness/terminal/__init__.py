"""What commands and the Python API print while they work.

`console` prints results and messages, `display` shows the progress of runs, and `published`
downloads the data sets that runs need. Options and exit codes are in `harness.cli`.
"""
