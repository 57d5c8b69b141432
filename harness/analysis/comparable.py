"""Decides which runs can be compared, and reports how they differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from harness.analysis.breakdown import has_score, is_verdict, most_samples, scored
from harness.analysis.metrics import PASS_RATE, Metrics, plugin_of
from harness.analysis.run_display import FREE, NO_DISPLAY, RunDisplay, read_display
from harness.analysis.self_preference import unequal
from harness.analysis.summary import measure
from harness.config.identity import NAMED, by_name, free_keys
from harness.config.run_file import flatten, is_below, of_k
from harness.errors import ConfigError, RunConflict, nearest, option
from harness.store.calls import NO_CALLS, NO_REPLIES, RunReplies, read_replies
from harness.store.columns import AttemptTable
from harness.store.index import read_attempts
from harness.store.judgements import read_register
from harness.store.run_folder import HASH, JUDGES, RunFolder
from harness.wording import truncated

PART = "_sha256/"  # In a fingerprint, `LABEL_sha256/GROUP` is the hash of that group's data
DOCUMENTS = "documents_sha256"  # hash of lm-eval's documents; earlier runs have none
CONFOUNDED = "CONFOUNDED"
SCORED_DIFFERENTLY = "They were made or scored with a different"
UNLIKE_VERDICTS = "The runs define differently what passes"
SERIOUS = (UNLIKE_VERDICTS, CONFOUNDED, SCORED_DIFFERENTLY)  # starts of notes shown first
INPUTS = {"template": "prompt", "checks": "set of checks"}  # readable names in a fingerprint
INPUTS_0_1 = {"jsonl": {"prompt": "prompt or set of checks"}}  # by task, in runs of version 0.1

# For tasks whose variants differ in the form of the answer: the fingerprint's hash of the prompts
# without what they say about that form, and the other keys and settings that describe the form.
CONTENT = "content_sha256"
FORM = frozenset({"form", "parser", "parser_sha256", "prompt_sha256"})
FORM_SETTINGS = frozenset({"task.form", "task.parser", "decoding.constraint"})

RECORDING = ("model.where", "model.columns", "model.match")  # not compared: vary with prompts
SHOTS = "task.shots"
OF_VERDICTS = ("task.checks", "task.extract", "task.gold", "task.on_truncated")
LONGEST = 60  # characters of a setting's value in a note


IMPORTED = "imported"  # backend of another tool's results


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
        known = (self.fingerprint.get(key) for key in (DOCUMENTS, "dataset_sha256", "dataset"))
        return next(filter(None, known), None) or self.settings.get("task.dataset")

    def replies(self) -> RunReplies:
        """Read the run's replies from its file. Without a file, there are none."""
        return NO_REPLIES if self.attempts is None else read_replies(self.attempts)

    @property
    def marks(self) -> list[str]:
        """Warnings that every table must show next to the run."""
        metrics = self.metrics
        marks = ["SIMULATED"] if metrics.simulated else []
        if not self.begun:
            marks.append("NO ATTEMPTS")
        elif not metrics.complete:
            marks.append(f"INCOMPLETE {metrics.progress}")
        return marks


Run = tuple[Variant, AttemptTable]  # a run with its attempts


def read_run(folder: RunFolder, name: str = "", *, grouped: bool = False, score: str = "") -> Run:
    """Return a run as a variant without tokens and costs, and its table of attempts.

    The name is the folder's by default. ``grouped`` and ``score`` are as in `measure`.
    """
    attempts = read_attempts(folder.attempts)
    metrics = measure(folder, attempts, NO_CALLS, grouped=grouped, score=score)
    variant = variant_of(folder, metrics, name)
    if of_k(score)[1] and variant.begun:
        refuse_unknown_score(variant, attempts, score)
    return variant, attempts


