"""Checks run files and builds the parts of their runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from harness.analysis.metrics import PASS_RATE
from harness.config.run_file import RunFile, flatten
from harness.config.sections import split_k
from harness.config.settings import Settings
from harness.declarations import declared_members
from harness.engine import models
from harness.engine.assessment import feedback_template
from harness.engine.changes import check_changes
from harness.engine.infrastructure import run_copies
from harness.engine.job import ONLY_VARIANT, FileVariant, Job, ParaphrasingModel, PlayedUser
from harness.engine.judges import JudgeModel, build_judges
from harness.engine.plan import CachedInstances, FewShotPrompts, run_instances
from harness.engine.recorder import build_observers
from harness.engine.resolving import build_task, resolve_defaults
from harness.engine.turns import instance_at_turn
from harness.errors import ConfigError, DataInvalid, RunConflict, Unparseable, option, suggest_name
from harness.plugin_loader import PYTHON_SUFFIX, Kind, kind
from harness.ports import APPLICATION, CONSTRAINTS, LOGLIKELIHOODS, Backend, Task, overrides_method
from harness.records import ConstraintKind, Decoding, DecodingConstraint, Origin, Request
from harness.scoring.patterns import Pattern
from harness.scoring.validators import validator
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name, runs_of_file

logger = logging.getLogger("harness")

Preparation = Callable[[Mapping[str, RunFile], str, models.Resources], None]
"""Prepares runs before they start, given the runs by variant, the prefix of their names, and the
resources that they share. Each command that runs something calls it, so its module should import
little.
"""


def prepare_data(runs: Mapping[str, RunFile], base: str, resources: models.Resources) -> None:
    """Let plug-ins prepare runs before they start, such as by downloading their data.

    Args:
        runs: The runs by variant.
        base: The prefix of their names.
        resources: What the runs share.
    """
    for members in declared_members("preparations").values():
        for member in members:
            preparation = cast("Preparation", member.load())
            preparation(runs, base, resources)


def prepare(
    run: RunFile,
    name: str,
    settings: Settings,
    *,
    resources: models.Resources | None = None,
    retried: Collection[str] = (),
    variant: FileVariant = ONLY_VARIANT,
    rescore: bool = False,
) -> Job:
    """Build a run's task, models, judges and shots, and check that they suit each other.

    Args:
        run: The run file.
        name: The run's name.
        settings: The settings.
        resources: Shared with other runs of this process (default: new ones).
        retried: Outcomes and finish reasons to retry, besides failed calls.
        variant: The run's variant in a file of several runs.
        rescore: Whether to score the recorded answers again if only the scoring has changed.

    Raises:
        ConfigError: If parts of the run do not suit each other.
        RunConflict: If the run cannot continue.
    """
    folder = RunFolder(settings.runs_dir, name)
    copies = run_copies(settings)
    if copies is not None and (message := copies.pull(folder)):
        logger.warning(message)
    run, session_limit = _keep_larger_limit(run, folder)
    resources = resources or models.Resources(settings)
    run = resolve_defaults(run)
    task = build_task(run, settings)
    data = CachedInstances(task)
    builder = models.ModelBuilder(
        resources,
        run.limits,
        folder.servers,
        task,
        run_instances(run, data),
        run.folder,
        run.parsed_shard,
    )
    run, model = _set_on_error(run, builder.build(run.model), folder)
    paraphraser: ParaphrasingModel | None = None
    user: PlayedUser | None = None
    judges: tuple[JudgeModel, ...] = ()
    shots: FewShotPrompts | None = None
    if run.polish:
        build_paraphraser = Kind("section_builders").load("polish")
        paraphraser = build_paraphraser(run, builder)
    if run.user:
        build_user = Kind("section_builders").load("user")
        user = build_user(run.user, builder, run.seed)
    if run.judges:
        judges = build_judges(run, task, builder)
    if run.task.shots.n:
        task.check_shots()
        build_shots = Kind("section_builders").load("task.shots")
        shots = build_shots(run, task, settings, folder, variant.run_names)
    job = Job(
        run=run,
        folder=folder,
        task=task,
        data=data,
        model=model,
        settings=settings,
        paraphraser=paraphraser,
        user=user,
        judges=judges,
        shots=shots,
        retried=frozenset({"error", *retried}),
        variant=variant,
        observers=build_observers(settings),
        rescore=rescore,
        copies=copies,
        session_limit=session_limit,
    )
    _check_job(job, resources)
    return job


def _keep_larger_limit(run: RunFile, folder: RunFolder) -> tuple[RunFile, int | None]:
    """Keep the limit of earlier sessions if it is larger, and return the session's limit, too."""
    if run.limit is None or not folder.has_attempts():
        return run, None
    recorded_limit = folder.read_config().limit
    if recorded_limit is not None and recorded_limit <= run.limit:
        return run, None
    return run.model_copy(update={"limit": recorded_limit}), run.limit


