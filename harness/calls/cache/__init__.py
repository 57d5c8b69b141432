"""The file of paid replies, shared by all runs and processes, and kept whole.

`reply_file` is what the others use; it stands on `shared_database` (one SQLite
file among processes), `batches` (one writing thread), `claims` (who pays for a
call), `payments` (what each run has paid) and, when the file is damaged,
`repair` and `salvage`.
"""
