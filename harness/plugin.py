"""What a plug-in imports: the base classes of its members, and `Plugin`, its declaration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from harness.ports import Backend as Backend
    from harness.ports import Checker as Checker
    from harness.ports import Claim as Claim
    from harness.ports import DataTable as DataTable
    from harness.ports import Effect as Effect
    from harness.ports import FigureKind as FigureKind
    from harness.ports import Judge as Judge
    from harness.ports import Loader as Loader
    from harness.ports import Measure as Measure
    from harness.ports import Metric as Metric
    from harness.ports import Observer as Observer
    from harness.ports import PaperTable as PaperTable
    from harness.ports import TableFigure as TableFigure
    from harness.ports import Task as Task


def __getattr__(name: str) -> Any:
    """Import a base class on access: the declarations of all plug-ins are read by each command."""
    if name[:1].isupper():
        return getattr(import_module("harness.ports"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Members = Mapping[str, str]
"""Members of one kind: references to classes or factories, by their names in run files.

A reference has the form ``MODULE:NAME``. A module whose name begins with a dot is relative to the
declaration. The key ``FAMILY:*`` stands for all entries of a table, each of which is named
``FAMILY:ENTRY``.
"""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb of the command line.

    Attributes:
        summary: Its line in ``harness --help``.
        heading: The heading above this line.
        target: A reference to its function, or to a `harness.cli.verbs.VerbGroup`.
        executes: Whether it executes Python files that run files, runs or arguments name.
        former_options: Former names of options, which are still accepted.
        subverbs: References to functions that run instead if the first argument is their name.
            They execute no Python file.
        completes: A reference to the function that completes its arguments for the shell, or "".
            The function's module should import little.
    """

    summary: str
    heading: str
    target: str
    executes: bool = False
    former_options: Mapping[str, str] = field(default_factory=dict)
    subverbs: Members = field(default_factory=dict)
    completes: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """A view of saved runs: ``harness show RUN --NAME``, with underscores as hyphens.

    Attributes:
        summary: The option's line in ``harness show --help``.
        target: A reference to a function that takes a list of
            `harness.store.run_folder.RunFolder` and the value of ``--by`` (a label, or ""), and
            returns a `harness.report.table.TableDocument`.
    """

    summary: str
    target: str


CheckupState = Literal["ok", "lack", "broken"]


