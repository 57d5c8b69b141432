"""What commands and the Python API print while they work.

`console` prints results and messages, and `display` shows the progress of runs. Options and exit
codes are in `harness.cli`.
"""
