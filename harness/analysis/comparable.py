"""Which runs may stand in one table, and what has to be said there.

Owns the refusals: another task, another data set, another measure. What may
differ, but is not what one thinks one compares (model, decoding, samples), is
told; what differs within the task's own options is what an ablation is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.metrics import Metrics
from harness.config.run_file import MAY_CHANGE, RunFile, flatten
from harness.errors import RunConflict

PART = "_sha256/"
"""In a fingerprint, ``LABEL_sha256/GROUP`` is the hash of that group's data."""

RECORDING = ("model.where", "model.columns", "model.match")
"""Which recorded answers are replayed: another prompt's are other ones."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A run as a variant of a file.

    name: the variant's.
    settings: its run file, by dotted keys of two parts.
    fingerprint: what its scores depend on, as in the manifest.
    """

    name: str
    metrics: Metrics
    settings: Mapping[str, Any]
    fingerprint: Mapping[str, str]

    @property
    def begun(self) -> bool:
        """Whether it has any attempt."""
        return self.metrics.n_attempts > 0

    @property
    def marks(self) -> list[str]:
        """What every table must say of it."""
        metrics = self.metrics
        marks = ["SIMULATED"] if metrics.simulated else []
        if not self.begun:
            marks.append("NO ATTEMPTS")
        elif not metrics.complete:
            planned = "?" if metrics.n_planned is None else f"{metrics.n_planned:,}"
            marks.append(f"INCOMPLETE {metrics.n_samples:,} of {planned}")
        return marks


def settings(run: RunFile) -> dict[str, Any]:
    """The settings that a run's figures may depend on, by dotted keys of two parts."""
    told: dict[str, Any] = {}
    for key, value in flatten(run.model_dump(mode="json")).items():
        if not any(key == free or key.startswith(f"{free}.") for free in (*MAY_CHANGE, *RECORDING)):
            short = ".".join(key.split(".")[:2])
            if short == key:
                told[key] = value
            else:
                told.setdefault(short, {})[key] = value
    return told


def refuse_incomparable(baseline: Variant, variants: Sequence[Variant], over: str = "") -> None:
    """Refuse runs of other tasks and other data than the baseline's.

    over: the label whose groups are compared; empty where instances are.

    Runs of other parts of the same data may be compared on the parts that both
    have, where the fingerprints name the parts.

    Raises: RunConflict naming the runs.
    """
    for variant in variants:
        names = f"{baseline.metrics.run!r} and {variant.metrics.run!r}"
        if variant.metrics.task != baseline.metrics.task:
            raise RunConflict(
                f"{names} are runs of different tasks: {baseline.metrics.task!r} and "
                f"{variant.metrics.task!r}.",
                "Compare the variants of one task.",
            )
        if _dataset(variant) == _dataset(baseline):
            continue
        ours, theirs = _parts(baseline), _parts(variant)
        changed = [part for part in ours.keys() & theirs.keys() if ours[part] != theirs[part]]
        if changed or not ours or not theirs:
            where = f" ({', '.join(sorted(changed)[:3])})" if changed else ""
            raise RunConflict(
                f"{names} are runs of different data sets{where}: nothing can be compared.",
                "Run the variants again on the same data.",
            )
        label = next(iter(ours)).partition(PART)[0]
        if over and label != over:
            raise RunConflict(
                f"{names} take different groups of {label!r}, so that a {over!r} of one is not "
                "that of the other.",
                f"Use --over {label}.",
            )


def _dataset(variant: Variant) -> Any:
    told = variant.fingerprint
    return told.get("dataset_sha256") or told.get("dataset") or variant.settings.get("task.dataset")


def _parts(variant: Variant) -> dict[str, str]:
    return {key: value for key, value in variant.fingerprint.items() if PART in key}


def differing(baseline: Variant, variants: Sequence[Variant]) -> Iterator[str]:
    """Sentences on what the variants differ in."""
    keys = sorted({key for variant in variants for key in changed(baseline, variant)})
    own = [key for key in keys if key.startswith("task.")]
    if own:
        yield f"The variants differ in {', '.join(own)}."
    others = [key for key in keys if not key.startswith("task.")]
    if others:
        told = ", ".join(f"{key} ({_values(key, [baseline, *variants])})" for key in others)
        yield f"They differ in more than the task's options: {told}."
    scored = {
        key
        for variant in variants
        for key in variant.fingerprint.keys() & baseline.fingerprint.keys()
        if variant.fingerprint[key] != baseline.fingerprint[key]
    }
    scored -= {"dataset", "dataset_sha256"}
    if scored:
        yield f"They were made or scored with another {', '.join(sorted(scored))}."


def changed(baseline: Variant, variant: Variant) -> list[str]:
    """The settings in which two runs differ."""
    keys = baseline.settings.keys() | variant.settings.keys()
    return [key for key in keys if baseline.settings.get(key) != variant.settings.get(key)]


def _values(key: str, variants: Sequence[Variant]) -> str:
    values = dict.fromkeys(f"{variant.settings.get(key)}" for variant in variants)
    shown = [value if len(value) <= 30 else f"{value[:29]}…" for value in values]
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