def _set_on_error(
    run: RunFile, model: models.Model, folder: RunFolder
) -> tuple[RunFile, models.Model]:
    """Fill in ``model.on_error``, and return the run file and its model.

    By default, crashes count as failures if the backend is the system under test itself, rather
    than a way to reach it: a function, or the user's own class without a server. A run that began
    in an earlier version, which excluded crashes, continues to do so.

    Raises:
        ConfigError: If crashes are to count as failures, but the backend calls a provider.
    """
    section = run.model
    on_error = section.on_error
    backends = kind("backends")
    is_own_code = (
        section.backend.endswith(PYTHON_SUFFIX) or section.backend in backends.registered()
    )
    is_application = APPLICATION in model.backend.features
    if on_error == "fail" and not (is_own_code or is_application):
        problem = f"model.on_error: fail is for your own application, not for {section.backend!r}."
        remedy = "Remove it: a provider's failed calls have no verdict, and are made again."
        raise ConfigError(problem, remedy)
    if on_error is None and (is_application or (is_own_code and not model.backend.endpoint)):
        on_error = "fail"
        if folder.has_attempts():
            on_error = folder.read_config().model.on_error or "exclude"
    section = section.model_copy(update={"on_error": on_error})
    return run.model_copy(update={"model": section}), replace(model, section=section)


def _check_job(job: Job, resources: models.Resources) -> None:
    """Check that the parts of a run suit each other, and the run's earlier sessions.

    Raises:
        ConfigError: If sections of the run file do not suit the model, the task or each other.
        RunConflict: If the run cannot continue.
    """
    run = job.run
    backend = job.model.backend
    check_measure(run, job.task)
    if run.rounds.feedback is not None:
        feedback_template(run.rounds.feedback)
    if run.check is not None:
        run.check.check_scores(job.task, run.samples, run.judge_names)
    job.model.check(run)
    check_decoding(run, backend, job.task)
    run.check_conversation(backend)
    run.task.shots.check_backend(run.model.backend, backend)
    if run.budget.usd is not None:
        models.check_prices(job.models, resources)
    check_changes(job)
    if job.shots is not None:
        job.shots.check(job.instances)


def prepare_all(
    runs: Mapping[str, RunFile],
    base: str,
    resources: models.Resources,
    retried: Collection[str] = (),
    only_variant: str = "",
    *,
    rescore: bool = False,
    extends: bool = False,
) -> dict[str, Job]:
    """Prepare the runs of a file, and return them by variant.

    A run is named ``BASE.VARIANT``, or ``BASE`` in a file without variants.

    Args:
        runs: The runs by variant.
        base: The base of their names.
        resources: What the runs share.
        retried: Outcomes and finish reasons to retry, besides failed calls.
        only_variant: The variant to prepare (default: all).
        rescore: Whether to score the recorded answers again if only the scoring has changed.
        extends: Whether earlier runs of other variants still belong to these runs.

    Raises:
        RunConflict: If a run changed, or the base of new variants is the name of another run.
    """
    names = [run_name(base, variant) for variant in runs]
    root = resources.settings.runs_dir
    is_new = not any(RunFolder(root, name).exists() for name in names)
    if is_new and RunFolder(root, base).exists():
        problem = f"There is a run named {base!r}, so this name cannot stand for variants."
        raise RunConflict(problem, f"Choose another name ({option('name', 'NEW')}).")
    earlier_variants = runs_of_file(root, base) if extends else {}
    variant_names = [*dict.fromkeys(filter(None, (*earlier_variants, *runs)))]
    varied_keys = _varied_keys(runs.values())
    jobs: dict[str, Job] = {}
    for name, (variant, run) in zip(names, runs.items(), strict=True):
        if only_variant not in ("", variant):
            continue
        try:
            job = prepare(
                run,
                name,
                resources.settings,
                resources=resources,
                retried=retried,
                variant=FileVariant(variant, names, variant_names, extends, varied_keys),
                rescore=rescore,
            )
            job.fingerprint  # noqa: B018 (a missing package ends all runs before the first call)
            jobs[variant] = job
        except ConfigError as error:
            where = f"Variant {variant!r}: " if variant else ""
            raise ConfigError(f"{where}{error.message}", error.remedy) from None
    return jobs


def _varied_keys(runs: Collection[RunFile]) -> list[str]:
    """Return the keys of the section ``task`` in which run files differ."""
    values: dict[str, list[object]] = {}
    for run in runs:
        for key, value in flatten(run.task.model_dump(mode="json")).items():
            values.setdefault(key, []).append(value)
    varied: list[str] = []
    for key, run_values in values.items():
        if len(run_values) < len(runs) or any(value != run_values[0] for value in run_values):
            varied.append(key)
    return sorted(varied)


LIKELIHOODS_REMEDY = (
    "Use a server with prompt log-probabilities: backend openai_completions with the base_url of "
    "vLLM, SGLang or another server with 'echo', or vllm_server or vllm_engine with protocol: "
    "completions. Or use a variant of the task that generates its answer."
)


