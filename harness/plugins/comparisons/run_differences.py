"""Reports how the runs of a comparison differ: settings, prompts, judges and what passes.

The settings that distinguish the rows of a results table are found here, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from harness.analysis.identical_samples import IDENTICAL_SAMPLES_PREFIX, identical_samples_warning
from harness.analysis.metrics import PASS_RATE, Metrics
from harness.config.identity import NAMED_LISTS
from harness.config.sections import split_k
from harness.errors import RunConflict, option
from harness.plugins.comparisons.comparable import (
    DOCUMENTS,
    Variant,
    section_of,
    unequal_keys,
)
from harness.store.index import AttemptIndex
from harness.store.run_folder import HASH_SUFFIX, input_name, rehashed_inputs
from harness.wording import truncate

CONFOUNDED = "CONFOUNDED"
SCORED_DIFFERENTLY = "They were made or scored with a different"
UNLIKE_VERDICTS = "The runs define differently what passes"
UNEQUAL_TRIES = "UNEQUAL NUMBERS OF TRIES"
BEST_OF = ("pass@", "any@")  # measures for which one of several samples is enough
# Starts of notes shown first
SERIOUS = (UNLIKE_VERDICTS, CONFOUNDED, SCORED_DIFFERENTLY, UNEQUAL_TRIES, IDENTICAL_SAMPLES_PREFIX)
INPUTS = {"template": "prompt", "checks": "set of checks"}  # readable names in a fingerprint
INPUTS_0_1 = {"jsonl": {"prompt": "prompt or set of checks"}}  # by task, in runs of version 0.1

# For tasks whose variants differ in the form of the answer: the fingerprint's hash of the prompts
# without what they say about that form, and the other keys and settings that describe the form.
CONTENT = "content_sha256"
FORM = frozenset({"form", "parser", "parser_sha256", "prompt_sha256"})
FORM_SETTINGS = frozenset({"task.form", "task.parser", "decoding.constraint"})

TEMPLATES = frozenset({"task.prompt", "task.system", "task.feedback"})
OF_VERDICTS = ("task.checks", "task.extract", "task.gold", "task.on_truncated")
LONGEST = 60  # characters of a setting's value in a note


def differing(
    baseline: Variant,
    variants: Sequence[Variant],
    score: str = "",
    *,
    models: bool = False,
    round_: int | None = None,
) -> Iterator[str]:
    """Yield sentences on how variants differ from the baseline, the most serious first.

    If ``score`` is `PASS_RATE`, they include differences in what passes. If only the models differ,
    a comparison of models is assumed, and they are not named unless ``models`` is set. ``round_``
    is the last round that counts (None: no limit).
    """
    unlike: dict[str, list[str]] = {}  # names of runs, by what passes differently in them
    unlike_runs = set()
    same_content = set()  # their prompts are known to differ only in the form of the answer
    for variant in variants:
        differences = ""
        if score == PASS_RATE:
            differences = ", ".join(unlike_verdicts(baseline, variant))
        if differences:
            unlike.setdefault(differences, []).append(variant.name)
            unlike_runs.add(variant.name)
        if _same_content(baseline, variant):
            same_content.add(variant.name)
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
    yield from _differing_settings(baseline, variants, by_form=bool(same_content), models=models)
    for variant in variants:
        earlier = baseline.fingerprint
        later = variant.fingerprint
        code = [*rehashed_inputs(earlier, later), *rehashed_inputs(later, earlier)]
        if code:
            yield (
                f"Whether {variant.name} and {baseline.name} have the same {', '.join(code)} is "
                "unknown: an earlier version of the harness hashed code differently."
            )
    yield from _differing_inputs(baseline, variants, same_content, unlike_runs)
    every = [baseline, *variants]
    yield from unequal([(variant.name, variant.metrics) for variant in every])
    yield from unequal_tries(every, round_)
    yield from repeated_samples(every)


def _same_content(baseline: Variant, variant: Variant) -> bool:
    ours = baseline.fingerprint
    theirs = variant.fingerprint
    keys = (CONTENT, "shots_sha256")
    return CONTENT in ours and all(ours.get(key) == theirs.get(key) for key in keys)


def _differing_settings(
    baseline: Variant, variants: Sequence[Variant], *, by_form: bool, models: bool
) -> Iterator[str]:
    """Yield sentences on settings that differ. With ``by_form``, some are those of the task."""
    keys: set[str] = set()
    for variant in variants:
        keys.update(changed(baseline, variant))
    if not models and "model.name" in keys and all(key.startswith("model.") for key in keys):
        return
    task_keys = []
    texts: list[str] = []
    for key in sorted(keys):
        if key.startswith("task.") or (by_form and key in FORM_SETTINGS):
            task_keys.append(key)
        else:
            texts += _values(key, [baseline, *variants])
    if task_keys:
        yield f"The variants differ in {', '.join(task_keys)}."
    if texts:
        also = "also " if task_keys else ""
        yield f"The runs {also}differ in {', '.join(texts)}."


def _differing_inputs(
    baseline: Variant,
    variants: Sequence[Variant],
    same_content: Collection[str],
    unlike_runs: Collection[str],
) -> Iterator[str]:
    """Yield sentences on differing hashes of prompts, code and data that no other note reports."""
    of_form: list[str] = []
    forms: set[str] = set()
    scored: list[str] = []
    scored_inputs: set[str] = set()
    for variant in variants:
        inputs = set(unequal_keys(baseline.fingerprint, variant.fingerprint))
        inputs -= {"dataset", "dataset_sha256", DOCUMENTS, CONTENT}  # reported elsewhere
        if confounded(baseline, variant):
            inputs.discard("prompt_sha256")
        if not TEMPLATES.isdisjoint(changed(baseline, variant)):  # these are reported
            inputs.discard(f"template{HASH_SUFFIX}")
            if baseline.metrics.task not in INPUTS_0_1:
                inputs.discard(f"prompt{HASH_SUFFIX}")
        if variant.name in unlike_runs:
            inputs.discard(f"checks{HASH_SUFFIX}")
        if variant.name in same_content and inputs & FORM:
            of_form.append(variant.name)
            forms.update(map(input_name, inputs & FORM))
            inputs -= FORM
        if inputs:
            scored.append(variant.name)
            scored_inputs.update(map(input_name, inputs))
    if of_form:
        yield (
            f"Except for the form of the answer, the prompts of {', '.join(of_form)} say what "
            f"those of {baseline.name} do: the comparison is of {', '.join(sorted(forms))}."
        )
    if scored:
        names = INPUTS | INPUTS_0_1.get(baseline.metrics.task, {})
        inputs_text = ", ".join(names.get(name, name) for name in sorted(scored_inputs))
        yield f"{SCORED_DIFFERENTLY} {inputs_text}: {', '.join(scored)} against {baseline.name}."


def unequal(runs: Sequence[tuple[str, Metrics]]) -> Iterator[str]:
    """Yield a warning for each judge that shares a family with some but not all judged models."""
    judges: dict[str, None] = {}
    for _, metrics in runs:
        judges |= dict.fromkeys(metrics.judges)
    for judge in judges:
        related: dict[str, str] = {}
        others = []
        kind = ""
        for run, metrics in runs:
            judge_facts = metrics.judges.get(judge)
            if judge_facts is None:
                continue
            kind = kind or ("panel" if judge_facts.of else "judge")
            if judge_facts.family is None:
                others.append(run)
            else:
                related[run] = judge_facts.family
        if related and others:
            shared = ", ".join(dict.fromkeys(related.values()))
            yield (
                f"The {kind} {judge!r} shares a family ({shared}) with the model of "
                f"{', '.join(related)} but not with that of {', '.join(others)}: it may prefer its "
                "own kind."
            )


def unequal_tries(runs: Sequence[Variant], round_: int | None = None) -> Iterator[str]:
    """Yield sentences on runs whose numbers of tries differ from those of runs with rounds.

    Rounds after ``round_``, if given, do not count. Runs with a single try per sample are named
    only if they have several samples, which could be measured as tries.
    """
    rounds: dict[str, int] = {}
    for run in runs:
        last = run.settings.get("rounds.max") or 1
        rounds[run.name] = min(last, round_ or last)
    several = [run for run in runs if rounds[run.name] > 1]
    if not several:
        return
    retried: dict[str, int] = {}  # tries of the runs measured by their best sample
    for run in runs:
        form, k = split_k(run.score)
        if k > 1 and form in BEST_OF and rounds[run.name] == 1:
            retried[run.name] = k
        samples = run.settings.get("samples") or 1
        if rounds[run.name] == 1 and samples > 1 and run.score == PASS_RATE:
            names = ", ".join(run.name for run in several)
            which = "has several rounds" if len(several) == 1 else "have several rounds"
            yield (
                f"{names} {which}, but {run.name} is measured by the mean of its "
                f"{samples:,} single samples. To compare with its best of {samples:,}, set "
                f"measure: pass@{samples} for {run.name} and run it again, which repeats no call."
            )
    for run in several:
        form, k = split_k(run.score)
        tries = rounds[run.name] * (k if form in BEST_OF else 1)
        unequal_runs = [f"{k:,} in {name} (pass@{k})" for name, k in retried.items() if k != tries]
        if unequal_runs:
            yield (
                f"{UNEQUAL_TRIES}: up to {tries:,} in {run.name} (rounds), but "
                f"{', '.join(unequal_runs)}. A fair measure of asking again is pass@{tries} of "
                f"{tries:,} samples or more."
            )


def repeated_samples(runs: Sequence[Variant]) -> Iterator[str]:
    """Yield a sentence for each run that is measured over samples with (nearly) all equal texts."""
    for run in runs:
        if run.attempts is None or run.metrics.simulated or split_k(run.score)[1] < 2:
            continue
        if sentence := identical_samples_warning(AttemptIndex(run.attempts, judges=False)):
            yield sentence.replace(":", f" in {run.name}:", 1)


def unlike_verdicts(baseline: Variant, variant: Variant) -> list[str]:
    """Return the differing checks, judges and settings, of those that decide what passes."""
    deciding = {*baseline.deciding, *variant.deciding}
    keys = baseline.settings.keys() & variant.settings.keys() & {*OF_VERDICTS}
    for kind in NAMED_LISTS:
        keys |= {f"{kind}.{name}" for name in deciding}
    names = keys & {*changed(baseline, variant)}
    inputs = unequal_keys(baseline.fingerprint, variant.fingerprint)
    checks = str([variant.settings.get("task.checks")])  # which names their files and plug-ins
    for key in inputs:
        name = input_name(key)
        if repr(name) in checks:
            names.add(name)
    for name in deciding:
        if any(key.startswith(f"judge_{name}_") for key in inputs):
            names.add(name)
    if not names and f"checks{HASH_SUFFIX}" in inputs:
        names = {"the set of checks"}
    return sorted(names)


def refuse_unlike_verdicts(baseline: Variant, variant: Variant) -> None:
    """Raise RunConflict if two runs define differently what passes (`unlike_verdicts`)."""
    differences = unlike_verdicts(baseline, variant)
    if not differences:
        return
    remedy = (
        f"Give {baseline.name!r} the same checks and score its answers again without a call: "
        f"{option('rescore')}. With other judges, start it again: {option('fresh')}; cached "
        "answers cost nothing."
    )
    both = [name for name in variant.metrics.scores if name in baseline.metrics.scores]
    if both:
        remedy += f" Or compare one score: {option('score', both[0])}."
    raise RunConflict(
        f"{variant.name!r} and {baseline.name!r} define differently what passes: they differ "
        f"in {', '.join(differences)}.",
        remedy,
    )


def confounded(baseline: Variant, variant: Variant) -> bool:
    """Return whether the prompts are known to differ in more than the answer's form."""
    ours = baseline.fingerprint.get(CONTENT)
    theirs = variant.fingerprint.get(CONTENT)
    return None not in (ours, theirs) and ours != theirs


