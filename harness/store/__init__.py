"""The files in a run's folder: how they are written, read and resumed.

- `runs`: names of runs, and how to find them
- `run_folder`: paths, the lock, and whether a run may continue
- `manifest`: the origin of the results
- `json_lines`, `files`: appending lines, and atomic writes
- `file_states`: whether others have changed files or lines
- `lost_lines`: what to do about lines that are lost
- `index`, on `attempt_lines` and `columns`: which attempts count, where a sample continues, and
  the verdicts on the turns of scripted conversations
- `judgements`, `judgement_index`: judges' scores, and which of them count
- `calls`: the cost of a run's calls
- `aggregates`: metrics that a task computes from all answers of round 1, or of all turns
"""
