"""A judge's validation: agreement, against figures computed by hand, calibration and rankings."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from msgspec.structs import replace

from harness.errors import ConfigError
from harness.plugins.comparisons.judge_verdicts import (
    JudgedAnswer,
    JudgeVerdict,
    Said,
    read_answers,
)
from harness.plugins.judging.references import JUDGE, RULES, pair_verdicts
from harness.plugins.judging.validation import (
    BINS,
    JudgeValidation,
    agreement,
    calibration,
    cohens_kappa,
    correlation,
    covariance,
    judges_document,
    rank_models,
    validate,
    validation_document,
)
from harness.records import Score
from harness.report.table import Note, Table
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex
from harness.store.judgements import Judgement
from tests.store.test_index import attempt
from tests.store.test_judgements import judged, judgement


def answers(*own_and_other: tuple[str, str]) -> list[JudgedAnswer]:
    """Each answer's verdicts by both sides: a letter for each criterion, y, n or ?."""
    code = {"y": True, "n": False, "?": None}

    def said(told: str) -> Said:
        return Said("ok", tuple(JudgeVerdict(str(n), code[one]) for n, one in enumerate(told)))

    return [
        JudgedAnswer(f"i{n}", 0, f"i{n}", "", (said(own), said(other)))
        for n, (own, other) in enumerate(own_and_other)
    ]


def test_strict_and_soft_of_both_sides_over_the_same_answers() -> None:
    runs = {
        "low": answers(("nn", "nn"), ("yn", "nn"), ("y?", "yy")),
        "high": answers(("yy", "yy"), ("yn", "yy"), ("n?", "yy")),
    }
    scores, rankings = rank_models(pair_verdicts(runs, JUDGE), list(runs))
    found = {(one.run, one.score): (one.judge, one.reference) for one in scores}
    own, other = found["low", "strict"]  # null where an abstention decides: left out
    assert (own.mean, other.mean, own.n) == (0.0, 0.0, 2)
    own, other = found["high", "strict"]  # a no decides, whatever else is unknown
    assert own.mean == pytest.approx(1 / 3)
    assert (other.mean, own.n) == (1.0, 3)
    own, other = found["low", "soft"]
    assert own.mean == pytest.approx((0 + 0.5 + 1) / 3)
    assert other.mean == pytest.approx(1 / 3)
    assert [(one.score, one.tau_b, one.n_runs) for one in rankings] == [
        ("strict", 1.0, 2),
        ("soft", None, 2),  # by the judge both have one half
    ]


def test_a_reversed_ranking() -> None:
    rates = {"a": "yyyn", "b": "yynn", "c": "ynnn"}
    runs = {
        name: answers(*[(one, other) for one, other in zip(told, told[::-1], strict=True)])
        for name, told in rates.items()
    }
    _, same = rank_models(pair_verdicts(runs, JUDGE), list(runs))
    assert [one.tau_b for one in same] == [1.0, 1.0]
    assert same[0].p_value == pytest.approx(1 / 3)
    swapped = dict(zip(runs, reversed(list(runs.values())), strict=True))
    mixed = {
        name: [
            JudgedAnswer(f"{n}", 0, f"{n}", "", (one.said[0], other.said[1]))
            for n, (one, other) in enumerate(zip(runs[name], swapped[name], strict=True))
        ]
        for name in runs
    }
    _, reverse = rank_models(pair_verdicts(mixed, JUDGE), list(mixed))
    assert [one.tau_b for one in reverse] == [-1.0, -1.0]


