"""Validates a judge against a reference: agreement, calibration, and the ranking of models.

Agreement covers the criteria that both sides decided. Only the confusion matrix also counts the
judge's abstentions. Intervals are clustered by prompt over all runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_rate, linearised_statistic
from harness.analysis.metrics import Statistic
from harness.errors import ConfigError, DataInvalid, check_name
from harness.plugins.comparisons.judge_verdicts import judges_with_verdicts, read_answers
from harness.plugins.comparisons.pair_matrix import (
    RankCorrelation,
    rank_correlation,
    refuse_many_groups,
)
from harness.plugins.judging.references import (
    RULES,
    LeftOut,
    VerdictPairs,
    kept_labels,
    pair_verdicts,
    read_labels,
)
from harness.report.table import Column, Note, Table, TableDocument, table
from harness.report.text import format_p_value
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex

BINS = 10
SATISFIED = 0.5  # from this probability on, the judge says yes

SCORES = ("strict", "soft")
PEOPLE = "human labels"  # beginning of the names of references whose labels are kept with a run
RULE = "rule"  # label of criteria: the kind of rule that can check them


class Agreement(Struct, frozen=True, kw_only=True):
    """A judge's agreement with a reference. Rates and kappa cover criteria decided by both."""

    accuracy: Statistic
    kappa: Statistic  # its mean is None if all verdicts of both are yes, or all are no
    sensitivity: Statistic  # share of the reference's yes that the judge confirms
    specificity: Statistic  # share of the reference's no that the judge confirms
    confusion: dict[str, int]  # number of criteria by JUDGE_REFERENCE: yes_no, abstained_yes, …
    reference_abstained: int

    @property
    def beyond_chance(self) -> bool:
        """Whether the 95% interval of kappa is above 0.

        If all verdicts agree, kappa has no interval. The interval of the accuracy must then be
        above the agreement expected by chance.
        """
        if self.kappa.ci95 is not None:
            return self.kappa.ci95[0] > 0
        if self.kappa.mean != 1 or self.accuracy.ci95 is None:
            return False
        yes = self.confusion["yes_yes"] / self.kappa.n
        return self.accuracy.ci95[0] > yes**2 + (1 - yes) ** 2


def agreement(
    judge: NDArray[np.integer], reference: NDArray[np.integer], cluster: NDArray[np.integer]
) -> Agreement:
    """Return the agreement of a judge's verdicts (1, 0 or `NOT_JUDGED`) with a reference's."""
    decided = (judge != NOT_JUDGED) & (reference != NOT_JUDGED)
    judge_yes = judge[decided] == 1
    reference_yes = reference[decided] == 1
    unit = cluster[decided]
    confusion: dict[str, int] = {}
    for word, code in (("yes", 1), ("no", 0), ("abstained", NOT_JUDGED)):
        of_judge = reference[judge == code]
        confusion[f"{word}_yes"] = int(np.count_nonzero(of_judge == 1))
        confusion[f"{word}_no"] = int(np.count_nonzero(of_judge == 0))
    return Agreement(
        accuracy=clustered_rate(judge_yes == reference_yes, unit),
        kappa=cohens_kappa(judge_yes, reference_yes, unit),
        sensitivity=clustered_rate(judge_yes[reference_yes], unit[reference_yes]),
        specificity=clustered_rate(~judge_yes[~reference_yes], unit[~reference_yes]),
        confusion=confusion,
        reference_abstained=int(np.count_nonzero(reference == NOT_JUDGED)),
    )


def cohens_kappa(
    judge: NDArray[Any], reference: NDArray[Any], cluster: NDArray[np.integer]
) -> Statistic:
    """Return Cohen's kappa, the agreement of two raters beyond chance:

        kappa = (p_o - p_e) / (1 - p_e).

    Here p_o is the observed share of agreement, and p_e is the share expected by chance if each
    rater used the categories (numbers from 0) as often but independently (Cohen 1960, "A
    Coefficient of Agreement for Nominal Scales", equation 1). The mean is None if p_e is 1, or if
    there are no verdicts. The standard error is clustered. For independent verdicts it is that of
    Fleiss, Cohen and Everitt (1969).
    """
    total = len(judge)
    if not total:
        return Statistic()
    judge = judge.astype(np.intp)
    reference = reference.astype(np.intp)
    agree = (judge == reference).astype(np.float64)
    n = max(judge.max(), reference.max()) + 1
    judge_shares = np.bincount(judge, minlength=n) / total
    reference_shares = np.bincount(reference, minlength=n) / total
    observed = float(agree.mean())
    chance = float(judge_shares @ reference_shares)
    if chance == 1:
        return Statistic(n=total, n_clusters=len(np.unique(cluster)))
    kappa = (observed - chance) / (1 - chance)
    by_chance = reference_shares[judge] + judge_shares[reference] - 2 * chance
    influence = (agree - observed) / (1 - chance) - (1 - observed) / (1 - chance) ** 2 * by_chance
    return linearised_statistic(kappa, influence, cluster, low=-1.0, high=1.0)


