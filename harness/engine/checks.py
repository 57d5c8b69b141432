"""Checks a run file against its backend and its task, before any call."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from harness.analysis.metrics import PASS_RATE
from harness.config.prices import FREE
from harness.config.run_file import RunFile, of_k
from harness.config.sections import CheckSection
from harness.engine.models import Model
from harness.engine.plan import refuse_tools
from harness.engine.turns import as_of, turns_of
from harness.errors import ConfigError, DataInvalid, Unparseable, nearest
from harness.ports import (
    CONSTRAINTS,
    LOGLIKELIHOODS,
    Backend,
    Constraining,
    NamesScores,
    Paraphrasable,
    Requesting,
    Task,
)
from harness.records import Decoding, DecodingConstraint, Origin, Request
from harness.store.files import make_folder

logger = logging.getLogger("harness")

OWN_ABBREVIATIONS = "own abbreviations"  # in the name of a splitter without NLTK's parameters
LOOKED_AT = 100  # instances among whose scores `measure` is looked up


def check_supported(run: RunFile, model: Model, task: Task[Any]) -> None:
    """Raise ConfigError if a setting is missing, unsupported, or conflicts with another."""
    name, backend, shots = run.model.backend, model.backend, run.task.shots
    if run.measure is not None:
        _check_measure(run, run.measure, task)
    if run.check is not None:
        check_bounds(run, run.check, task)
    if backend.cacheable and not run.model.name:
        raise ConfigError(f"The backend {name!r} needs model.name.", "Name the model to call.")
    # A seed is always accepted: it also sets the order of instances and seeds simulations.
    refused = sorted(run.decoding.given().keys() - backend.features - {"constraint"})
    if refused:
        keys = ", ".join(f"decoding.{key}" for key in refused)
        here = f" (here: {backend.endpoint})" if backend.endpoint else ""
        raise ConfigError(
            f"The backend {name!r} does not accept {keys}{here}.",
            "Remove it, or set it to null. 'harness docs providers' says what backends accept.",
        )
    _check_constraint(run, backend, task)
    if isinstance(task, Requesting):
        _check_needs(run, backend, task)
    # Names of constraints in vLLM before version 0.12; newer versions silently ignore them.
    old = sorted(key for key in run.decoding.extra if key.startswith("guided_"))
    if old and "regex" in backend.features:
        problem = f"vLLM no longer knows decoding.extra.{old[0]}, and would ignore it."
        raise ConfigError(problem, "Set decoding.constraint (harness docs providers).")
    limited = run.decoding.max_tokens is not None
    if "max_tokens_required" in backend.features and not (limited or _sets_max_tokens(task)):
        raise ConfigError(f"The backend {name!r} needs decoding.max_tokens.", "Set it.")
    if "conversation" not in backend.features and run.rounds.max > 1:
        problem = f"The backend {name!r} accepts a single prompt, not a conversation."
        raise ConfigError(problem, "Set rounds.max to 1.")
    if run.rounds.max > 1:
        refuse_tools(run.decoding, f"rounds.max is {run.rounds.max}")
    if run.user is not None:
        refuse_tools(run.decoding, "a model plays the user")
    if model.limits.samples_per_call > 1 and run.seed is not None and "seed" in backend.features:
        problem = "limits.samples_per_call is set, but each sample has a seed of its own."
        raise ConfigError(problem, "Set seed: null to draw samples together, without seeds.")
    if model.tier and model.limits.batch:
        raise ConfigError("Batches have no service tiers.", "Remove model.service_tier or batch.")
    if shots.n and run.task.name == "lm_eval":
        problem = "lm-eval puts few-shot examples into its prompts itself."
        raise ConfigError(problem, "Set task.num_fewshot instead of task.shots.")
    by_text = shots.form == "message" and "by_instance" not in backend.features
    if shots.n and "recorded" in backend.features and not by_text:
        raise ConfigError(
            f"The backend {name!r} may replay zero-shot answers as few-shot answers.",
            "Remove task.shots; or record few-shot answers, and replay them with "
            "task.shots.form: message and model.match: prompt.",
        )
    if "conversation" not in backend.features and shots.n and shots.form == "turns":
        problem = f"The backend {name!r} accepts a single prompt, not shots as turns."
        raise ConfigError(problem, "Set task.shots.form to message.")
    if run.polish is not None and not isinstance(task, Paraphrasable):
        problem = f"The task {run.task.name!r} does not support paraphrasing (polish)."
        raise ConfigError(problem, "Remove polish from the run file.")
    if run.polish is not None and not run.polish.name:
        raise ConfigError("polish.name is missing.", "Name the model that rewrites.")
    if run.budget.usd is not None and model.price != FREE and not limited:
        problem = "budget.usd is set, but the length of an answer is not limited."
        raise ConfigError(problem, "Set decoding.max_tokens.")


def check_splitter(fingerprint: Mapping[str, str], folder: Path, *, simulated: bool) -> None:
    """Warn, once per ``folder``, if real data are scored without NLTK's parameters."""
    published, reported = fingerprint.get("dataset") != "builtin", folder / "splitter_reported"
    if not published or simulated or OWN_ABBREVIATIONS not in fingerprint.get("splitter", ""):
        return
    if reported.exists():
        return
    with suppress(OSError):
        make_folder(folder)
        reported.touch()
    logger.warning(
        "NLTK's sentence parameters are missing, so a few verdicts differ from the published "
        "ones. To install them: harness data fetch punkt"
    )