def marks_against(baseline: Variant, variant: Variant) -> list[str]:
    """Return the warnings that a table shows next to a run compared with a baseline."""
    marks = variant.marks
    if confounded(baseline, variant):
        marks = [CONFOUNDED, *marks]
    scores = [run.score.replace("_", " ") for run in (variant, baseline) if run.begun]
    if len(set(scores)) > 1:
        marks.append(" against ".join(scores))
    return marks


def changed(baseline: Variant, variant: Variant) -> list[str]:
    """Return the keys of settings that differ. A judge that only one run added later is ignored."""
    differing_keys = []
    for key in baseline.settings.keys() | variant.settings.keys():
        if baseline.settings.get(key) != variant.settings.get(key):
            differing_keys.append(key)
    return differing_keys + unequal_keys(baseline.later, variant.later)


def _values(key: str, variants: Sequence[Variant]) -> Iterator[str]:
    """Yield "KEY (A, B)" for a setting, or for each key of a section, if its values differ."""
    values = [variant.settings.get(key, variant.later.get(key)) for variant in variants]
    by_key = {key: values}
    if all(isinstance(value, dict) for value in values):
        by_key = {}
        for part in sorted(set().union(*values)):
            by_key[part] = [value.get(part) for value in values]
    for part, part_values in by_key.items():
        texts = dict.fromkeys(setting_text(value, f"{part}.") for value in part_values)
        if len(texts) > 1:
            short = [truncate(text, LONGEST) for text in texts]
            if len(short) > 4:
                short[4:] = ["…"]
            yield f"{part} ({', '.join(short)})"


