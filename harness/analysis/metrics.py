"""What `metrics.json` holds, and what each figure means.

Owns the file's shape, its JSON and its version. Computes nothing: that is
`harness.analysis.summary`. A rate that nobody could measure is null, never 0,
and each rate stands beside the number of samples it is made of.

>>> Rate(pass_rate=0.5, n=4, n_clusters=1).stderr is None
True
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from harness.errors import DataInvalid
from harness.records import Outcome, Usage

METRICS_VERSION = 1
"""`schema_version` of metrics.json."""


class Rate(Struct, frozen=True, kw_only=True):
    """How often samples pass, as each sample's last round in the file says.

    pass_rate: over the judged samples; null where there are none.
    stderr: clustered by `cluster`; null over fewer than two clusters. Where all
        samples agree it is 0 and says nothing: `ci95` does.
    ci95: Wilson's (1927) where each cluster has one sample; else see
        `harness.analysis.clustered.Estimate.ci95`.
    n: samples with a verdict.
    n_clusters: statistical units they come from.
    naive_stderr: what `stderr` would be if all samples were independent.
    not_judged: samples without a verdict (infrastructure error, failed judge).
    pass_rate_errors_as_failures: passed among all samples, judged or not: the
        lower bound that the missing verdicts leave.
    """

    pass_rate: float | None
    stderr: float | None = None
    ci95: tuple[float, float] | None = None
    n: int
    n_clusters: int
    naive_stderr: float | None = None
    not_judged: int = 0
    pass_rate_errors_as_failures: float | None = None


class Mean(Struct, frozen=True, kw_only=True):
    """The mean of a score over samples, as each sample's last round in the file says.

    mean: over the measured samples.
    stderr: clustered by `cluster`; null over fewer than two clusters.
    ci95: clipped to 0 and 1 where all values of the run are between them.
    n: samples with a value.
    n_clusters: statistical units they come from.
    not_measured: samples without a value. An answer that is empty, refused or
        unreadable has the values that the task gives to no answer; of a task that
        gives none, it is here.
    """

    mean: float
    stderr: float | None = None
    ci95: tuple[float, float] | None = None
    n: int
    n_clusters: int
    not_measured: int = 0


class Rounds(Struct, frozen=True, kw_only=True):
    """Rates by round; keys are rounds, from 1.

    each: pass rate of the judged attempts of a round. Under `stop_on_pass` a
        sample that passed has no later round, so from round 2 on this is the
        rate among those that had failed so far: see `n` before comparing.
    n: judged attempts of the round, the denominator of `each`.
    any_of_first_k: samples that passed in round k or before. One that stopped
        on its pass counts as passed for every later k. One that has not passed
        counts as failed even where its later rounds are missing or not judged
        (interrupted, infrastructure error): to drop it would raise the rate.
    any_of_first_k_n: samples with a verdict in any of the first k rounds, the
        denominator of `any_of_first_k`.
    fixed: samples that failed in the round before and pass in this one, by this one.
    broken: samples that passed in the round before and fail in this one: 0 under
        `stop_on_pass`, where they are not asked again.
    """

    each: dict[int, float]
    each_stderr: dict[int, float | None]
    n: dict[int, int]
    any_of_first_k: dict[int, float]
    any_of_first_k_stderr: dict[int, float | None]
    any_of_first_k_n: dict[int, int]
    fixed: dict[int, int] = {}
    broken: dict[int, int] = {}


class Group(Rate, frozen=True, kw_only=True):
    """The same figures for the instances of one group; as in `Metrics`.

    instances: a digest of which they are, whatever their order.
    """

    instances: str = ""
    scores: dict[str, Mean] = {}
    pass_at_k: dict[int, float]
    pass_at_k_stderr: dict[int, float | None]
    pass_at_k_instances: int
    pass_at_k_ci95: dict[int, tuple[float, float] | None] = {}
    pass_hat_k: dict[int, float] = {}
    pass_hat_k_stderr: dict[int, float | None] = {}
    pass_hat_k_ci95: dict[int, tuple[float, float] | None] = {}
    rounds: Rounds


class CallFigures(Struct, frozen=True, kw_only=True):
    """What some of a run's calls took; as in `Metrics`."""

    n_calls: int = 0
    usage: Usage | None = None
    n_calls_without_usage: int = 0
    cost_usd: float | None = None
    known_cost_usd: float = 0.0
    paid_usd: float = 0.0
    n_calls_without_cost: int = 0


class JudgeFacts(CallFigures, frozen=True, kw_only=True):
    """A judge of the run, and what its calls took.

    model: the name of the model that it asks; empty where that has none.
    family: what this model and the run's have in common (`harness.analysis.model_family`), so
        that the judge may prefer its own kind; null where nothing is known in common. Of a
        panel, what the models of any of its judges have in common with the run's.
    of: of a panel, the names of its judges.
    """

    model: str = ""
    family: str | None = None
    of: tuple[str, ...] = ()