class Bin(Struct, frozen=True, kw_only=True):
    """The criteria whose probability of yes is in [low, high); the last bin includes 1."""

    low: float
    high: float
    n: int
    mean_probability: float | None
    yes: Statistic  # share with a yes from the reference


class Calibration(Struct, frozen=True, kw_only=True):
    """A judge's probabilities compared with a reference.

    It covers the n criteria that both decided and for which the judge gave a probability.
    """

    n: int
    bins: list[Bin]
    expected_error: float | None  # None without criteria
    mean_confidence: float | None  # mean probability of the judge's own verdict, or None
    covariance_with_right: Statistic  # of that confidence with being right


class GroupAgreement(Struct, frozen=True, kw_only=True):
    """A judge's agreement with the reference on the criteria of one group of a label."""

    group: str
    agreement: Agreement


class RunScores(Struct, frozen=True, kw_only=True):
    """A run's mean of a score, by the judge and by the reference, over the same answers."""

    run: str
    score: str
    judge: Statistic
    reference: Statistic


class RankingAgreement(RankCorrelation, frozen=True, kw_only=True):
    """How similarly the judge and the reference rank the runs by a score."""

    score: str


class JudgeValidation(Struct, frozen=True, kw_only=True):
    """The comparison of a judge's verdicts with a reference, which is taken as correct."""

    judge: str
    reference: str
    runs: list[str]
    marks: list[str]
    n: int
    n_clusters: int
    left_out: LeftOut
    agreement: Agreement
    calibration: Calibration
    confidence_covariance: Statistic  # of both judges' probabilities of yes, like the correlation
    confidence_correlation: Statistic
    label: str
    parts: list[GroupAgreement]  # the groups of the label, if one was named
    scores: list[RunScores]  # scores and rankings need several runs
    rankings: list[RankingAgreement]
    notes: list[str]