def setting_text(value: Any, prefix: str = "") -> str:
    """Format a setting's value on one line, with ``prefix`` removed from its keys.

    >>> setting_text({"task.shots.n": 1, "task.shots.within": ["source"]}, "task.shots.")
    '{n: 1, within: [source]}'
    """
    if value is None:
        return "null"
    if isinstance(value, dict):
        parts = [f"{key.removeprefix(prefix)}: {setting_text(part)}" for key, part in value.items()]
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(setting_text, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


SHOTS = "task.shots"


def distinguishing(first: Variant, second: Variant) -> list[str]:
    """Return the keys of settings that distinguish two runs in a table."""
    keys = []
    for key in changed(first, second):
        parts = unequal_keys(_section_texts(key, first), _section_texts(key, second))
        for part in parts or [key]:
            if setting(first, part) != setting(second, part):
                keys.append(part)
    return keys


def _section_texts(key: str, run: Variant) -> dict[str, str]:
    return {part: setting_text(value) for part, value in _section(key, run).items()}


def _section(key: str, run: Variant) -> dict[str, Any]:
    value = run.settings.get(key)
    if isinstance(value, dict):
        return value
    if key == SHOTS and isinstance(value, int):
        return {f"{key}.n": value}
    return {}


def setting(run: Variant, key: str) -> str:
    """Return a run's value of a setting as text ("null" if not set)."""
    section = section_of(key)
    value = run.settings.get(key)
    if key != section:
        value = _section(section, run).get(key)
    return setting_text(value, f"{key}.")