def test_nothing_in_common_is_said_why() -> None:
    pairs = pair_verdicts({"r": answers(("?", "y"), ("y", "?"))}, JUDGE)
    with pytest.raises(ConfigError, match=r"Criteria with an abstention: 2\."):
        validate(pairs, judge="j", reference="k", runs=["r"])
    with pytest.raises(ConfigError, match=r"abstention: 0\. Excluded: none\."):
        validate(pair_verdicts({"r": []}, JUDGE), judge="j", reference="k", runs=["r"])
    unjudged = JudgedAnswer("0", 0, "0", "", (answers(("y", "y"))[0].said[0], None))
    with pytest.raises(ConfigError, match=r"Excluded: criteria that only the judge has \(1\)\."):
        validate(pair_verdicts({"r": [unjudged]}, JUDGE), judge="j", reference="k", runs=["r"])


def test_without_probabilities_there_is_no_calibration_and_no_label_is_refused() -> None:
    pairs = pair_verdicts({"r": answers(("yn", "yy"))}, JUDGE)
    found = validate(pairs, judge="j", reference="k", runs=["r"])
    assert (found.n, found.calibration.n, found.scores, found.rankings) == (2, 0, [], [])
    assert np.isnan(pairs.probability).all()
    with pytest.raises(ConfigError, match=r"--by: .* 'category'\. They have no labels: remove it"):
        validate(pairs, judge="j", reference="k", runs=["r"], label="category")


def test_the_curve_and_its_error() -> None:
    probability = np.array([0.95, 0.95, 0.95, 0.95, 0.3, 0.3, 1.0, 0.0])
    reference = np.array([1, 1, 1, 0, 0, 1, 1, 0])
    found = calibration(probability, reference, np.arange(8))
    assert [one.n for one in found.bins] == [1, 0, 0, 2, 0, 0, 0, 0, 0, 5]
    assert found.bins[3].mean_probability == pytest.approx(0.3)
    assert found.bins[3].yes.mean == pytest.approx(0.5)
    assert found.bins[9].yes.mean == pytest.approx(0.8)
    assert found.bins[1].mean_probability is found.bins[1].yes.mean is None
    assert found.expected_error == pytest.approx(5 / 8 * 0.16 + 2 / 8 * 0.2)
    confidence = [0.95] * 4 + [0.7] * 2 + [1.0] * 2
    right = [1, 1, 1, 0, 1, 0, 1, 1]
    assert found.mean_confidence == pytest.approx(np.mean(confidence))
    expected = np.cov(confidence, right, ddof=0)[0, 1]
    assert found.covariance_with_right.mean == pytest.approx(expected)


@pytest.mark.parametrize("place", range(BINS))
def test_a_bin_begins_at_its_lower_bound(place: int) -> None:
    found = calibration(np.array([place / 10]), np.array([1]), np.array([0]))
    assert [one.n for one in found.bins].index(1) == place


def test_the_covariance_is_at_most_an_eighth_and_0_without_knowledge() -> None:
    right_half, wrong_half = np.full(50, 1.0), np.full(50, 0.5)
    probability = np.append(right_half, wrong_half)
    reference = np.append(np.ones(50), np.zeros(50))  # at 0.5 it says yes
    found = calibration(probability, reference, np.arange(100)).covariance_with_right
    assert found.mean == pytest.approx(0.125)
    assert found.ci95 is None, "nothing varies, so nothing is known of the error"
    few = calibration(np.array([1, 0.9, 0.6, 0.5]), np.array([1, 1, 0, 0]), np.arange(4))
    sure = few.covariance_with_right  # products 0.125, 0.075, 0.075 and 0.125
    low, high = scipy.stats.t.interval(0.95, 3, 0.1, 0.025 / sqrt(3))
    assert high > 0.125
    assert sure.ci95 == pytest.approx((low, 0.125))
    same = calibration(np.full(4, 0.9), np.array([1, 0, 1, 1]), np.arange(4))
    assert same.covariance_with_right.mean == pytest.approx(0)


def test_over_nothing() -> None:
    found = calibration(np.zeros(0), np.zeros(0, int), np.zeros(0, int))
    assert found.n == 0
    assert found.expected_error is found.mean_confidence is None
    assert found.covariance_with_right.mean is None


