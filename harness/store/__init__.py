"""A run's folder: configuration, manifest, append-only attempts, resume.

`run_folder` (the paths, the lock, whether a run may continue), `manifest`, `json_lines` (appending
attempts and judgements), `index` (which attempts count, and from which round a sample continues) on
`columns`, `judgements` and `judgement_index` (the same for judges), `references` (reference answers
that judges have scored), `calls` (what a run's calls cost), `files`.
"""