def check_decoding(run: RunFile, backend: Backend, task: Task[Any]) -> None:
    """Raise ConfigError if the backend does not accept the parameters of the run or its task."""
    name = run.model.backend
    backend.check_decoding(name, run.decoding)
    constraint = _constraint_kind(run, task)
    if constraint is not None and constraint not in backend.features:
        accepted = ", ".join(sorted(CONSTRAINTS & backend.features)) or "none"
        raise ConfigError(
            f"The backend {name!r} cannot constrain answers by a {constraint} "
            f"(here: {backend.endpoint or 'no server'}; it accepts {accepted}).",
            "If its server can, set model.preset to that server or, for a gateway, to the provider "
            "behind it. model.base_url stays as it is (harness docs providers).",
        )
    _check_needed_features(run, backend, task)
    needs_max_tokens = "max_tokens_required" in backend.features
    if needs_max_tokens and run.decoding.max_tokens is None and not _sets_max_tokens(task):
        raise ConfigError(f"The backend {name!r} needs decoding.max_tokens.", "Set it.")


def _constraint_kind(run: RunFile, task: Task[Any]) -> ConstraintKind | None:
    """Check a run's decoding constraints, and return their kind, or None without constraints."""
    constraint = run.decoding.constraint
    if constraint is None:
        return None
    if isinstance(constraint, DecodingConstraint):
        _check_constraint(constraint)
        return constraint.kind
    if task.constraint_kind is None:
        raise ConfigError(
            f"The task {run.task.name!r} defines no constraint for its answers.",
            "Write the constraint itself, such as decoding.constraint: {regex: …}.",
        )
    for instance in task.instances():  # a row may have no constraint
        for turn in range(task.turns(instance)):
            task.constraint(instance_at_turn(task, instance, [""] * turn))
    return task.constraint_kind


def _check_constraint(constraint: DecodingConstraint) -> None:
    if constraint.json_schema is not None:
        try:
            validator(constraint.json_schema)
        except DataInvalid as error:
            where = "decoding.constraint.json_schema"
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
    if constraint.regex is not None:
        Pattern(constraint.regex, "decoding.constraint.regex")


def _check_needed_features(run: RunFile, backend: Backend, task: Task[Any]) -> None:
    """Raise ConfigError if the backend or the run file lacks what the task needs."""
    name = repr(run.model.backend)
    if preset := run.model.options.get("preset"):
        name += f" with the preset {preset!r}"
    for feature in sorted(task.needed_features - backend.features):
        problem = f"The task needs {feature}, which the backend {name} does not give"
        problem += f" (here: {backend.endpoint or 'offline'})."
        raise ConfigError(problem, LIKELIHOODS_REMEDY if feature == LOGLIKELIHOODS else "")
    if LOGLIKELIHOODS in task.needed_features:
        if run.limits.batch is not None:
            problem = "Log-likelihoods are not requested in batches."
            raise ConfigError(problem, "Remove limits.batch.")
        if run.rounds.max > 1:
            raise ConfigError("Log-likelihoods have no further rounds.", "Set rounds.max to 1.")
    if run.samples < task.needed_samples:
        problem = f"The task's metrics are over {task.needed_samples} samples per instance."
        raise ConfigError(problem, f"Set samples: {task.needed_samples}.")


def _sets_max_tokens(task: Task[Any]) -> bool:
    """Return whether the task sets ``max_tokens`` itself, judging by its first instance."""
    if not overrides_method(task, Task.adapted_request):
        return False
    first = next(iter(task.instances()), None)
    if first is None:
        return False
    origin = Origin(first.id, 0, 1)
    request = Request("", task.messages(first, ()), Decoding(), 0, origin)
    return task.adapted_request(first, request).decoding.max_tokens is not None


MAX_SCORED_INSTANCES = 100  # whose scores are searched for that of `measure`


def check_measure(run: RunFile, task: Task[Any]) -> None:
    """Raise ConfigError if no answer of the run can have the score that ``measure`` names."""
    measure = run.measure
    if measure is None:
        return
    if "@" in measure or "^" in measure:
        if not 0 < split_k(measure)[1] <= run.samples:
            problem = f"measure: {measure!r:.60} is not one of {run.samples:,} samples."
            raise ConfigError(problem, "Write pass@K, pass^K or any@K, with K up to samples.")
        return
    score_names = {PASS_RATE, *run.judge_names}
    for instance in islice(task.instances(), MAX_SCORED_INSTANCES):
        if measure in score_names:
            return
        last_turn = instance_at_turn(task, instance, [""] * (task.turns(instance) - 1))
        with suppress(Unparseable):
            score_names |= task.score(last_turn, task.reference(last_turn) or "-").keys()
    if measure not in score_names:
        problem = f"measure: {measure!r:.60} is not a score of the task or of a judge."
        remedy = f"{suggest_name(measure, sorted(score_names))} Or write pass@K, pass^K or any@K."
        raise ConfigError(problem, remedy)