def variant_of(folder: RunFolder, metrics: Metrics, name: str = "") -> Variant:
    """Return a run as a variant, named after its folder by default.

    Its settings include those of judges added after the run.
    """
    run, manifest = folder.read_config(), folder.read_manifest()
    fingerprint: dict[str, str] = dict(manifest.get("fingerprint", {}))
    later: dict[str, Any] = {}
    deciding = []
    if (folder.path / JUDGES).exists():
        own = {*(one.as_ for one in run.judges), *(one.as_ for one in run.panels)}
        for judge, known in read_register(folder.path).judges.items():
            if known.decides:
                deciding.append(judge)
            if judge not in own:
                kind = "judges" if "model" in known.section else "panels"
                later |= settings({kind: {judge: dict(known.section)}})
                fingerprint |= {f"judge_{judge}_{key}": v for key, v in known.fingerprint.items()}
    return Variant(
        name or folder.name,
        metrics,
        settings(by_name(run), manifest.get(FREE, ())),
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
    found: dict[str, Any] = {}
    free = [*free_keys(tree), *RECORDING, *free]
    for key, value in flatten(tree).items():
        if is_below(key, free) or key in NAMED:
            continue
        if key == (short := section_of(key)):
            found[key] = value
        else:
            found.setdefault(short, {})[key] = value
    return found


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
    common = {PASS_RATE if of_k(score)[1] else score for score in scores}
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
    found = []
    for run, table in runs:
        one = replace(run, metrics=structs.replace(run.metrics, measure=score or run.score))
        refuse_unknown_score(one, table, one.score)
        found.append((one, scored(table.last_rounds(round_), one.score)))
    return found, *common_score(variant for variant, _ in found)


def refuse_unknown(name: str, known: Iterable[str], problem: str) -> None:
    """Raise ConfigError, suggesting the nearest name, if ``name`` is neither empty nor known."""
    if name and name not in (known := list(known)):
        raise ConfigError(problem, nearest(name, known))


def refuse_unknown_score(run: Variant, table: AttemptTable, score: str) -> None:
    """Raise ConfigError if a run lacks a score, or has too few samples for it."""
    if not has_score(table, score):
        of_judge = [one for one in table.scores if one.startswith(f"{score}.")]
        remedy = nearest(score, [PASS_RATE, *table.scores])
        if of_judge:  # the verdict, if there is one
            remedy = f"Did you mean {max(of_judge, key=partial(is_verdict, table))!r}?"
        if k := of_k(score)[1]:
            remedy = f"It needs {k:,} samples of an instance; this run has {most_samples(table):,}."
        raise ConfigError(f"The run {run.name!r} has no score {score!r}.", remedy)


def refuse_unknown_round(tables: Sequence[AttemptTable], round_: int | None) -> None:
    """Raise ConfigError for a round that no run has, or if a run's rounds are turns."""
    if round_ is not None and any(table.turns is not None for table in tables):
        problem = "The rounds of a conversation are the user's turns, and are not compared."
        raise ConfigError(problem, "Omit the round: a sample passes if all its turns pass.")
    last = max((table.most_rounds for table in tables if len(table)), default=1)
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
            known = [*table.labels(), *others]
            raise ConfigError(problem, nearest(label, known) or "It has no labels: remove it.")


def refuse_incomparable(baseline: Variant, variants: Sequence[Variant], over: str = "") -> None:
    """Raise RunConflict if a variant's task or data set differs from the baseline's.

    If a task records a hash of each group's data, only the common groups must have the same data.
    If a label ``over`` is given, the groups must be those of this label.
    """
    ours, task = _parts(baseline), plugin_of(baseline.metrics.task)
    for variant in variants:
        names = f"{baseline.metrics.run!r} and {variant.metrics.run!r}"
        if (other := plugin_of(variant.metrics.task)) != task:
            tasks, remedy = f"{task!r} and {other!r}", "Compare variants of one task."
            if any(one.settings.get("model.backend") == IMPORTED for one in (baseline, variant)):
                remedy += " Imported results compare with other imported results of the same tool."
            raise RunConflict(f"{names} are runs of different tasks: {tasks}.", remedy)
        if variant.dataset == baseline.dataset:
            continue
        theirs, both = _parts(variant), (baseline, variant)
        unlike = sorted(part for part in ours.keys() & theirs.keys() if ours[part] != theirs[part])
        if unlike or not ours or not theirs:
            where = f" ({', '.join(unlike[:3])})" if unlike else ""
            remedy = "Run the variants again on the same data."
            if task == "lm_eval" and not all(DOCUMENTS in one.fingerprint for one in both):
                remedy = (
                    "Runs of an earlier version do not record their documents: run their files "
                    "again, which repeats no call, and compare."
                )
            raise RunConflict(
                f"{names} are runs of different data sets{where}: nothing can be compared.",
                remedy,
            )
        label = next(iter(ours)).partition(PART)[0]
        if over and label != over:
            which = f"different groups of {label!r}, so their {over!r} groups hold"
            raise RunConflict(f"{names} use {which} different instances.", f"Use --over {label}.")


def _parts(variant: Variant) -> dict[str, str]:
    return {key: value for key, value in variant.fingerprint.items() if PART in key}


def differing(
    baseline: Variant, variants: Sequence[Variant], score: str = "", *, models: bool = False
) -> Iterator[str]:
    """Yield sentences on how variants differ from the baseline, the most serious first.

    If ``score`` is `PASS_RATE`, they include differences in what passes. If only the models differ,
    a comparison of models is assumed, and they are not named unless ``models`` is set.
    """
    unlike: dict[str, list[str]] = {}
    for variant in variants if score == PASS_RATE else ():
        if differences := ", ".join(unlike_verdicts(baseline, variant)):
            unlike.setdefault(differences, []).append(variant.name)
    for differences, runs in unlike.items():
        differ = "differs" if len(runs) == 1 else "differ"
        which = f"{', '.join(runs)} {differ} from {baseline.name}"
        yield f"{UNLIKE_VERDICTS}: {which} in {differences}."
    for variant in variants:
        if confounded(baseline, variant):
            yield (
                f"{CONFOUNDED}: the prompts of {variant.name} and of {baseline.name} differ in "
                "more than the form of the answer, so a difference between the two cannot be "
                "attributed to the form or to decoding."
            )

    def content(one: Variant) -> tuple[str | None, str | None]:
        return one.fingerprint.get(CONTENT), one.fingerprint.get("shots_sha256")

    # Variants whose prompts are known to differ only in the form of the answer.
    known = CONTENT in baseline.fingerprint
    same = {one.name for one in variants if known and content(one) == content(baseline)}
    keys = sorted({key for variant in variants for key in changed(baseline, variant)})
    if not models and "model.name" in keys and all(key.startswith("model.") for key in keys):
        keys = []
    own = [key for key in keys if key.startswith("task.") or (same and key in FORM_SETTINGS)]
    if own:
        yield f"The variants differ in {', '.join(own)}."
    others = [key for key in keys if key not in own]
    if listed := [one for key in others for one in _values(key, [baseline, *variants])]:
        yield f"They differ in more than the task's options: {', '.join(listed)}."
    forms: dict[str, set[str]] = {}
    scored: dict[str, set[str]] = {}
    for variant in variants:
        ours, theirs = baseline.fingerprint, variant.fingerprint
        found = {key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]}
        found -= {"dataset", "dataset_sha256", DOCUMENTS, CONTENT}  # reported elsewhere
        if confounded(baseline, variant):
            found.discard("prompt_sha256")
        if any(variant.name in runs for runs in unlike.values()):
            found.discard(f"checks{HASH}")
        if variant.name in same and found & FORM:
            forms[variant.name] = found & FORM
            found -= FORM
        if found:
            scored[variant.name] = found
    if forms:
        parts = {key.removesuffix("_sha256") for found in forms.values() for key in found}
        yield (
            f"Except for the form of the answer, the prompts of {', '.join(forms)} say what "
            f"those of {baseline.name} do: the comparison is of {', '.join(sorted(parts))}."
        )
    if scored:
        names = INPUTS | INPUTS_0_1.get(baseline.metrics.task, {})
        keys = sorted({key.removesuffix("_sha256") for found in scored.values() for key in found})
        listed = [names.get(key, key) for key in keys]
        which = f"{', '.join(scored)} against {baseline.name}"
        yield f"{SCORED_DIFFERENTLY} {', '.join(listed)}: {which}."
    yield from unequal([(one.name, one.metrics) for one in (baseline, *variants)])
    yield from _unequal_tries([baseline, *variants])