def validate(
    pairs: VerdictPairs,
    *,
    judge: str,
    reference: str,
    runs: Sequence[str],
    label: str = "",
    marks: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> JudgeValidation:
    """Compare a judge's verdicts with those of a reference.

    ``judge`` and ``runs`` are names, and ``reference`` is a description. The rankings of several
    runs are compared as well. The agreement is broken down by the groups of ``label`` (empty for
    none). ``marks`` are warnings about the result.

    Raises:
        ConfigError: If no criterion was decided by both, or the label is unknown or has too many
            groups.
    """
    decided = (pairs.judge != NOT_JUDGED) & (pairs.reference != NOT_JUDGED)
    if not decided.any():
        problem = (
            f"No criterion was decided by both {judge!r} and the reference ({reference}). "
            f"Criteria with an abstention: {len(pairs):,}. "
            f"Excluded: {pairs.left_out.said() or 'none'}. {pairs.unmatched}"
        )
        remedy = "Both need verdicts on common criteria or scores (harness docs judge_validation)."
        raise ConfigError(problem.rstrip(), remedy)
    problem = f"--by: the criteria have no label {label!r}."
    labels = pairs.labels()
    if not labels:
        problem += " They have no labels: remove it."
    check_name(label, labels, problem)
    groups = pairs.by(label)
    refuse_many_groups(label, len(groups))

    def agreement_on(rows: NDArray[np.bool_] | slice) -> Agreement:
        return agreement(pairs.judge[rows], pairs.reference[rows], pairs.cluster[rows])

    parts = []
    for group, rows in groups.items():
        parts.append(GroupAgreement(group=group, agreement=agreement_on(rows)))
    sure = decided & ~np.isnan(pairs.probability)
    both = sure & ~np.isnan(pairs.reference_probability)
    probabilities = (pairs.probability[both], pairs.reference_probability[both])
    scores: list[RunScores] = []
    rankings: list[RankingAgreement] = []
    if len(runs) > 1:
        scores, rankings = rank_models(pairs, runs)
    return JudgeValidation(
        judge=judge,
        reference=reference,
        runs=list(runs),
        marks=list(marks),
        n=len(pairs),
        n_clusters=len(np.unique(pairs.cluster)),
        left_out=pairs.left_out,
        agreement=agreement_on(slice(None)),
        calibration=calibration(
            pairs.probability[sure], pairs.reference[sure], pairs.cluster[sure]
        ),
        confidence_covariance=covariance(*probabilities, pairs.cluster[both]),
        confidence_correlation=correlation(*probabilities, pairs.cluster[both]),
        label=label,
        parts=parts,
        scores=scores,
        rankings=rankings,
        notes=[*filter(None, [pairs.unmatched]), *notes],
    )


def against_rules(index: AttemptIndex, run: str) -> Iterator[JudgeValidation]:
    """Yield the validation of each of a run's judges on the criteria that rules can check.

    Raises:
        ConfigError: If a judge decided none of the criteria that rules checked, or the kinds of
            rule are too many for a table.
    """
    for judge in judges_with_verdicts(index.path):
        pairs = pair_verdicts({run: read_answers(index, [judge])}, RULES)
        if len(pairs) or pairs.left_out.by_rule:
            label = RULE if RULE in pairs.labels() else ""
            yield validate(pairs, judge=judge, reference=RULES, runs=[run], label=label)


def against_people(index: AttemptIndex, run: str) -> Iterator[JudgeValidation]:
    """Yield the validations of a run's judges against the files of labels in the run's folder.

    An invalid file is skipped, and so is one without a label of a criterion that the judge decided.
    """
    for judge in judges_with_verdicts(index.path):
        for name, path in kept_labels(index.path.parent, judge).items():
            reference = f"{PEOPLE} ({name})" if name else PEOPLE
            with contextlib.suppress(ConfigError, DataInvalid):
                pairs = pair_verdicts({run: read_answers(index, [judge])}, read_labels(path))
                yield validate(pairs, judge=judge, reference=reference, runs=[run])


def calibration(
    probability: NDArray[np.float64], reference: NDArray[np.integer], cluster: NDArray[np.integer]
) -> Calibration:
    """Return the calibration of n probabilities of yes against the reference's verdicts, 1 or 0.

    The curve is that of DeGroot and Fienberg (1983), "The Comparison and Evaluation of
    Forecasters". The expected calibration error, of Naeini, Cooper and Hauskrecht (2015),
    "Obtaining Well Calibrated Probabilities Using Bayesian Binning", is the mean distance of a
    bin's mean probability from its share of yes, weighted by the bin's size.
    """
    n = len(probability)
    edges = np.arange(BINS + 1) / BINS  # not sums of 0.1, which do not hit 0.3
    place = np.searchsorted(edges[1:-1], probability, side="right")
    bins: list[Bin] = []
    error = 0.0
    for number, (low, high) in enumerate(pairwise(edges.tolist())):
        rows = place == number
        yes = clustered_rate(reference[rows] == 1, cluster[rows])
        mean = float(probability[rows].mean()) if yes.n else None
        if mean is not None and yes.mean is not None:
            error += yes.n / n * abs(mean - yes.mean)
        bins.append(Bin(low=low, high=high, n=yes.n, mean_probability=mean, yes=yes))
    confidence = np.maximum(probability, 1 - probability)
    mean_confidence = float(confidence.mean()) if n else None
    right = (probability >= SATISFIED) == (reference == 1)
    covariance_with_right = covariance(confidence, right, cluster, most=0.125)
    return Calibration(
        n=n,
        bins=bins,
        expected_error=error if n else None,
        mean_confidence=mean_confidence,
        covariance_with_right=covariance_with_right,
    )


def covariance(
    first: NDArray[np.float64],
    second: NDArray[Any],
    cluster: NDArray[np.integer],
    most: float = 0.25,
) -> Statistic:
    """Return the covariance of two variables, the mean of (x - mean x)(y - mean y).

    The mean is None if there are no values. The 95% interval is clipped to [-``most``, ``most``],
    where ``most`` is the largest possible covariance:

    - 1/4 for two judges' probabilities of yes. This is the confidence covariance of Lior et al.
      2025, "WildIFEval", section 4.2.
    - 1/8 for the probability of a judge's own verdict, max(p, 1 - p), and a variable that is 1 if
      that verdict is right, else 0. Yates (1982), "External Correspondence", uses the covariance of
      a forecast and its outcome to decompose the Brier score.
    """
    if not len(first):
        return Statistic()
    products = (first - first.mean()) * (second - second.mean())
    value = float(products.mean())
    return linearised_statistic(value, products - value, cluster, low=-most, high=most)


def correlation(
    first_values: NDArray[np.float64],
    second_values: NDArray[np.float64],
    cluster: NDArray[np.integer],
) -> Statistic:
    """Return Pearson's r with a linearised standard error.

    The mean is None if there are no values, or if a variable is constant.
    """
    # Not std(), which may not be 0 for equal values.
    if not len(first_values) or not np.ptp(first_values) or not np.ptp(second_values):
        return Statistic(n=len(first_values), n_clusters=len(np.unique(cluster)))
    first = (first_values - first_values.mean()) / first_values.std()
    second = (second_values - second_values.mean()) / second_values.std()
    value = float((first * second).mean())
    influence = first * second - value * (first**2 + second**2) / 2
    return linearised_statistic(value, influence, cluster, low=-1.0, high=1.0)


def rank_models(
    pairs: VerdictPairs, runs: Sequence[str]
) -> tuple[list[RunScores], list[RankingAgreement]]:
    """Score each run's answers by judge and reference, and compare the rankings of the runs.

    The score *strict* of an answer is 0 if the verdict on any criterion is no, otherwise None if
    there is an abstention, otherwise 1. The score *soft* is the share of decided criteria that are
    satisfied (Lior et al. 2025, arXiv 2503.06573). An answer is included if it has a value from
    both the judge and the reference.
    """
    _, first, answer = np.unique(pairs.answer, return_index=True, return_inverse=True)
    judge_scores = _answer_scores(pairs.judge, answer, len(first))
    reference_scores = _answer_scores(pairs.reference, answer, len(first))
    run = pairs.run[first]
    cluster = pairs.cluster[first]
    scores: list[RunScores] = []
    rankings: list[RankingAgreement] = []
    for score in SCORES:
        by_judge = judge_scores[score]
        by_reference = reference_scores[score]
        both = ~np.isnan(by_judge) & ~np.isnan(by_reference)
        means = []
        for place, name in enumerate(runs):
            rows = both & (run == place)
            judge = clustered_rate(by_judge[rows], cluster[rows])
            reference = clustered_rate(by_reference[rows], cluster[rows])
            scores.append(RunScores(run=name, score=score, judge=judge, reference=reference))
            means.append((judge.mean, reference.mean))
        rankings.append(RankingAgreement(score=score, **asdict(rank_correlation(means))))
    return scores, rankings


def _answer_scores(
    verdicts: NDArray[np.int8], answer: NDArray[np.intp], n: int
) -> dict[str, NDArray[np.float64]]:
    yes = np.bincount(answer, weights=verdicts == 1, minlength=n)
    no = np.bincount(answer, weights=verdicts == 0, minlength=n)
    total = np.bincount(answer, minlength=n)
    strict = np.full(n, np.nan)
    strict[yes == total] = 1.0
    strict[no > 0] = 0.0
    soft = np.divide(yes, yes + no, out=np.full(n, np.nan), where=yes + no > 0)
    return {"strict": strict, "soft": soft}


def validation_document(validation: JudgeValidation) -> TableDocument:
    """Build the document of a judge's validation: agreement, calibration and rankings of runs."""
    counts = validation.agreement.confusion
    confusion = []
    for code, text in (("yes", "says yes"), ("no", "says no"), ("abstained", "abstains")):
        confusion.append([text, counts[f"{code}_yes"], counts[f"{code}_no"]])
    parts: list[Table | Note] = [
        Note(", ".join(validation.runs), ""),
        _figures(validation),
        table(["the judge", "reference yes", "reference no"], confusion),
    ]
    if validation.calibration.n:
        bins = []
        for item in validation.calibration.bins:
            if item.n:
                probability = f"{item.low:.1f}-{item.high:.1f}"
                bins.append([probability, item.n, item.mean_probability, item.yes, item.yes.ci95])
        parts.append(table(["probability", "n", "mean", "reference yes ± s.e.", "95%"], bins))
    if validation.parts:
        groups = [[part.group, *_agreement(part.agreement)] for part in validation.parts]
        columns = [validation.label, "accuracy ± s.e.", "95%", "kappa", "n", "abstained"]
        parts.append(table(columns, groups))
    if validation.scores:
        scores = []
        for run in validation.scores:
            scores.append([f"{run.run} {run.score}", run.judge, run.reference, run.judge.n])
        ranked = []
        for ranking in validation.rankings:
            ranked.append([ranking.score, ranking.tau_b, ranking.p_value, ranking.n_runs])
        p_column = Column("p", formatter=format_p_value)
        parts += [
            table(["mean score", "judge ± s.e.", "reference ± s.e.", "n"], scores),
            table(["ranking", TAU, p_column, "runs"], ranked),
        ]
    return TableDocument(
        title=f"{validation.judge} against {validation.reference}",
        marks=validation.marks,
        parts=[*parts, *map(Note, _captions(validation))],
        data=validation,
    )


TAU = Column("tau-b", digits=2, sign=True)


def judges_document(validations: Sequence[JudgeValidation]) -> TableDocument:
    """Build a document that compares several judges with one reference, with a row per judge."""
    first = validations[0]
    rows = []
    notes: list[str] = []
    is_known = False
    has_gaps = False
    for validation in validations:
        notes += [note for note in validation.notes if note not in notes]
        both = (validation.confidence_covariance.mean, validation.confidence_correlation.mean)
        is_known |= both[0] is not None
        has_gaps |= None in both
        taus = {ranking.score: ranking.tau_b for ranking in validation.rankings}
        accuracy, between, kappa, *sizes = _agreement(validation.agreement)
        row = [validation.judge, accuracy, between, kappa, *both, taus.get("soft"), *sizes]
        rows.append(row)
    tau = TAU if first.rankings else None
    columns: list[Column | str | None]
    columns = ["judge", "accuracy ± s.e.", "95%", "kappa", "covariance", "r", tau, "n", "abstained"]
    about = "Each judge over the criteria that it and the reference decided on."
    if is_known:
        about += " covariance and r: of both judges' probabilities of yes."
        if has_gaps:
            about += " n/a: too few of these probabilities are known, or they do not vary."
    else:
        columns[4:6] = [None, None]
    if tau is not None:
        about += " tau-b: of the runs' ranking by the soft score."
    notes.insert(0, about)
    return TableDocument(
        title=f"judges against {first.reference}",
        marks=first.marks,
        parts=[Note(", ".join(first.runs), ""), table(columns, rows), *map(Note, notes)],
        data=list(validations),
    )


def _agreement(agreement_found: Agreement) -> list[object]:
    accuracy = agreement_found.accuracy
    return [
        accuracy,
        accuracy.ci95,
        agreement_found.kappa.mean,
        accuracy.n,
        _abstained(agreement_found),
    ]


def _abstained(agreement_found: Agreement) -> int:
    return agreement_found.confusion["abstained_yes"] + agreement_found.confusion["abstained_no"]


def _figures(validation: JudgeValidation) -> Table:
    agreement_found = validation.agreement
    sure = validation.calibration
    rows = [
        ["accuracy", *_cells(agreement_found.accuracy)],
        ["Cohen's kappa", *_cells(agreement_found.kappa)],
        ["sensitivity (yes to a yes)", *_cells(agreement_found.sensitivity)],
        ["specificity (no to a no)", *_cells(agreement_found.specificity)],
    ]
    if sure.n:
        rows += [
            ["mean confidence", sure.mean_confidence, "", sure.n],
            ["covariance of confidence and being right", *_cells(sure.covariance_with_right)],
            ["calibration error", sure.expected_error, "", sure.n],
        ]
    if validation.confidence_covariance.n:
        rows += [
            ["confidence covariance, both judges", *_cells(validation.confidence_covariance)],
            ["confidence correlation, both judges", *_cells(validation.confidence_correlation)],
        ]
    return table(["", "value ± s.e.", "95%", "n"], rows)


def _cells(statistic: Statistic) -> list[object]:
    return [statistic, statistic.ci95, statistic.n]


def _captions(validation: JudgeValidation) -> list[str]:
    sentences = [
        f"{validation.n:,} criteria of {validation.n_clusters:,} prompts, which are the "
        f"statistical units. The judge abstained on {_abstained(validation.agreement):,} of them "
        f"(not counted as no), the reference on {validation.agreement.reference_abstained:,}."
    ]
    excluded = validation.left_out.said()
    if excluded:
        sentences.append(f"Excluded: {excluded}.")
    if validation.calibration.n:
        sentences.append(
            "Confidence: the probability that the judge assigns to its verdict. Its covariance "
            "with being right is positive (at most 0.125) if the judge is more confident when "
            "right."
        )
    else:
        sentences.append("The judge's probabilities are not known, so there is no calibration.")
    if validation.confidence_covariance.n:
        sentences.append("Both judges: their probabilities of yes (covariance at most 0.25).")
        if validation.confidence_correlation.mean is None:
            sentences.append("n/a: too few of them are known, or they do not vary.")
    if validation.scores:
        sentences.append(
            "Both sides score the same answers by the same criteria. For few runs tau-b says "
            "little: three runs in the same order have p 0.33."
        )
    return [*sentences, *validation.notes]
