"""A run's folder as a variant, to be compared with others: what it was made and scored with."""

from __future__ import annotations

from typing import Any

from harness.analysis.comparable import Variant, judge_settings, settings
from harness.analysis.metrics import Metrics
from harness.store.run_folder import JUDGES, RunFolder


def variant_of(folder: RunFolder, metrics: Metrics, name: str = "") -> Variant:
    """A run with its settings, and with those of the judges that were asked later.

    name: by which it is told; by default the run's.

    Raises: DataInvalid, StoreFailed where its files cannot be read.
    """
    run = folder.read_config()
    fingerprint: dict[str, str] = dict(folder.read_manifest().get("fingerprint", {}))
    later: dict[str, Any] = {}
    if (folder.path / JUDGES).exists():
        from harness.store.judgements import read_register  # a run without judges spares the import

        own = {one.as_ for one in run.judges} | {one.as_ for one in run.panels}
        for judge, known in read_register(folder.path).judges.items():
            if judge not in own:
                later |= judge_settings(judge, known.section)
                fingerprint |= {f"judge_{judge}_{key}": v for key, v in known.fingerprint.items()}
    return Variant(name or folder.name, metrics, settings(run), fingerprint, later)
