"""The live page of `harness view`: a server for one person, on this machine alone.

- `runs`: all runs of a folder, and how far each one is
- `followed`: one run's attempts, read on while the run works
- `cases`: selections of cases by verdict, outcome, score, group, round and text
- `chosen`: some runs together: overview, cases and entries, as the page asks for them
- `timeline`: what a session did, second by second
- `app`: the requests, and who may make them
"""
