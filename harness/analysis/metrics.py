"""The contents of `metrics.json`, which `harness.analysis.summary` computes.

Each rate comes with its number of samples. A rate that could not be measured is null, never 0.
"""

from __future__ import annotations

import contextlib
from math import fsum
from pathlib import Path

import msgspec
from msgspec import Struct, field

from harness.errors import DataInvalid
from harness.records import METRICS_VERSION, CallTotals, Outcome, Usage
from harness.store.json_lines import DECODE_ERRORS

PASS_RATE = "pass_rate"  # noqa: S105 (not a password)
"""The name of the verdict (pass or fail) where the name of a score is expected."""
UNJUDGED_WARNING_SHARE = 0.05  # minimum share of unjudged samples or pairs for a warning
MAX_SCORES_IN_REPR = 4

Interval = tuple[float, float]


class Statistic(Struct, frozen=True, kw_only=True):
    """A statistic of n values in n_clusters clusters. Fields that cannot be estimated are None."""

    mean: float | None = None
    stderr: float | None = None
    ci95: Interval | None = None
    n: int = 0
    n_clusters: int = 0
    effective_n: float | None = None  # the effective sample size of a share


class SampleStatistic(Statistic, frozen=True, kw_only=True):
    """A statistic over samples, excluding the ``missing`` samples that have no value."""

    missing: int = 0


class Rate(SampleStatistic, frozen=True, kw_only=True):
    """The share of samples that pass in their last round, with its 95% interval.

    A scripted conversation passes if all its turns pass. The interval is Clopper and Pearson's for
    the effective sample size. Samples without a verdict (infrastructure error, failed judge) are
    missing.
    """

    mean: float | None = field(name="pass_rate")
    missing: int = field(default=0, name="not_judged")
    naive_stderr: float | None = None  # as if all samples were independent
    pass_rate_errors_as_failures: float | None = None  # passed / all samples: a lower bound
    cluster_rate: float | None = None  # mean of the clusters' pass rates, equally weighted
    cluster_rate_stderr: float | None = None

    @property
    def pass_rate(self) -> float | None:
        """The share of the judged samples that pass, or None if there are none."""
        return self.mean

    @property
    def not_judged(self) -> int:
        """The number of samples without a verdict."""
        return self.missing


class Mean(SampleStatistic, frozen=True, kw_only=True):
    """The mean of a score over the samples' last rounds.

    The interval is that of `Rate` if the score is a share (its values are verdicts, or numbers that
    the scorer declares as shares), and otherwise a t interval.
    """

    mean: float
    missing: int = field(default=0, name="not_measured")

    @property
    def not_measured(self) -> int:
        """The number of samples without a value."""
        return self.missing


class Rounds(Struct, frozen=True, kw_only=True):
    """Pass rates by round number, from 1.

    With `stop_on_pass`, ``each`` covers only samples that have not passed before, so check `n`
    before comparing. ``any_of_first_k`` covers the samples with a verdict in one of the first k
    rounds. A sample that passed in none of them counts as failed: excluding it because a round is
    missing would make the rate too high.
    """

    each: dict[int, float]  # pass rate of the n judged attempts of a round
    each_stderr: dict[int, float | None]
    n: dict[int, int]
    any_of_first_k: dict[int, float]  # share that passed in round k or before
    any_of_first_k_stderr: dict[int, float | None]
    any_of_first_k_n: dict[int, int]
    fixed: dict[int, int] = {}  # samples that failed in the previous round and pass in this one
    broken: dict[int, int] = {}  # samples that passed in the previous round and fail in this one


class TurnRate(Rate, frozen=True, kw_only=True):
    """The pass rate and the scores of answers to one user turn of scripted conversations."""

    n_answers: int  # conversations that reached the turn, including failed calls
    scores: dict[str, Mean] = {}


class Group(Rate, frozen=True, kw_only=True):
    """The statistics of one group, as in `Metrics`."""

    instances: str = ""  # a hash of the instances' ids
    scores: dict[str, Mean] = {}
    pass_at_k: dict[int, float]
    pass_at_k_stderr: dict[int, float | None]
    pass_at_k_instances: int
    pass_at_k_n: dict[int, int] = {}
    pass_at_k_ci95: dict[int, Interval | None] = {}
    pass_hat_k: dict[int, float] = {}
    pass_hat_k_stderr: dict[int, float | None] = {}
    pass_hat_k_ci95: dict[int, Interval | None] = {}
    rounds: Rounds


class JudgeFacts(CallTotals, frozen=True, kw_only=True):
    """A judge of the run with the totals of its calls, or a panel of judges."""

    model: str = ""
    family: str | None = None  # set if shared with the run's model: a judge may favour its family
    of: tuple[str, ...] = ()  # for a panel, its judges


class ReferenceScore(Mean, frozen=True, kw_only=True):
    """A judge's or panel's mean score for the data set's reference answers."""

    n_pairs: int = 0  # instances with both values, equally weighted
    n_pair_clusters: int = 0
    difference: float | None = None  # over the pairs, the run's mean minus the references'
    difference_stderr: float | None = None
    difference_ci95: Interval | None = None


