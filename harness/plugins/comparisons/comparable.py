"""Runs as variants in a comparison, and which of them can be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from harness.analysis.breakdown import is_verdict, rows_for_score
from harness.analysis.metrics import PASS_RATE, Metrics, task_plugin_name
from harness.analysis.run_display import FREE_KEYS_KEY, NO_DISPLAY, RunDisplay, read_display
from harness.analysis.summary import compute_metrics
from harness.config.identity import NAMED_LISTS, changeable_keys, tree_by_name
from harness.config.run_file import flatten, is_below
from harness.config.sections import split_k
from harness.errors import ConfigError, RunConflict, option, suggest_name
from harness.plugins.comparisons.replies import NO_REPLIES, RunReplies, read_replies
from harness.store.calls import NO_CALLS
from harness.store.columns import AttemptTable
from harness.store.index import read_attempts
from harness.store.judgements import read_register
from harness.store.run_folder import IMPORTED, JUDGES, RunFolder

PART = "_sha256/"  # In a fingerprint, `LABEL_sha256/GROUP` is the hash of that group's data
DOCUMENTS = "documents_sha256"  # a hash of a task's documents; earlier runs may have none


RECORDED = "recording_sha256"  # in a fingerprint: the hash and size of the replayed file
RECORDING = ("model.where", "model.columns", "model.match")  # not compared: vary with prompts


@dataclass(frozen=True, slots=True)
class Variant:
    """A run as one variant in a comparison, with the settings that its results depend on."""

    name: str
    metrics: Metrics
    settings: Mapping[str, Any]  # of the run file, by dotted keys of two parts
    fingerprint: Mapping[str, str]  # what the scores depend on, as in the manifest
    later: Mapping[str, Any] = field(default_factory=dict)  # settings of judges added later
    attempts: Path | None = None  # the file with the run's replies
    deciding: Collection[str] = ()  # names of the judges and panels that decide what passes
    display: RunDisplay = NO_DISPLAY

    @property
    def begun(self) -> bool:
        """Whether the run has any attempts."""
        return self.metrics.n_attempts > 0

    @property
    def score(self) -> str:
        """The name of the run's primary metric (`PASS_RATE` by default)."""
        return self.metrics.measure or PASS_RATE

    @property
    def dataset(self) -> Any:
        """The hash of the run's documents or data set, or else its name, or else None."""
        for key in (DOCUMENTS, "dataset_sha256", "dataset"):
            if recorded := self.fingerprint.get(key):
                return recorded
        return self.settings.get("task.dataset")

    def weight(self, score: str) -> str:
        """Return the name of the score that tables weight ``score`` by, or "" if there is none."""
        return self.display.weight_names.get(score, "")

    def replies(self) -> RunReplies:
        """Read the run's replies from its file. Without a file, there are none."""
        if self.attempts is None:
            return NO_REPLIES
        source = ""
        if not self.settings.get("model.name"):
            source = self.fingerprint.get(RECORDED, "")
        return read_replies(self.attempts, source)

    @property
    def marks(self) -> list[str]:
        """Warnings that every table must show next to the run."""
        marks = []
        if self.metrics.simulated:
            marks.append("SIMULATED")
        if not self.begun:
            marks.append("NO ATTEMPTS")
        elif not self.metrics.complete:
            marks.append(f"INCOMPLETE {self.metrics.progress}")
        return marks


Run = tuple[Variant, AttemptTable]  # a run with its attempts


def read_run(folder: RunFolder, name: str = "", *, grouped: bool = False, score: str = "") -> Run:
    """Return a run as a variant without tokens and costs, and its table of attempts.

    The name is the folder's by default. ``grouped`` and ``score`` are as in `compute_metrics`.
    """
    attempts = read_attempts(folder.attempts)
    metrics = compute_metrics(folder, attempts, NO_CALLS, grouped=grouped, score=score)
    variant = variant_of(folder, metrics, name)
    if split_k(score)[1] and variant.begun:
        refuse_unknown_score(variant, attempts, score)
    return variant, attempts


