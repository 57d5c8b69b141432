"""Which runs may stand in one table, and what has to be said there.

Owns the refusals: another task, another data set, another measure. What may
differ, but is not what one thinks one compares (model, decoding, samples), is
told; what differs within the task's own options is what an ablation is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.analysis.metrics import Metrics
from harness.analysis.self_preference import unequal
from harness.config.identity import NAMED, by_name, may_change
from harness.config.run_file import RunFile, flatten
from harness.errors import RunConflict

PART = "_sha256/"
"""In a fingerprint, ``LABEL_sha256/GROUP`` is the hash of that group's data."""

CONTENT = "content_sha256"
"""In a fingerprint, the hash of all that the prompts say but the form of the answer: a task has it
whose arms differ in that form."""

CONFOUNDED = "CONFOUNDED"

FORM = frozenset({"form", "parser", "parser_sha256", "prompt_sha256"})
"""Of a fingerprint with `CONTENT`: what its arms are for."""
ARMS = frozenset({"task.form", "task.parser", "decoding.constraint"})
"""The settings that make them."""

RECORDING = ("model.where", "model.columns", "model.match")
"""Which recorded answers are replayed: another prompt's are other ones."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A run as a variant of a file.

    name: the variant's.
    settings: its run file, by dotted keys of two parts.
    fingerprint: what its scores depend on, as in the manifest.
    later: settings of judges that its run file does not have, and that were asked later. They
        only advise, so that a run which lacks one of them differs in nothing.
    """

    name: str
    metrics: Metrics
    settings: Mapping[str, Any]
    fingerprint: Mapping[str, str]
    later: Mapping[str, Any] = field(default_factory=dict)

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
    """The settings that a run's figures may depend on, by dotted keys of two parts.

    A judge is one of them, ``judges.NAME``, and so is a panel, ``panels.NAME``.
    """
    return _by_two_parts(by_name(run))


def judge_settings(name: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a judge or a panel that the run file does not have, by its section."""
    kind = "judges" if "model" in section else "panels"
    return _by_two_parts({kind: {name: dict(section)}})


def _by_two_parts(tree: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key, value in flatten(tree).items():
        recording = any(key == free or key.startswith(f"{free}.") for free in RECORDING)
        if not recording and not may_change(key) and key not in NAMED:
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
    """Sentences on what the variants differ in; what makes a comparison void comes first."""
    for variant in variants:
        if confounded(baseline, variant):
            yield confounding(baseline.name, variant.name)
    keys = sorted({key for variant in variants for key in changed(baseline, variant)})
    arms = ARMS if any(_same_content(baseline, variant) for variant in variants) else frozenset()
    own = [key for key in keys if key.startswith("task.") or key in arms]
    if own:
        yield f"The variants differ in {', '.join(own)}."
    others = [key for key in keys if key not in own]
    if others:
        told = ", ".join(f"{key} ({_values(key, [baseline, *variants])})" for key in others)
        yield f"They differ in more than the task's options: {told}."
    scored = set[str]()
    compared: dict[str, set[str]] = {}
    for variant in variants:
        found = _scored_otherwise(baseline, variant)
        if _same_content(baseline, variant):
            if found & FORM:
                compared[variant.name] = {key.removesuffix("_sha256") for key in found & FORM}
            found -= FORM
        scored |= found
    if compared:
        runs, told = ", ".join(compared), ", ".join(sorted(set().union(*compared.values())))
        yield (
            f"But for the form of the answer, the prompts of {runs} say what those of "
            f"{baseline.name} do: what is compared is {told}."
        )
    if scored:
        yield f"They were made or scored with another {', '.join(sorted(scored))}."
    yield from unequal([(one.name, one.metrics) for one in (baseline, *variants)])


def confounding(baseline: str, run: str) -> str:
    """The sentence among those of `differing` on a run that is `CONFOUNDED` with its baseline."""
    return (
        f"{CONFOUNDED}: the prompts of {run} and of {baseline} differ in more than the form of the "
        "answer, so that what is between the two cannot be put down to the form or to decoding."
    )


def confounded(baseline: Variant, variant: Variant) -> bool:
    """Whether their prompts are known to differ in more than the form of the answer."""
    ours, theirs = baseline.fingerprint.get(CONTENT), variant.fingerprint.get(CONTENT)
    return None not in (ours, theirs) and ours != theirs


def _same_content(baseline: Variant, variant: Variant) -> bool:
    """Whether the prompts are known to differ in the form alone."""
    ours, theirs = (
        (one.fingerprint.get(CONTENT), one.fingerprint.get("shots_sha256"))
        for one in (baseline, variant)
    )
    return ours[0] is not None and ours == theirs


def _scored_otherwise(baseline: Variant, variant: Variant) -> set[str]:
    """What both fingerprints have, and each otherwise; what is said elsewhere is left out."""
    said = {"prompt_sha256"} if confounded(baseline, variant) else set[str]()
    ours, theirs = baseline.fingerprint, variant.fingerprint
    found = {key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]}
    return found - {"dataset", "dataset_sha256", CONTENT} - said


def changed(baseline: Variant, variant: Variant) -> list[str]:
    """The settings in which two runs differ; of judges asked later, those that both have."""
    keys = baseline.settings.keys() | variant.settings.keys()
    found = [key for key in keys if baseline.settings.get(key) != variant.settings.get(key)]
    later = baseline.later.keys() & variant.later.keys()
    return found + [key for key in later if baseline.later[key] != variant.later[key]]


def _values(key: str, variants: Sequence[Variant]) -> str:
    found = [variant.settings.get(key, variant.later.get(key)) for variant in variants]
    values = dict.fromkeys(_told(key, value) for value in found)
    most = 60 if key.startswith("panels.") else 30  # a panel's name several judges
    shown = [value if len(value) <= most else f"{value[: most - 1]}…" for value in values]
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")


def _told(key: str, value: Any) -> str:
    """A value as a sentence has it: of a judge plug-in and model, of a panel its members."""
    if key.startswith(("judges.", "panels.")) and isinstance(value, dict):
        flat = {name.removeprefix(f"{key}."): one for name, one in value.items()}
        if key.startswith("panels."):
            return f"{flat.get('by')} of {', '.join(flat.get('of') or ())}"
        model = flat.get("model.name") or flat.get("model.backend")
        return f"{flat.get('name')} by {model}"
    return f"{value}"