def _check_measure(run: RunFile, measure: str, task: Task[Any]) -> None:
    if "@" in measure or "^" in measure:
        if not 0 < of_k(measure)[1] <= run.samples:
            problem = f"measure: {measure!r:.60} is not one of {run.samples:,} samples."
            raise ConfigError(problem, "Write pass@K, pass^K or any@K, with K up to samples.")
        return
    known = {PASS_RATE, *(judge.as_ for judge in run.judges), *(panel.as_ for panel in run.panels)}
    for instance in islice(task.instances(), LOOKED_AT):
        if measure in known:
            return
        last = as_of(task, instance, [""] * (turns_of(task, instance) - 1))
        with suppress(Unparseable):
            known |= task.score(last, task.reference(last) or "-").keys()
    if measure not in known:
        problem = f"measure: {measure!r:.60} is not a score of the task or of a judge."
        remedy = f"{nearest(measure, sorted(known))} Or write pass@K, pass^K or any@K."
        raise ConfigError(problem, remedy)


def check_bounds(run: RunFile, check: CheckSection, task: Task[Any]) -> None:
    """Raise ConfigError if bounds are on scores that the run's answers cannot have."""
    if not isinstance(task, NamesScores):
        return
    if over := [name for name in check.scores if of_k(name)[1] > run.samples]:
        problem = f"check: {over[0]!r:.60} needs more than samples: {run.samples}."
        raise ConfigError(problem, "Raise samples, or lower the number after '@' or '^'.")
    judges = {judge.as_ for judge in run.judges} | {panel.as_ for panel in run.panels}
    known = {PASS_RATE}
    # A name with a dot may be the score of a judge that is added after the run.
    unknown = {name for name in check.scores if not of_k(name)[1] and "." not in name} - known
    for instance in task.instances() if unknown else ():
        known.update(task.score_names(instance))
        if unknown <= known:
            return
    for name in sorted(unknown - known):
        remedy = nearest(name, known)
        if name in judges:
            remedy = f"Write '{name}.SCORE'; 'harness docs judges' lists the scores of judges."
        problem = f"check: {name!r:.60} is not a score of the task or of a judge."
        raise ConfigError(problem, remedy)


LIKELIHOODS_REMEDY = (
    "Use a server with prompt log-probabilities: backend openai_completions with the base_url of "
    "vLLM, SGLang or another server with 'echo', or vllm_server or vllm_engine with protocol: "
    "completions. Or use a variant of the task that generates its answer."
)


def _check_needs(run: RunFile, backend: Backend, task: Requesting[Any]) -> None:
    name, here = repr(run.model.backend), backend.endpoint or "offline"
    if preset := run.model.options.get("preset"):
        name += f" with the preset {preset!r}"
    for feature in sorted(task.needed_features - backend.features):
        problem = f"The task needs {feature}, which the backend {name} does not give"
        problem += f" (here: {here})."
        raise ConfigError(problem, LIKELIHOODS_REMEDY if feature == LOGLIKELIHOODS else "")
    if LOGLIKELIHOODS in task.needed_features and run.limits.batch is not None:
        raise ConfigError("Log-likelihoods are not requested in batches.", "Remove limits.batch.")
    if LOGLIKELIHOODS in task.needed_features and run.rounds.max > 1:
        raise ConfigError("Log-likelihoods have no further rounds.", "Set rounds.max to 1.")
    if run.samples < task.needed_samples:
        problem = f"The task's metrics are over {task.needed_samples} samples per instance."
        raise ConfigError(problem, f"Set samples: {task.needed_samples}.")


def _sets_max_tokens(task: Task[Any]) -> bool:
    first = next(iter(task.instances()), None) if isinstance(task, Requesting) else None
    if first is None or not isinstance(task, Requesting):
        return False
    origin = Origin(first.id, 0, 1)
    request = Request("", task.messages(first, ()), Decoding(), 0, origin)
    return task.adapted_request(first, request).decoding.max_tokens is not None


def _check_constraint(run: RunFile, backend: Backend, task: Task[Any]) -> None:
    constraint = run.decoding.constraint
    if constraint is None:
        return
    if isinstance(constraint, DecodingConstraint):
        wanted = constraint.kind
        _check_valid(constraint)
    elif isinstance(task, Constraining):
        wanted = task.constraint_kind
        for instance in task.instances():  # a row may have no constraint
            for turn in range(turns_of(task, instance)):
                task.constraint(as_of(task, instance, [""] * turn))
    else:
        raise ConfigError(
            f"The task {run.task.name!r} defines no constraint for its answers.",
            "Write the constraint itself, such as decoding.constraint: {regex: …}.",
        )
    if wanted not in backend.features:
        taken = ", ".join(sorted(CONSTRAINTS & backend.features)) or "none"
        raise ConfigError(
            f"The backend {run.model.backend!r} cannot constrain answers by a {wanted} "
            f"(here: {backend.endpoint or 'no server'}; it accepts {taken}).",
            "If its server can, set model.preset to that server or, for a gateway, to the provider "
            "behind it. model.base_url stays as it is (harness docs providers).",
        )


def _check_valid(constraint: DecodingConstraint) -> None:
    if constraint.json_schema is not None:
        from harness.scoring.validators import validator

        try:
            validator(constraint.json_schema)
        except DataInvalid as error:
            where = "decoding.constraint.json_schema"
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
    if constraint.regex is not None:
        from harness.scoring.patterns import Pattern

        Pattern(constraint.regex, "decoding.constraint.regex")