def variant_of(folder: RunFolder, metrics: Metrics, name: str = "") -> Variant:
    """Return a run as a variant, named after its folder by default.

    Its settings include those of judges added after the run.
    """
    run = folder.read_config()
    manifest = folder.read_manifest()
    fingerprint: dict[str, str] = dict(manifest.get("fingerprint", {}))
    later: dict[str, Any] = {}
    deciding: Collection[str] = ()
    if (folder.path / JUDGES).exists():
        register = read_register(folder.path)
        deciding = register.deciding
        for judge_name, judge in register.judges.items():
            if judge_name not in run.judge_names:
                kind = "judges" if "model" in judge.section else "panels"
                later |= settings({kind: {judge_name: dict(judge.section)}})
                for key, value in judge.fingerprint.items():
                    fingerprint[f"judge_{judge_name}_{key}"] = value
    return Variant(
        name or folder.name,
        metrics,
        settings(tree_by_name(run), manifest.get(FREE_KEYS_KEY, ())),
        fingerprint,
        later,
        folder.attempts,
        deciding,
        read_display(folder, metrics.groups.get("encoding", ())),
    )


def settings(tree: dict[str, Any], free: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings in a run file, or in part of it, on which results may depend.

    Results do not depend on the keys in ``free``.

    The keys are those of `by_name`, shortened to two parts (``judges.NAME``). The value of a
    shortened key maps the full keys to their values.
    """
    by_key: dict[str, Any] = {}
    free = [*changeable_keys(tree), *RECORDING, *free]
    for key, value in flatten(tree).items():
        if is_below(key, free) or key in NAMED_LISTS:
            continue
        section = section_of(key)
        if key == section:
            by_key[key] = value
        else:
            by_key.setdefault(section, {})[key] = value
    return by_key


def section_of(key: str) -> str:
    """Return the first two parts of a dotted key: "task.shots" for "task.shots.n"."""
    return ".".join(key.split(".")[:2])


def common_score(variants: Iterable[Variant]) -> tuple[str, str]:
    """Return the variants' primary metrics, joined by "and", and the score to compare them by.

    For metrics like ``pass@4``, this score is `PASS_RATE`.

    Raises:
        RunConflict: If the metrics differ and are not all pass rates or scores like ``pass@4``.
    """
    scores = dict.fromkeys(variant.score for variant in variants)
    common = set()
    for score in scores:
        _, k = split_k(score)
        common.add(PASS_RATE if k else score)
    if len(common) > 1:
        listed = ", ".join(scores)
        remedy = f"Name one: {option('score', 'NAME')}."
        raise RunConflict(f"The runs have different primary metrics: {listed}.", remedy)
    return " and ".join(scores), common.pop()


def scored_runs(runs: Sequence[Run], score: str, round_: int | None) -> tuple[list[Run], str, str]:
    """Return runs with the rows that a score is averaged over, and both results of `common_score`.

    If ``score`` is empty, it is each run's primary metric. Later rounds than ``round_`` are left
    out (None: no limit).

    Raises:
        ConfigError: If a run lacks the score, or no run has the round (`refuse_unknown_round`).
        RunConflict: If the runs' primary metrics cannot be compared (`common_score`).
    """
    refuse_unknown_round([table for _, table in runs], round_)
    measured = []
    for run, table in runs:
        measure = score or run.score
        variant = replace(run, metrics=structs.replace(run.metrics, measure=measure))
        refuse_unknown_score(variant, table, measure)
        measured.append((variant, rows_for_score(table.last_rounds(round_), measure)))
    measures, common = common_score(variant for variant, _ in measured)
    return measured, measures, common


def weight_of(run: Run, score: str) -> str:
    """Return the score that weights ``score``, or "" if the run does not have it."""
    variant, table = run
    weight = variant.weight(score)
    return weight if weight in table.scores else ""


def common_labels(runs: Iterable[Metrics]) -> list[str]:
    """Return the labels whose groups all runs have, in the order of the first run."""
    first, *others = runs
    labels = list(first.groups)
    for run in others:
        labels = [label for label in labels if label in run.groups]
    return labels


def group_values(variant: Variant, over: str) -> dict[str, float]:
    """Return a variant's mean score by group, without groups that have no value."""
    values = {}
    for name, group in variant.metrics.groups.get(over, {}).items():
        statistic = group if variant.score == PASS_RATE else group.scores.get(variant.score)
        if statistic is not None and statistic.mean is not None:
            values[name] = statistic.mean
    return values


def most_samples(attempts: AttemptTable) -> int:
    """Return the largest number of samples of any instance, or 0 for an empty table."""
    return int(np.bincount(attempts.instance[attempts.sample_starts()]).max(initial=0))


def has_score(table: AttemptTable, score: str) -> bool:
    """Return whether a table has a score."""
    return score in (PASS_RATE, *table.scores) or 0 < split_k(score)[1] <= most_samples(table)


def refuse_unknown_score(run: Variant, table: AttemptTable, score: str) -> None:
    """Raise ConfigError if a run lacks a score, or has too few samples for it."""
    if has_score(table, score):
        return
    remedy = suggest_name(score, [PASS_RATE, *table.scores])
    by_judge = [name for name in table.scores if name.startswith(f"{score}.")]
    if by_judge:
        verdict = max(by_judge, key=partial(is_verdict, table))  # if there is one
        remedy = f"Did you mean {verdict!r}?"
    _, k = split_k(score)
    if k:
        remedy = f"It needs {k:,} samples of an instance; this run has {most_samples(table):,}."
    raise ConfigError(f"The run {run.name!r} has no score {score!r}.", remedy)


def refuse_unknown_round(tables: Sequence[AttemptTable], round_: int | None) -> None:
    """Raise ConfigError for a round that no run has, or if a run's rounds are turns."""
    if round_ is not None and any(table.turns is not None for table in tables):
        problem = "The rounds of a conversation are the user's turns, and are not compared."
        raise ConfigError(problem, "Omit the round: a sample passes if all its turns pass.")
    last = max((table.max_round for table in tables if len(table)), default=1)
    if round_ is not None and round_ > last:
        problem = f"None of the runs has a round {round_}: the last one is round {last}."
        raise ConfigError(problem, "Omit it to use each sample's last round.")


def refuse_unknown_label(
    option: str, label: str, tables: Mapping[str, AttemptTable], others: Sequence[str] = ()
) -> None:
    """Raise ConfigError if an option's ``label`` is not empty and a run lacks it.

    ``tables`` holds the attempts by run name. ``others`` are further names to suggest.
    """
    for name, table in tables.items():
        if label and label not in table.labels():
            problem = f"{option}: the run {name!r} has no label {label!r}."
            remedy = suggest_name(label, [*table.labels(), *others])
            raise ConfigError(problem, remedy or "It has no labels: remove it.")


def refuse_incomparable(baseline: Variant, variants: Sequence[Variant], over: str = "") -> None:
    """Raise RunConflict if a variant's task or data set differs from the baseline's.

    If a task records a hash of each group's data, only the common groups must have the same data.
    If a label ``over`` is given, the groups must be those of this label.
    """
    ours = _parts(baseline)
    task = task_plugin_name(baseline.metrics.task)
    for variant in variants:
        names = f"{baseline.metrics.run!r} and {variant.metrics.run!r}"
        for metrics in (baseline.metrics, variant.metrics):
            if not metrics.task:
                problem = f"The manifest of the run {metrics.run!r} is missing or names no task."
                raise RunConflict(problem, "Restore its manifest.json, or run its file again.")
        variant_task = task_plugin_name(variant.metrics.task)
        if variant_task != task:
            problem = f"{names} are runs of different tasks: {task!r} and {variant_task!r}."
            remedy = "Compare variants of one task."
            if any(run.settings.get("model.backend") == IMPORTED for run in (baseline, variant)):
                remedy += " Imported results compare with other imported results of the same tool."
            raise RunConflict(problem, remedy)
        if variant.dataset == baseline.dataset:
            continue
        theirs = _parts(variant)
        unlike = sorted(unequal_keys(ours, theirs))
        if unlike or not ours or not theirs:
            where = f" ({', '.join(unlike[:3])})" if unlike else ""
            remedy = "Run both files again on the same data: known replies are reused."
            raise RunConflict(
                f"{names} are runs of different data sets{where}: nothing can be compared.",
                remedy,
            )
        label = next(iter(ours)).partition(PART)[0]
        if over and label != over:
            which = f"different groups of {label!r}, so their {over!r} groups hold"
            raise RunConflict(f"{names} use {which} different instances.", f"Use --over {label}.")


def unequal_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the keys of both mappings whose values differ."""
    return [key for key in first.keys() & second.keys() if first[key] != second[key]]


def _parts(variant: Variant) -> dict[str, str]:
    return {key: value for key, value in variant.fingerprint.items() if PART in key}