class PositionRates(Struct, frozen=True, kw_only=True):
    """How often the option at one position of multiple-choice questions is chosen."""

    option: str  # its letter
    n_right: int  # answers for which it is the right option
    chosen: Statistic  # share of the answers that choose it
    excess: Statistic  # that share minus the share for which it is right
    passed: Statistic  # share of the answers for which it is right that choose it


class PositionBias(Struct, frozen=True, kw_only=True):
    """The effect of an option's position on how often it is chosen, over answers of round 1.

    The p value is null if there are no wrong answers, or if they cancel within each cluster.
    """

    n: int
    n_clusters: int
    missing: int = 0  # answers that choose no option
    positions: list[PositionRates]
    chi_squared: float | None = None
    degrees: int = 0
    p_value: float | None = None


def unanswerable_note(n: int, total: int | None = None) -> str:
    """Return a sentence about instances that a simulated model cannot answer.

    Args:
        n: Their number. With 0, the result is "".
        total: The number of all instances, or None if it is unknown.
    """
    if n == 0:
        return ""
    count = f"{n:,}" if total is None else f"{n:,} of {total:,}"
    return (
        f"The simulated model knows no correct answer to {count} instances, which have no "
        "reference answer: its accuracy does not apply to them."
    )


def all_cached_note(runs: str = "") -> str:
    """Return a sentence that says that all of the model's replies come from the cache.

    Args:
        runs: The names of the runs, as text, or "" if there is only one.
    """
    in_runs = f" in {runs}" if runs else ""
    return (
        f"The model's replies{in_runs} all come from the cache: the calls were made by other runs. "
        "For new answers, set model.cache: run, or another model.version."
    )