@dataclass(frozen=True, slots=True)
class CheckupFinding:
    """A finding that a plug-in's check contributes to ``harness doctor``.

    Attributes:
        state: ``lack`` stops some runs, and ``broken`` stops all.
        name: What was checked.
        detail: The state in words, such as a version or an error message.
        remedy: What to do, or "".
    """

    state: CheckupState
    name: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class NamedTask:
    """A task whose data users name, as in ``harness eval TASK:NAME``.

    Attributes:
        option: The option of the task that takes NAME.
        left_out: A regular expression for the parts of NAME that are removed for a run's name.
        limits_answers: Whether the data limit the length of answers. ``harness eval`` then sets no
            ``decoding.max_tokens``.
    """

    option: str
    left_out: str = ""
    limits_answers: bool = False


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """What a plug-in brings: the object ``plugin`` of the module that its entry point names.

    The entry point is in the group ``harness``. The module should import nothing else, so
    that commands that do not need the plug-in stay fast.

    Attributes:
        summary: What the plug-in is for, in one line.
        requires: The plug-ins whose modules it imports, by the names of their entry points.
        api: Functions of the Python API, by name: ``harness.NAME``.
        results: Classes of what these functions and `harness.results.RunResult` return, by name:
            ``harness.results.NAME``.
        cautions: Functions that take a run's `harness.store.index.AttemptIndex`, and return
            sentences about problems with its answers, such as ignored decoding parameters. They are
            not called for simulated answers.
        measurements: Functions that compute fields of a run's `harness.analysis.metrics.Metrics`,
            by field. They take the `harness.store.run_folder.RunFolder`, the
            `harness.store.columns.AttemptTable`, and the `harness.store.index.AttemptIndex`, which
            is None if only the table may be read. They return the field's value, or None.
        figures: Functions that write figures for other verbs, as the report's do.
        section_builders: Functions that build something from a section of a run file, by its key:
            ``panels`` (`harness.engine.judges.JudgePanel`), ``polish``
            (`harness.engine.job.ParaphrasingModel`), ``task.shots``
            (`harness.engine.plan.FewShotPrompts`), ``judges.against``
            (`harness.ports.OtherAnswers`), ``task.choices``
            (`harness.tasks.items.QuestionForm`) and ``user``
            (`harness.engine.job.PlayedUser`).
        table_figures: Kinds of figures in tables (`FigureKind`).
        suite_documents: Functions that build documents about several runs, given their folders:
            ``suite`` the table of models and benchmarks of runs of several tasks
            (`harness.report.runs.suite_document`), and ``variants`` the comparison of the variants
            of a run file (`harness.report.runs.variants_document`).
        call_layers: Functions that build layers of the call stack, by name
            (`harness.engine.infrastructure`).
        sections: The types of keys of run files that the core leaves to plug-ins, by key.
        batches: Functions that build the batches of a backend's provider, by the backend's name
            (`harness.plugins.batches.provider`).
        preparations: Functions that are called before runs start, such as to download their data
            (`harness.engine.preparation.Preparation`).
        run_steps: Functions for steps of runs, by the name of the step: ``dry_run``
            (`harness.engine.job.ShowPlans`), ``confirm`` (`harness.engine.job.Confirm`),
            ``rescore`` (`harness.engine.job.Rescore`) and ``watch``
            (`harness.engine.progress.Watch`).
        report_sections: What it adds to reports, by section (`harness.plugins.report.runs`).
        data_sets: The name of a YAML file beside the declaration, with the data sets that
            ``harness data fetch`` downloads: see `harness.datasets.catalogue`.
        named_tasks: Those of its tasks whose data users name.
        removed_options: Options that an earlier version had, as ``PLUGIN.OPTION``, and the values
            of saved run files that changed no verdict. PLUGIN is a name in run files.
        study: The name of a YAML file beside the declaration, with the values of a paper that
            ``harness reproduce NAME`` compares, where NAME is that of the entry point.
        document_formats: Formats of documents besides JSON, which the check ``json_schema`` reads:
            functions that return the value of a text, given a schema, or raise
            `harness.scoring.validators.UnparseableDocument`.
        schema_validators: Classes of `harness.scoring.validators.Validator`, which get the schema:
            the modes of the check ``json_schema`` besides ``strict``.
        extensions: What it adds to other plug-ins, by the kind that one of them reads
            (`harness.declarations.declared_members`).
        judge_prompts: Judges' prompts that are downloaded: maps the name of a prompt to that of
            its data set.
    """

    summary: str
    requires: tuple[str, ...] = ()
    tasks: Members = field(default_factory=dict)
    backends: Members = field(default_factory=dict)
    checkers: Members = field(default_factory=dict)
    judges: Members = field(default_factory=dict)
    metrics: Members = field(default_factory=dict)
    measures: Members = field(default_factory=dict)
    loaders: Members = field(default_factory=dict)
    filters: Members = field(default_factory=dict)
    post_processors: Members = field(default_factory=dict)
    observers: Members = field(default_factory=dict)
    document_formats: Members = field(default_factory=dict)
    schema_validators: Members = field(default_factory=dict)
    call_layers: Members = field(default_factory=dict)
    section_builders: Members = field(default_factory=dict)
    batches: Members = field(default_factory=dict)
    clusters: Members = field(default_factory=dict)
    checkups: Members = field(default_factory=dict)
    run_copies: Members = field(default_factory=dict)
    sections: Members = field(default_factory=dict)
    measurements: Members = field(default_factory=dict)
    cautions: Members = field(default_factory=dict)
    preparations: Members = field(default_factory=dict)
    run_steps: Members = field(default_factory=dict)
    api: Members = field(default_factory=dict)
    results: Members = field(default_factory=dict)
    figures: Members = field(default_factory=dict)
    table_figures: Members = field(default_factory=dict)
    suite_documents: Members = field(default_factory=dict)
    report_sections: Members = field(default_factory=dict)
    named_tasks: Mapping[str, NamedTask] = field(default_factory=dict)
    removed_options: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    data_sets: str = ""
    study: str = ""
    extensions: Mapping[str, Members] = field(default_factory=dict)
    judge_prompts: Mapping[str, str] = field(default_factory=dict)
    verbs: Mapping[str, Verb] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
