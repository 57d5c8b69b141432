"""Makes a run one of a version that recorded neither seals of lines nor states of files."""

import json
from pathlib import Path


def unseal(run: Path) -> None:
    """Remove the seals and states of a run, so that a test may change its files."""
    manifest = run / "manifest.json"
    content = json.loads(manifest.read_bytes())
    content.pop("files", None)
    content.pop("sealed", None)
    manifest.write_text(json.dumps(content))
    for path in (run / "attempts.jsonl", run / "judgements.jsonl"):
        if path.exists():
            rows = [json.loads(line) for line in path.read_bytes().splitlines()]
            lines = [json.dumps({k: v for k, v in row.items() if k != "run"}) for row in rows]
            path.write_text("".join(f"{line}\n" for line in lines))