class Metrics(Struct, frozen=True, kw_only=True):
    """The contents of `metrics.json`. For an incomplete run, they cover the samples so far.

    pass_at_k is the mean over instances of the probability that at least one of k samples passes;
    pass_hat_k, that all of them pass. They cover the pass_at_k_n instances with at least k judged
    samples; pass_at_k_instances have at least one. Instances have equal weight, unlike in
    `pass_rate`. (Runs summarised by earlier versions lack pass_at_k_n: each k that they have covers
    all pass_at_k_instances.)
    """

    schema_version: int = METRICS_VERSION
    run: str
    task: str
    model: str | None
    simulated: bool
    complete: bool = True  # no sample is unfinished; a failed call counts as finished
    n_planned: int | None = None  # samples of the whole run; null if unknown
    n_owed: int | None = None  # unfinished samples; null if unknown
    n_unanswerable: int = 0  # instances of the run to which a simulated model knows no answer
    from_cache: bool = False  # whether all of the model's replies were paid for by other runs
    ignored_settings: list[str] = []  # sentences about parameters that the server seems to ignore
    n_instances: int
    n_samples: int
    n_attempts: int
    n_clusters: int
    outcomes: dict[Outcome, int]
    overall: Rate
    measure: str | None = None  # the run's primary metric; null for the pass rate
    scores: dict[str, Mean] = {}
    groups: dict[str, dict[str, Group]]  # by label, then group
    pass_at_k: dict[int, float]
    pass_at_k_stderr: dict[int, float | None]
    pass_at_k_instances: int
    pass_at_k_n: dict[int, int] = {}
    pass_at_k_ci95: dict[int, Interval | None] = {}
    pass_hat_k: dict[int, float] = {}
    pass_hat_k_stderr: dict[int, float | None] = {}
    pass_hat_k_ci95: dict[int, Interval | None] = {}
    n_solved: int = 0  # instances that passed in any round of any sample
    rounds: Rounds
    turns: dict[int, TurnRate] = {}  # of scripted conversations, from 1; these have no rounds
    n_calls: int  # answered, superseded attempts' ones included; a shared call counts once
    n_cached_calls: int = 0  # part of n_calls; made by other runs, replies came from the cache
    n_crashed_calls: int = 0  # not part of n_calls; of the application; tokens and cost unknown
    usage: Usage | None  # of the calls whose usage is known; null if there are none
    n_calls_without_usage: int
    cost_usd: float | None  # null if any call's cost is unknown
    cost_per_solved_usd: float | None = None
    known_cost_usd: float
    paid_usd: float = 0.0  # part of known_cost_usd; the rest came from the cache
    computed_usd: float = 0.0  # part of known_cost_usd; priced after the calls, by their tokens
    n_calls_without_cost: int
    model_calls: CallTotals | None = None  # of the run's own model; null if no other is used
    user_calls: CallTotals | None = None  # of the model that plays the user; null without one
    judges: dict[str, JudgeFacts] = {}  # a call shared by two judges counts in both
    references: dict[str, ReferenceScore] = field(default={}, name="golds")
    aggregates: dict[str, dict[str, float]] = {}  # computed by the task, by part and metric
    positions: PositionBias | None = None  # null unless options are chosen

    @property
    def pass_rate(self) -> float | None:
        """The pass rate over all judged samples, or None if there are none."""
        return self.overall.mean

    @property
    def ci95(self) -> Interval | None:
        """The 95% confidence interval of the pass rate, or None if it cannot be estimated."""
        return self.overall.ci95

    @property
    def stderr(self) -> float | None:
        """The standard error of the pass rate, or None if it cannot be estimated."""
        return self.overall.stderr

    @property
    def n(self) -> int:
        """The number of judged samples."""
        return self.overall.n

    @property
    def not_judged(self) -> int:
        """The number of samples without a verdict."""
        return self.overall.missing

    @property
    def main_model_calls(self) -> Metrics | CallTotals:
        """The totals of the calls of the run's model, without judges and played users."""
        return self.model_calls or self

    @property
    def judging_usd(self) -> float | None:
        """The cost of the judges' calls in US dollars, or None if a judge's cost is unknown."""
        costs = [judge.cost_usd for judge in self.judges.values() if judge.n_calls]
        return None if None in costs else fsum(filter(None, costs))

    def n_of_k(self, k: int) -> int:
        """Return the number of instances that `pass_at_k` and `pass_hat_k` cover for one k."""
        return self.pass_at_k_n.get(k, self.pass_at_k_instances)

    def primary(self, group: Group | None = None) -> SampleStatistic:
        """Return the primary metric of a group, or of the run if ``group`` is None.

        If it is unknown, its mean is None.
        """
        rate = group or self.overall
        if not self.measure:
            return rate
        scores = group.scores if group else self.scores
        return scores.get(self.measure) or SampleStatistic(missing=rate.missing)

    def __repr__(self) -> str:
        """Return only the main fields, because all of them would fill pages."""
        fields = [f"run={self.run!r}", f"task={self.task!r}", f"model={self.model!r}"]
        if self.pass_rate is not None:
            fields.append(f"pass_rate={self.pass_rate:.4g}")
        if self.ci95 is not None:
            fields.append("ci95=({:.4g}, {:.4g})".format(*self.ci95))
        fields.append(f"n={self.n}, not_judged={self.not_judged}, n_clusters={self.n_clusters}")
        means = [f"{name!r}: {mean.mean:.4g}" for name, mean in self.scores.items()]
        if len(means) > MAX_SCORES_IN_REPR:
            means = [*means[:MAX_SCORES_IN_REPR], "…"]
        if means:
            fields.append(f"scores={{{', '.join(means)}}}")
        if self.simulated:
            fields.append("simulated=True")
        if not self.complete:
            fields.append(f"incomplete: {self.progress}")
        return f"Metrics({', '.join(fields)}, …)"

    @property
    def unanswerable(self) -> str:
        """A sentence about instances that a simulated model cannot answer ("" if none)."""
        return unanswerable_note(self.n_unanswerable, self.n_instances if self.complete else None)

    @property
    def cautions(self) -> list[str]:
        """Sentences about what may make the metrics misleading."""
        return [*filter(None, [self.unanswerable]), *self.ignored_settings]

    @property
    def progress(self) -> str:
        """The finished and planned samples: "1,200 of 2,000", or else "1,200 begun of 2,000"."""
        if self.n_planned is None:
            return f"{self.n_samples:,} begun of ?"
        if self.n_owed is None:
            return f"{self.n_samples:,} begun of {self.n_planned:,}"
        return f"{max(0, self.n_planned - self.n_owed):,} of {self.n_planned:,}"


def task_plugin_name(task: str) -> str:
    """Return the name of a task's plug-in from a run's task, ``NAME`` or ``NAME:AS``."""
    return task.partition(":")[0]


def encode_metrics(metrics: Metrics) -> bytes:
    """Return metrics as indented JSON, the contents of a `metrics.json`."""
    return msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n"


class _Version(Struct):
    schema_version: int


def decode_metrics(text: bytes, path: Path) -> Metrics:
    """Decode the contents of a `metrics.json`, ignoring unknown keys.

    Raises:
        DataInvalid: If the contents are malformed, or have another schema version.
    """
    remedy = "Run the run file again to rewrite it from the attempts."
    try:
        with contextlib.suppress(msgspec.ValidationError):  # of another version, perhaps
            metrics = msgspec.json.decode(text, type=Metrics)
            if metrics.schema_version == METRICS_VERSION:
                return metrics
        version = msgspec.json.decode(text, type=_Version).schema_version
        if version == METRICS_VERSION:
            msgspec.json.decode(text, type=Metrics)  # raises the error again
        if version > METRICS_VERSION:
            remedy = "Use the version of the harness that wrote it."
        problem = f"schema version {version}, this harness reads version {METRICS_VERSION}"
    except DECODE_ERRORS as error:
        problem = f"not a run's metrics ({error})"
    raise DataInvalid(f"{path}: {problem}.", remedy)