def _unequal_tries(runs: Sequence[Variant]) -> Iterator[str]:
    """Yield a hint for a run measured by single samples if another run has several rounds."""
    several = [run.name for run in runs if (run.settings.get("rounds.max") or 1) > 1]
    for run in runs:
        samples = run.settings.get("samples") or 1
        if several and run.name not in several and samples > 1 and run.score == PASS_RATE:
            which = "has several rounds" if len(several) == 1 else "have several rounds"
            yield (
                f"{', '.join(several)} {which}, but {run.name} is measured by the mean of its "
                f"{samples:,} single samples. To compare with its best of {samples:,}, set "
                f"measure: pass@{samples} for {run.name} and run it again, which repeats no call."
            )


def unlike_verdicts(baseline: Variant, variant: Variant) -> list[str]:
    """Return the differing checks, judges and settings, of those that decide what passes."""
    deciding = {*baseline.deciding, *variant.deciding}
    keys = baseline.settings.keys() & variant.settings.keys() & {*OF_VERDICTS}
    keys |= {f"{kind}.{name}" for kind in NAMED for name in deciding}
    found = [key for key in changed(baseline, variant) if key in keys]
    ours, theirs = baseline.fingerprint, variant.fingerprint
    unlike = [key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]]
    checks = str([variant.settings.get("task.checks")])  # which names their files and plug-ins
    found += [name for key in unlike if repr(name := key.removesuffix(HASH)) in checks]
    found += [name for name in deciding if any(key.startswith(f"judge_{name}_") for key in unlike)]
    if not found and f"checks{HASH}" in unlike:
        found = ["the set of checks"]
    return sorted({*found})


