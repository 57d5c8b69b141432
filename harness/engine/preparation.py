"""Checks run files and builds the parts of their runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine import models
from harness.engine.changes import check_changes
from harness.engine.checks import check_supported
from harness.engine.crashes import with_on_error
from harness.engine.job import ONLY_VARIANT, FileVariant, Job
from harness.engine.observing import build_observers
from harness.engine.plan import HeldInstances, run_instances
from harness.engine.remote import remote_runs
from harness.engine.resolving import build_task, resolved
from harness.errors import ConfigError, RunConflict, option
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name

if TYPE_CHECKING:
    from harness.engine.judges import JudgeModel  # not imported for a run without judges


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
    """Check a run file, and build its task, models, judges and shots.

    ``resources`` are shared with other runs of this process (default: new ones). Failed calls, and
    attempts whose outcome or finish reason is in ``retried``, are to be made again. ``variant`` is
    the run's place in a file of several runs. With ``rescore``, a run whose scoring alone has
    changed is scored again.
    """
    folder, remote = RunFolder(settings.runs_dir, name), remote_runs(settings)
    if remote is not None:
        remote.pull(folder)
    resources = resources or models.Resources(settings)
    run, only = resolved(run), None
    if folder.begun():
        limit, before = run.limit, folder.read_config().limit
        if limit is not None and (before is None or before > limit):
            run, only = run.model_copy(update={"limit": before}), limit
    task = build_task(run, settings)
    data = HeldInstances(task)
    asked = run_instances(run, data)
    builder = models.ModelBuilder(
        *(resources, run.limits, folder.servers, task, asked), run.folder, run.part
    )
    run, model = with_on_error(run, builder.build(run.model), folder)
    check_supported(run, model, task)
    paraphraser = builder.build(run.polish, "polish") if run.polish else None
    user = None
    judges: tuple[JudgeModel, ...] = ()
    shots = None
    if run.user:
        from harness.engine.played_user import build_user

        user = build_user(run.user, builder, run.seed)
    if run.judges:
        from harness.engine.judges import build_judges

        judges = build_judges(run, task, builder)
    if run.task.shots.n:
        from harness.engine.shots import build_shots

        shots = build_shots(run, task, settings, folder, variant.runs)
    job = Job(
        *(run, folder, task, data, model, settings),
        paraphraser=paraphraser,
        user=user,
        judges=judges,
        shots=shots,
        retried=frozenset({"error", *retried}),
        variant=variant,
        observers=build_observers(settings),
        rescore=rescore,
        remote=remote,
        only=only,
    )
    if run.budget.usd is not None:
        models.check_prices(job.models, resources)
    check_changes(job)
    if shots is not None:
        shots.check(job.instances)
    return job


def prepare_all(
    runs: Mapping[str, RunFile],
    base: str,
    resources: models.Resources,
    retried: Collection[str] = (),
    only: str = "",
    *,
    rescore: bool = False,
    extends: bool = False,
) -> dict[str, Job]:
    """Prepare the runs of a file, and return them by variant.

    A run is named ``BASE.VARIANT``, or ``BASE`` in a file without variants. ``only`` selects one
    variant. ``extends`` says whether earlier runs of other variants still belong to these runs.

    Raises:
        RunConflict: If a run changed, or the base of new variants is the name of another run.
    """
    names = [run_name(base, variant) for variant in runs]
    root = resources.settings.runs_dir
    new = not any(RunFolder(root, name).exists() for name in names)
    if new and RunFolder(root, base).exists():
        problem = f"There is a run named {base!r}, so this name cannot stand for variants."
        raise RunConflict(problem, f"Choose another name ({option('name', 'NEW')}).")
    prepared = partial(prepare, resources=resources, retried=retried, rescore=rescore)
    jobs: dict[str, Job] = {}
    for name, (variant, run) in zip(names, runs.items(), strict=True):
        if only not in ("", variant):
            continue
        member = FileVariant(variant, names, () if extends else [*filter(None, runs)])
        settings = resources.settings
        try:
            jobs[variant] = job = prepared(run, name, settings, variant=member)
            job.fingerprint  # noqa: B018 (a missing package ends all runs before the first call)
        except ConfigError as error:
            where = f"Variant {variant!r}: " if variant else ""
            raise ConfigError(f"{where}{error.message}", error.remedy) from None
    return jobs