class GoldScore(Mean, frozen=True, kw_only=True):
    """The mean of a judge's score over gold answers, and how far the run's own are from them.

    n_pairs: instances whose gold answer and whose own answers (averaged) have a value.
    n_pair_clusters: statistical units they come from.
    difference: over them, own minus gold, each instance weighing the same; null where there are
        none; its stderr and ci95 as in `harness.analysis.comparison.Comparison`.
    """

    n_pairs: int = 0
    n_pair_clusters: int = 0
    difference: float | None = None
    difference_stderr: float | None = None
    difference_ci95: tuple[float, float] | None = None


class Metrics(Struct, frozen=True, kw_only=True):
    """`metrics.json`.

    complete: no sample was left unfinished (one whose call failed counts as
        finished here, and as not judged); an interrupted or killed run is not
        complete, and its figures are those of the part that is there.
    n_planned: samples of the whole run, null where that is not known.
    n_owed: samples of it that are unfinished, some perhaps with rounds to come;
        null where that is not known (a killed session).
    outcomes: attempts by outcome, all six.
    measure: the score that the task is measured by; null where that is the pass rate.
    scores: means of the scores by name, but for those that no sample has.
    groups: label, then group, to its figures.
    pass_at_k: mean over instances of the chance that one of k samples passes,
        from the judged samples' last rounds, for k = 1 … the fewest judged
        samples of any instance. An instance with fewer than the others lowers
        the largest k for all, so that each k speaks of the same instances; one
        with no judged sample is left out. pass@1 differs from `pass_rate` only
        where instances have unequal numbers of samples: here each instance
        weighs the same, there each sample.
    pass_at_k_stderr, pass_at_k_ci95: clustered, as in `Rate`.
    pass_at_k_instances: instances in the mean.
    pass_hat_k: pass^k, the chance that all of k samples pass, of the same samples.
    n_solved: instances that passed in any round of any sample.
    n_calls: calls that attempts name, superseded ones too; shared calls once.
    usage: tokens of the calls that were counted, each call once; null where
        there are calls and none was counted.
    n_calls_without_usage: calls whose tokens are not known.
    cost_usd: each call once; null where any call's cost is unknown.
    cost_per_solved_usd: cost_usd by n_solved; null where either is not known, or 0 solved.
    known_cost_usd: cost of the calls whose cost is known.
    paid_usd: the part of it that this run has paid; the rest was there already.
    n_calls_without_cost: calls whose cost is not known.
    model_calls: of all these calls, those of the run's own model (and of the one that polishes);
        null without judges, where all are.
    judges: by their names, those that were asked later too, each with its calls. A call that
        two of them share is with both, and in the run's figures once.
    golds: what judges say of the gold answers, by the score's name; never among `scores`.
    """

    schema_version: int = METRICS_VERSION
    run: str
    task: str
    model: str | None
    simulated: bool
    complete: bool = True
    n_planned: int | None = None
    n_owed: int | None = None
    n_instances: int
    n_samples: int
    n_attempts: int
    n_clusters: int
    outcomes: dict[Outcome, int]
    overall: Rate
    measure: str | None = None
    scores: dict[str, Mean] = {}
    groups: dict[str, dict[str, Group]]
    pass_at_k: dict[int, float]
    pass_at_k_stderr: dict[int, float | None]
    pass_at_k_instances: int
    pass_at_k_ci95: dict[int, tuple[float, float] | None] = {}
    pass_hat_k: dict[int, float] = {}
    pass_hat_k_stderr: dict[int, float | None] = {}
    pass_hat_k_ci95: dict[int, tuple[float, float] | None] = {}
    n_solved: int = 0
    rounds: Rounds
    n_calls: int
    usage: Usage | None
    n_calls_without_usage: int
    cost_usd: float | None
    cost_per_solved_usd: float | None = None
    known_cost_usd: float
    paid_usd: float = 0.0
    n_calls_without_cost: int
    model_calls: CallFigures | None = None
    judges: dict[str, JudgeFacts] = {}
    golds: dict[str, GoldScore] = {}


def to_json(metrics: Metrics) -> bytes:
    """The text of metrics.json."""
    return msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n"


def from_json(text: bytes, path: Path) -> Metrics:
    """Read the text of the metrics.json at path (named in errors, not opened).

    Keys that a task or a later version adds are ignored.
    Raises: DataInvalid.
    """
    try:
        version = msgspec.json.decode(text, type=_Version).schema_version
        if version == METRICS_VERSION:
            return msgspec.json.decode(text, type=Metrics)
        problem = f"schema version {version}, this harness reads version {METRICS_VERSION}"
    except msgspec.MsgspecError as error:
        problem = f"not a run's metrics ({error})"
    raise DataInvalid(f"{path}: {problem}.", "Run again to write it anew from the attempts.")


class _Version(Struct):
    schema_version: int