def sure(*own_and_other: tuple[float | None, float | None]) -> list[JudgedAnswer]:
    """Answers with one criterion, and both judges' probabilities of yes, None without one."""

    def said(p: float | None) -> Said:
        return Said("ok", (JudgeVerdict("c", None if p is None else p >= 0.5, p),))

    return [
        JudgedAnswer(f"i{n}", 0, f"i{n}", "", (said(own), said(other)))
        for n, (own, other) in enumerate(own_and_other)
    ]


def test_the_interval_of_a_covariance_is_within_what_is_possible() -> None:
    one = np.array([0.0, 1.0, 1.0, 0.0, 0.7])
    alike = covariance(one, one, np.arange(5))
    opposed = covariance(one, 1 - one, np.arange(5), most=0.25)
    assert alike.ci95 is not None
    assert opposed.ci95 is not None
    assert alike.ci95[1] == 0.25
    assert opposed.ci95[0] == -0.25


def test_the_confidence_covariance_is_between_two_judges() -> None:
    draws = np.random.default_rng(0)
    shared = draws.random(2_000)
    own, other = (0.5 * shared + 0.5 * draws.random(2_000) for _ in range(2))
    answers = [
        *sure(*zip(own.tolist(), other.tolist(), strict=True)),
        *sure((None, 0.9), (0.1, None)),
    ]
    found = validate(pair_verdicts({"r": answers}, JUDGE), judge="j", reference="k", runs=["r"])
    covariance, r = found.confidence_covariance, found.confidence_correlation
    assert covariance.n == r.n == found.calibration.n == 2_000, "without abstentions"
    assert covariance.mean == pytest.approx(np.cov(own, other, ddof=0)[0, 1])
    assert r.mean == pytest.approx(np.corrcoef(own, other)[0, 1])
    resampled = []
    for _ in range(300):
        rows = draws.integers(0, 2_000, 2_000)
        resampled.append(
            (np.cov(own[rows], other[rows])[0, 1], np.corrcoef(own[rows], other[rows])[0, 1])
        )
    assert [covariance.stderr, r.stderr] == pytest.approx(np.std(resampled, axis=0), rel=0.2)
    # A judge that is as sure where it is wrong: its own covariance says nothing of the reference.
    assert found.calibration.covariance_with_right.mean != pytest.approx(covariance.mean, abs=0.005)


def test_judges_that_always_say_one_thing_do_not_correlate() -> None:
    pairs = pair_verdicts({"r": sure((0.1, 0.2), (0.1, 0.8), (0.1, 0.8))}, JUDGE)
    found = validate(pairs, judge="j", reference="k", runs=["r"])
    assert found.confidence_covariance.mean == pytest.approx(0)
    assert found.confidence_correlation.mean is None
    of_labels = validate(
        pair_verdicts({"r": answers(("y", "y"))}, JUDGE), judge="j", reference="k", runs=["r"]
    )
    assert of_labels.confidence_covariance.n == of_labels.confidence_correlation.n == 0


def validate_pairs(judged_answers: list[JudgedAnswer]) -> JudgeValidation:
    pairs = pair_verdicts({"r": judged_answers}, JUDGE)
    return validate(pairs, judge="j", reference="k", runs=["r"])


def test_a_covariance_or_correlation_that_is_not_available_is_explained() -> None:
    varying = sure((0.1, 0.2), (0.9, 0.8), (0.6, 0.3))
    constant = sure((0.1, 0.2), (0.1, 0.8), (0.1, 0.8))
    unknown = answers(("y", "y"))
    for judges, explained in (([varying], False), ([constant], True), ([varying, unknown], True)):
        table, about = judges_document([*map(validate_pairs, judges)]).parts[1:3]
        assert isinstance(table, Table)
        assert isinstance(about, Note)
        cells = [
            column.format(cell)
            for row in table.rows
            for column, cell in zip(table.columns, row.cells, strict=True)
        ]
        assert ("n/a" in cells) == ("n/a: " in about.text) == explained
    parts = validation_document(validate_pairs(constant)).parts
    assert any("n/a: " in part.text for part in parts if isinstance(part, Note))


