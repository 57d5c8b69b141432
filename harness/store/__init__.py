"""The files in a run's folder: how they are written, read and resumed.

The modules are `run_folder` (paths, lock, whether a run may continue), `manifest`, `json_lines`
(appends attempts and judgements), `index` (which attempts count, where a sample continues) on
`columns`, `judgements` and `judgement_index` (the same for judges), `references` (reference answers
scored by judges), `calls` (what a run's calls cost) and `files` (atomic writes).
"""