def refuse_unlike_verdicts(baseline: Variant, variant: Variant) -> None:
    """Raise RunConflict if two runs define differently what passes (`unlike_verdicts`)."""
    if found := unlike_verdicts(baseline, variant):
        both = [name for name in variant.metrics.scores if name in baseline.metrics.scores]
        remedy = (
            f"Give {baseline.name!r} the same checks and score its answers again without a call: "
            f"{option('rescore')}. With other judges, start it again: {option('fresh')}; cached "
            "answers cost nothing."
        )
        if both:
            remedy += f" Or compare one score: {option('score', both[0])}."
        raise RunConflict(
            f"{variant.name!r} and {baseline.name!r} define differently what passes: they differ "
            f"in {', '.join(found)}.",
            remedy,
        )


def confounded(baseline: Variant, variant: Variant) -> bool:
    """Return whether the prompts are known to differ in more than the answer's form."""
    ours, theirs = baseline.fingerprint.get(CONTENT), variant.fingerprint.get(CONTENT)
    return None not in (ours, theirs) and ours != theirs


def marks_against(baseline: Variant, variant: Variant) -> list[str]:
    """Return the warnings that a table shows next to a run compared with a baseline."""
    both = [one.score.replace("_", " ") for one in (variant, baseline) if one.begun]
    measures = [" against ".join(both)] if len(set(both)) > 1 else []
    return [*([CONFOUNDED] if confounded(baseline, variant) else []), *variant.marks, *measures]


def changed(baseline: Variant, variant: Variant) -> list[str]:
    """Return the keys of settings that differ. A judge that only one run added later is ignored."""
    keys = baseline.settings.keys() | variant.settings.keys()
    found = [key for key in keys if baseline.settings.get(key) != variant.settings.get(key)]
    later = baseline.later.keys() & variant.later.keys()  # only the judges that both runs have
    return found + [key for key in later if baseline.later[key] != variant.later[key]]


def _values(key: str, variants: Sequence[Variant]) -> Iterator[str]:
    """Yield "KEY (A, B)" for a setting, or for each key of a section, if its values differ."""
    values = [variant.settings.get(key, variant.later.get(key)) for variant in variants]
    by_key = {key: values}
    if all(isinstance(value, dict) for value in values):
        own = sorted({part for value in values for part in value})
        by_key = {part: [value.get(part) for value in values] for part in own}
    for part, each in by_key.items():
        texts = dict.fromkeys(setting_text(value, f"{part}.") for value in each)
        if len(texts) > 1:
            short = [truncated(text, LONGEST) for text in texts]
            yield f"{part} ({', '.join(short[:4])}{', …' if len(short) > 4 else ''})"


def distinguishing(one: Variant, other: Variant) -> list[str]:
    """Return the keys of settings that distinguish two runs in a table."""
    found = []
    for key in changed(one, other):
        ours, theirs = (_section(key, run) for run in (one, other))
        both = ours.keys() & theirs.keys()
        parts = [
            part for part in both if setting_text(ours[part]) != setting_text(theirs[part])
        ] or [key]
        found += [part for part in parts if setting(one, part) != setting(other, part)]
    return found


def _section(key: str, run: Variant) -> dict[str, Any]:
    found = run.settings.get(key)
    if isinstance(found, dict):
        return found
    return {f"{key}.n": found} if key == SHOTS and isinstance(found, int) else {}


def setting(run: Variant, key: str) -> str:
    """Return a run's value of a setting as text ("null" if not set)."""
    section = section_of(key)
    value = run.settings.get(key) if key == section else _section(section, run).get(key)
    return setting_text(value, f"{key}.")


def setting_text(value: Any, prefix: str = "") -> str:
    """Format a setting's value on one line, with ``prefix`` removed from its keys.

    >>> setting_text({"task.shots.n": 1, "task.shots.within": ["source"]}, "task.shots.")
    '{n: 1, within: [source]}'
    """
    if isinstance(value, dict):
        inner = [f"{key.removeprefix(prefix)}: {setting_text(each)}" for key, each in value.items()]
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(setting_text, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