def columns(
    yes_yes: int, yes_no: int, no_yes: int, no_no: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    judge = np.repeat([1, 1, 0, 0], [yes_yes, yes_no, no_yes, no_no])
    reference = np.repeat([1, 0, 1, 0], [yes_yes, yes_no, no_yes, no_no])
    return judge, reference, np.arange(len(judge))


def test_figures_by_hand() -> None:
    found = agreement(*columns(20, 5, 10, 15))
    assert found.accuracy.mean == pytest.approx(0.7)
    assert found.kappa.mean == pytest.approx(0.4)  # p_e = 0.5 * 0.6 + 0.5 * 0.4
    assert found.sensitivity.mean == pytest.approx(20 / 30)
    assert found.specificity.mean == pytest.approx(15 / 20)
    assert (found.accuracy.n, found.sensitivity.n, found.specificity.n) == (50, 30, 20)
    assert found.accuracy.ci95 == pytest.approx((0.5539, 0.8214), abs=1e-4)  # Clopper and Pearson


def test_kappas_error_is_that_of_fleiss_cohen_and_everitt() -> None:
    """Their equation 13, for a table of shares p_ij; here with the factor n / (n - 1)."""
    counts = np.array([[20, 5], [10, 15]])
    n = counts.sum()
    p = counts / n
    row, column = p.sum(axis=1), p.sum(axis=0)
    observed, chance = np.trace(p), float(row @ column)
    total = 0.0
    for i in range(2):
        for j in range(2):
            met = (column[i] + row[j]) * (1 - observed)
            total += p[i, j] * (((1 - chance) - met) ** 2 if i == j else met**2)
    total -= (observed * chance - 2 * chance + observed) ** 2
    expected = sqrt(total / (n * (1 - chance) ** 4)) * sqrt(n / (n - 1))
    found = agreement(*columns(20, 5, 10, 15)).kappa
    assert found.stderr == pytest.approx(expected)


def test_kappas_interval_is_students() -> None:
    found = agreement(*columns(20, 5, 10, 15)).kappa
    expected = scipy.stats.t.interval(0.95, 49, found.mean, found.stderr)
    assert expected[0] > -1
    assert found.ci95 == pytest.approx(expected)


def test_kappas_interval_is_below_0_if_two_judges_disagree_and_ends_at_minus_1() -> None:
    found = agreement(*columns(5, 20, 15, 10)).kappa
    assert found.mean == pytest.approx(-0.4)  # p_o is 0.3, and p_e 0.5 * 0.4 + 0.5 * 0.6
    low, high = scipy.stats.t.interval(0.95, 49, found.mean, found.stderr)
    assert -1 < low < high < 0
    assert found.ci95 == pytest.approx((low, high))
    opposed = agreement(*columns(1, 10, 10, 1)).kappa
    low, high = scipy.stats.t.interval(0.95, 21, opposed.mean, opposed.stderr)
    assert low < -1
    assert opposed.ci95 == pytest.approx((-1, high))


@pytest.mark.parametrize(
    ("counts", "beyond"),
    [
        ((20, 5, 10, 15), True),
        ((14, 11, 11, 14), False),  # kappa is 0.12, and its interval holds 0
        ((5, 20, 15, 10), False),
        ((25, 0, 0, 25), True),  # no interval of kappa, but half of the verdicts agree by chance
        ((50, 0, 0, 1), False),  # by chance, 96% agree
        ((50, 0, 0, 0), False),
    ],
)
def test_agreement_is_beyond_chance_if_the_whole_interval_is(
    counts: tuple[int, int, int, int], beyond: bool
) -> None:
    assert agreement(*columns(*counts)).beyond_chance is beyond


def test_the_error_of_r_is_that_of_its_moments() -> None:
    """Kendall and Stuart (1969, equation 10.44), here with the factor n / (n - 1)."""
    draws = np.random.default_rng(4)
    x = draws.gamma(1.0, size=150)
    y = 2 * x + draws.gamma(2.0, size=150)

    def moment(i: int, j: int) -> float:
        return float(np.mean((x - x.mean()) ** i * (y - y.mean()) ** j))

    r = scipy.stats.pearsonr(x, y).statistic
    xx, yy, xy = moment(2, 0), moment(0, 2), moment(1, 1)
    total = moment(4, 0) / xx**2 + moment(0, 4) / yy**2 + 2 * moment(2, 2) / (xx * yy)
    total += 4 * moment(2, 2) / xy**2
    total -= 4 * moment(3, 1) / (xy * xx) + 4 * moment(1, 3) / (xy * yy)
    found = correlation(x, y, np.arange(150))
    assert found.mean == pytest.approx(r)
    assert found.stderr == pytest.approx(sqrt(r**2 / 4 * total / 149))
    assert found.ci95 == pytest.approx(scipy.stats.t.interval(0.95, 149, r, found.stderr))
    opposed = correlation(x, -y, np.arange(150))
    assert opposed.ci95 == pytest.approx(scipy.stats.t.interval(0.95, 149, -r, found.stderr))
    few = correlation(x[:5], -x[:5] - [0, 0.1, 0, 0, 0.2], np.arange(5))
    assert few.ci95 is not None
    assert few.ci95[0] == -1 < (few.mean or 0) < few.ci95[1] < 0
    # Pairs that are repeated within their cluster add no information.
    repeated = correlation(np.repeat(x, 3), np.repeat(y, 3), np.repeat(np.arange(150), 3))
    assert repeated.mean == pytest.approx(found.mean)
    assert repeated.stderr == pytest.approx(found.stderr)


def test_clusters_widen_the_error() -> None:
    judge, reference, alone = columns(20, 5, 10, 15)
    found = agreement(judge, reference, alone)
    doubled = agreement(*(np.repeat(one, 2) for one in (judge, reference, alone)))
    assert doubled.kappa.mean == found.kappa.mean
    assert doubled.kappa.stderr == pytest.approx(found.kappa.stderr)
    assert doubled.accuracy.stderr == pytest.approx(found.accuracy.stderr)
    assert (doubled.kappa.n, doubled.kappa.n_clusters) == (100, 50)


def test_abstentions_are_counted_and_are_no_no() -> None:
    judge = np.array([1, NOT_JUDGED, NOT_JUDGED, NOT_JUDGED, 0])
    reference = np.array([1, 1, 0, NOT_JUDGED, NOT_JUDGED])
    found = agreement(judge, reference, np.arange(5))
    assert (found.confusion["abstained_yes"], found.confusion["abstained_no"]) == (1, 1)
    assert found.reference_abstained == 2
    assert (found.accuracy.mean, found.accuracy.n) == (1.0, 1)
    assert found.confusion["no_yes"] == found.confusion["no_no"] == 0


def test_where_there_is_nothing_to_tell_there_is_no_figure() -> None:
    all_yes = np.ones(4, np.bool_)
    assert cohens_kappa(all_yes, all_yes, np.arange(4)).mean is None
    assert cohens_kappa(all_yes, ~all_yes, np.arange(4)).mean == 0
    nothing = agreement(np.zeros(0, int), np.zeros(0, int), np.zeros(0, int))
    assert nothing.accuracy.mean is nothing.kappa.mean is nothing.kappa.ci95 is None


def test_the_interval_covers() -> None:
    """Of 300 draws of clustered verdicts with a known kappa about 95% of the intervals hold it."""
    chance = np.random.default_rng(8)
    kappa = 0.82 - 0.5  # p_o less p_e, over 1 - p_e, with both shares of yes at one half
    kappa /= 0.5
    held = 0
    for _ in range(300):
        truth = chance.random(60) < 0.5
        wrong = np.repeat(chance.random(60) < 0.18, 4)  # the four of a cluster go together
        reference = np.repeat(truth, 4)
        low, high = cohens_kappa(
            reference ^ wrong, reference, np.repeat(np.arange(60), 4)
        ).ci95 or (0.0, 0.0)
        held += low <= kappa <= high
    assert 270 <= held <= 298


YES, NO = True, False


def told(judge: bool | None, rule: bool | None, kind: str = "word_count") -> dict[str, Any]:
    return {"constraint": "c", "passed": judge, "rule": rule, "groups": {"rule": kind}}


def said(instance: str, *constraints: Any, **changes: Any) -> Judgement:
    score = Score(True, True, "", {"constraints": constraints})
    found = judgement(instance, None, judge=changes.pop("judge", "j"), **changes)
    return replace(found, scores={f"{found.judge}.strict": score})


def beside_rules(path: Path, judge: str) -> JudgeValidation:
    pairs = pair_verdicts({"run": read_answers(AttemptIndex(path), [judge])}, RULES)
    return validate(pairs, judge=judge, reference=RULES, runs=["run"], label="rule")


def test_figures_by_hand_of_rule_agreement(tmp_path: Path) -> None:
    """20 times both yes, 5 only the judge, 10 only the rule, 15 both no: kappa is 0.4."""
    pairs = [(YES, YES)] * 20 + [(YES, NO)] * 5 + [(NO, YES)] * 10 + [(NO, NO)] * 15
    names = [f"i{number:02}" for number in range(len(pairs))]
    path = judged(
        tmp_path,
        [attempt(name) for name in names],
        *(said(name, told(*pair)) for name, pair in zip(names, pairs, strict=True)),
        deciding={"j": True},
    )
    found = beside_rules(path, "j")
    (kind,) = found.parts
    assert kind.group == "word_count"
    assert (kind.agreement.accuracy.n, kind.agreement.accuracy.mean) == (50, pytest.approx(0.7))
    assert kind.agreement.kappa.mean == pytest.approx(0.4)
    assert (kind.agreement.confusion["yes_no"], kind.agreement.confusion["no_yes"]) == (5, 10)
    assert found.agreement == kind.agreement


def test_kinds_abstentions_and_what_has_one_verdict(tmp_path: Path) -> None:
    skipped = {"constraint": "c", "passed": YES, "groups": {"rule": "json"}, "decided_by": "rule"}
    without = {"constraint": "c", "passed": YES, "groups": {"category": "Length"}}
    path = judged(
        tmp_path,
        [attempt("a"), attempt("b"), attempt("c", outcome="refused")],
        said("a", told(YES, YES), told(None, NO), told(YES, NO, "no_commas"), without),
        said("b", told(NO, NO), skipped, told(YES, NO, "no_commas")),
        said("a", told(YES, YES), judge="other"),
        said("c", told(NO, YES)),
        deciding={"j": True, "other": False},
    )
    first, other = beside_rules(path, "j"), beside_rules(path, "other")
    assert [kind.group for kind in first.parts] == ["no_commas", "word_count"]
    commas, words = first.parts
    assert (words.agreement.accuracy.n, words.agreement.confusion["abstained_no"]) == (2, 1)
    assert commas.agreement.kappa.mean == 0
    assert first.agreement.accuracy.n == 4
    assert (first.left_out.by_rule, first.left_out.only_judge) == (1, 1)
    assert other.agreement.kappa.mean is None


def test_a_judge_that_knows_no_rules_is_not_compared(tmp_path: Path) -> None:
    path = judged(
        tmp_path,
        [attempt("a")],
        said("a", {"constraint": "c", "passed": YES, "groups": {}}),
        deciding={"j": True},
    )
    with pytest.raises(ConfigError, match=r"Excluded: criteria that only the judge has \(1\)\."):
        beside_rules(path, "j")
