"""The sentence that answers, in each situation that it has to be honest about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from harness.analysis.comparable import Run, Variant
from harness.analysis.metrics import JudgeFacts
from harness.analysis.run_comparison import (
    ComparisonOptions,
    compare_runs,
    pair_matrix,
    with_planned,
)
from harness.analysis.suite import suite
from harness.records import Score
from harness.report.answer import Headline
from harness.report.comparison import comparison_document
from harness.report.overview import Overview, overview
from harness.report.runs import Reported, ReportedRun
from harness.report.table import Note
from tests.report.html.pages import MADE_AT, attempt, reported_run, two_runs

Runs = Callable[..., list[ReportedRun]]


def as_variants(runs: Sequence[ReportedRun]) -> list[Run]:
    return [(Variant(run.name, run.metrics, run.settings, {}), run.attempts) for run in runs]


def told(
    runs: Sequence[ReportedRun], continuing: Sequence[tuple[str, str]] = (), **asked: object
) -> Overview:
    """The overview of runs, compared as `report_on` does."""
    every = as_variants(runs)
    if len(runs) < 2:
        return overview(Reported(list(runs)), "title", MADE_AT)
    options = ComparisonOptions(**asked)  # type: ignore[arg-type]
    comparison = compare_runs(every, options)
    matrix = None
    if len(runs) > 2:
        matrix = with_planned(pair_matrix(every, options.score, round_=options.round), comparison)
    reported = Reported(list(runs), comparison, matrix, continuing=continuing)
    return overview(reported, "title", MADE_AT)


def answer(runs: Sequence[ReportedRun], **asked: Any) -> Headline:
    return told(runs, **asked).answer


@pytest.fixture
def runs_passing(tmp_path: Path) -> Runs:
    """Make runs of as many instances, of which each run passes the first ones."""

    def make(passing: Mapping[str, int], n: int = 20) -> list[ReportedRun]:
        return [
            reported_run(
                tmp_path / name,
                name,
                [attempt(f"case/{number}", passed=number < k) for number in range(n)],
            )
            for name, k in passing.items()
        ]

    return make


def test_of_one_run_the_rate_its_interval_and_what_fails_most(runs_passing: Runs) -> None:
    (run,) = runs_passing({"one": 15})
    assert answer([run]).sentence == (
        "one passes 75% of 20 instances (51 to 91); most failures: "
        "exact: case/N is wrong in round 1 (5 of 5)."
    )
    assert answer([run]).support == ["Cost: $0.0200."]


def test_further_failures_support_it(tmp_path: Path) -> None:
    lines = [attempt("a", passed=False, scores={"x": Score(False, False)})]
    lines += [attempt(name, passed=False, scores={"y": Score(False, False)}) for name in "bc"]
    found = answer([reported_run(tmp_path, "run", lines)])
    assert found.sentence.endswith("; most failures: y (2 of 3).")
    assert found.support[0] == "Then: x (1 of 3)."


def test_many_answers_have_a_decimal_and_samples_are_not_cases(tmp_path: Path) -> None:
    lines = [attempt(f"a/{at}", sample) for at in range(100) for sample in range(2)]
    run = reported_run(tmp_path, "run", lines)
    found = told([run])
    assert found.digits == 1
    assert (
        found.answer.sentence
        == "run passes 100.0% of 200 samples of 100 instances (96.4 to 100.0)."
    )


def test_reasons_that_tie_are_told_together(tmp_path: Path) -> None:
    def run(name: str, *reasons: str) -> ReportedRun:
        lines = [
            attempt(f"{name}/{at}", passed=False, scores={reason: Score(False, False)})
            for at, reason in enumerate(reasons)
        ]
        return reported_run(tmp_path / name, name, lines)

    two, one, three = run("two", "x", "y", "x", "y", "z"), run("one", "x"), run("three", *"xyz")
    assert answer([two]).sentence.endswith("; most failures: x and y (2 of 5 each).")
    assert answer([two]).support[0] == "Then: z (1 of 5)."
    assert answer([three]).sentence.endswith(
        "; most failures: 3 reasons tie, such as x (1 of 3 each)."
    )
    assert (
        "Most frequent reasons for failures: x and y (two 2 of 5 each); x (one 1 of 1); "
        "3 reasons tie, such as x (three 1 of 3 each)."
    ) in answer([two, one, three]).support


def test_rounds_are_told(tmp_path: Path) -> None:
    sentence = answer(two_runs(tmp_path)[1:]).sentence
    assert sentence.startswith("after passes 67% of 12 samples of 6 instances (")
    assert ", after up to 2 rounds; most failures: exact: " in sentence


def test_nothing_judged(tmp_path: Path) -> None:
    lines = [attempt("a", passed=None, outcome="error", error="no connection", scores={})]
    found = told([reported_run(tmp_path, "run", lines)])
    assert found.answer.sentence == "run has no judged answer."
    assert "Not judged: run 1 of 1." in found.answer.support[0]
    (failure,) = found.runs[0].failures
    assert failure.reason == "error: no connection"


def test_the_judges_part_of_the_cost(tmp_path: Path) -> None:
    run = reported_run(tmp_path / "one", "one", [attempt("a", passed=True)])
    judge = JudgeFacts(n_calls=1, known_cost_usd=0.0006)
    judged = replace(run, metrics=replaced(run.metrics, judges={"polite": judge}))
    assert answer([judged]).support[-1] == "Cost: $0.0010 (60% of it judging)."


def test_a_cost_that_is_unknown(tmp_path: Path) -> None:
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in ("hostile", "other")]
    free = [replace(run, metrics=replaced(run.metrics, cost_usd=None)) for run in runs]
    assert answer(free[:1]).support[-1] == "Cost: unknown."
    assert answer(free).support[-1] == "Cost: unknown."
    assert answer([free[0], runs[1]]).support[-1] == "Cost: unknown for hostile, $0.0010 for other."


def test_a_sure_difference(runs_passing: Runs) -> None:
    found = answer(runs_passing({"plain": 3, "strict": 16}))
    assert found.sentence == "strict passes 80%, plain 15%: +65 points (35 to 83), 20 instances."
    assert found.support[0].startswith("p <0.001 by McNemar's exact test, over the instances that")
    assert found.support[1] == (
        "Most frequent reasons for failures: exact: case/N is wrong in round 1 (plain 17 of 17 and "
        "strict 4 of 4)."
    )
    assert found.support[2] == "Cost: $0.0200 each."


def test_a_worse_run(runs_passing: Runs) -> None:
    sentence = answer(runs_passing({"plain": 16, "strict": 3})).sentence
    assert sentence == "strict passes 15%, plain 80%: -65 points (-83 to -35), 20 instances."


def test_a_difference_that_may_be_chance(runs_passing: Runs) -> None:
    sentence = answer(runs_passing({"plain": 14, "strict": 15})).sentence
    assert sentence == (
        "no difference found between strict (75%) and plain (70%): "
        "+5 points (-11 to +20), 20 instances."
    )


def test_what_is_not_judged_could_change_the_difference_by_points(tmp_path: Path) -> None:
    passed = {"c": [True] * 8 + [False] * 8, "f": [True] * 5 + [None] * 4 + [True] + [False] * 6}
    runs = [
        reported_run(
            tmp_path / name, name, [attempt(f"case/{n}", passed=one) for n, one in enumerate(each)]
        )
        for name, each in passed.items()
    ]
    found = told(runs)
    said = (
        "4 of 16 pairs are not judged, which may bias the difference: it is -13 points if all "
        "unjudged answers count against the run, and +13 points if for it."
    )
    assert said in found.answer.support
    (method,) = (one for one in found.method if said in one)
    assert "Standard error 8.33 points" in method
    assert "a true difference of 0." not in method


def test_a_run_that_goes_on_from_anothers_answers_is_no_other_sample(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 14, "feedback": 16})
    found = answer(runs, continuing=[("feedback", "plain")])
    assert found.sentence == (
        "feedback passes 80%, plain 70%: rounds of feedback on the same first answers add "
        "+10 points (-8 to +26), 20 instances."
    )
    assert found.support[0] == (
        "feedback continues plain's answers, so these are not independent samples: feedback is "
        "better on 2, worse on none."
    )


def test_the_best_run_may_go_on_from_the_next_bests_answers(runs_passing: Runs) -> None:
    runs = runs_passing({"base": 4, "strict": 16, "feedback": 18, "poor": 1})
    found = answer(runs, continuing=[("feedback", "strict")])
    assert found.sentence.startswith("feedback is the best of 4 runs: it passes 90%, base (the")
    assert found.support[0] == (
        "feedback against strict, the next best: rounds of feedback on the same first answers "
        "add +10 points (-8 to +26)."
    )
    assert found.support[1].startswith("p of feedback against base <0.001 and poor <0.001, adj")
    sentence = answer(runs[1:], continuing=[("feedback", "strict")]).sentence
    assert sentence.endswith(
        "it passes 90%, strict (the baseline) 80%: rounds of feedback on the same first answers "
        "add +10 points (-8 to +26), 20 instances."
    )


def test_first_answers_are_named(tmp_path: Path) -> None:
    sentence = answer(two_runs(tmp_path), round=1).sentence
    assert sentence.endswith("6 instances, of each sample's first answer.")
    assert "after (0%) and before (50%)" in sentence


def test_no_case_in_common(tmp_path: Path) -> None:
    runs = [reported_run(tmp_path / name, name, [attempt(name)]) for name in "ab"]
    assert answer(runs).sentence == "b and a have no judged instance in common."


def test_the_best_of_several_runs_and_those_as_good(runs_passing: Runs) -> None:
    found = answer(runs_passing({"base": 4, "weak": 2, "good": 18, "best": 19}))
    assert found.sentence == (
        "best passes 95%, the most of 4 runs; base (the baseline) 20%: +75 points (45 to 91), "
        "20 instances; good (90%) cannot be told apart from it."
    )
    assert found.support[0] == "best against good, the next best: +5 points (-11 to +20)."
    assert found.support[1] == (
        "p of best against base <0.001, weak <0.001 and good 1.000, adjusted by Holm's "
        "method: against the baseline over the 3 runs compared with it, of other pairs over all 6. "
        "Intervals are 95%, not adjusted."
    )


def test_each_pair_is_decided_as_in_the_table(runs_passing: Runs) -> None:
    found = told(runs_passing({"base": 19, "weak": 12, "poor": 14, "low": 13}))
    assert found.comparison is not None
    shown = {row.run: row.p_adjusted for row in found.comparison.rows}
    expected = (
        "p of base against weak {:.3f}, poor {:.3f} and low {:.3f}, adjusted by Holm's".format(
            *(shown[name] for name in ("weak", "poor", "low"))
        )
    )
    assert any(one.startswith(expected) for one in found.answer.support)


def test_a_run_that_is_surely_the_best(runs_passing: Runs) -> None:
    assert answer(runs_passing({"base": 4, "weak": 2, "best": 19})).sentence == (
        "best is the best of 3 runs: it passes 95%, base (the baseline) 20%: "
        "+75 points (45 to 91), 20 instances."
    )


def test_the_baseline_may_be_best(runs_passing: Runs) -> None:
    assert answer(runs_passing({"base": 19, "weak": 2, "worse": 4})).sentence == (
        "base, the baseline, is the best of 3 runs: it passes 95%; next is worse (20%)."
    )


def test_runs_that_tie_have_no_best(runs_passing: Runs) -> None:
    runs = runs_passing({"zero": 2, "few": 2, "feedback": 2}, n=26)
    assert answer(runs).sentence == "zero, few and feedback all pass 8%."


@pytest.mark.parametrize(
    ("passing", "sentence"),
    [
        (
            {"base": 18, "weak": 2, "good": 18, "worse": 1},
            "base (the baseline) and good tie at 90%, the most of 4 runs.",
        ),
        (
            {"base": 17, "good": 18, "best": 18},
            "good and best tie at 90%, the most of 3 runs; no sure difference from base (85%), the "
            "baseline: good +5 points (-11 to +20), 20 instances.",
        ),
        (
            {"base": 2, "near": 17, "good": 18, "best": 18},
            "good and best tie at 90%, the most of 4 runs; base (the baseline) 10%: good +80 "
            "points (50 to 95), 20 instances; near (85%) cannot be told apart from good.",
        ),
    ],
)
def test_runs_that_tie_for_the_most(
    runs_passing: Runs, passing: dict[str, int], sentence: str
) -> None:
    assert answer(runs_passing(passing)).sentence == sentence


def test_the_best_may_not_differ_from_the_baseline(runs_passing: Runs) -> None:
    sentence = answer(runs_passing({"base": 17, "weak": 2, "best": 18})).sentence
    assert sentence == (
        "best passes 90%, the most of 3 runs; no sure difference from base (85%), the baseline: "
        "+5 points (-11 to +20), 20 instances."
    )


def test_marks_come_first(runs_passing: Runs) -> None:
    one, other = runs_passing({"plain": 3, "strict": 16})
    one = replace(one, marks=["SIMULATED"])
    assert answer([one, other]).sentence.startswith("SIMULATED (plain): strict passes 80%")
    marks = ["SIMULATED", "INCOMPLETE 3 of 40"]
    assert answer([replace(one, marks=marks)]).sentence.startswith(
        "SIMULATED, INCOMPLETE 3 of 40: plain passes 15%"
    )


def test_marks_of_all_compared_runs_are_told_once(runs_passing: Runs) -> None:
    marks = ["SIMULATED", "INCOMPLETE 20 of 40"]
    facts = {"simulated": True, "complete": False, "n_planned": 40, "n_owed": 20}
    runs = [
        replace(run, marks=marks, metrics=replaced(run.metrics, **facts))
        for run in runs_passing({"plain": 3, "strict": 16})
    ]
    found = told(runs)
    assert found.answer.sentence.startswith("SIMULATED, INCOMPLETE: strict passes 80%")
    assert [(mark.text, mark.runs) for mark in found.marks] == [
        ("SIMULATED", ["plain", "strict"]),
        ("INCOMPLETE 20 of 40", ["plain", "strict"]),
    ]


def test_prompts_that_differ_in_content_are_confounded(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 3, "strict": 16})
    prints = [{"content_sha256": "a"}, {"content_sha256": "b"}]
    variants = [Variant(run.name, run.metrics, run.settings, own)
                for run, own in zip(runs, prints, strict=True)]  # fmt: skip
    every = list(zip(variants, [run.attempts for run in runs], strict=True))
    found = overview(Reported(runs, compare_runs(every, ComparisonOptions())), "title", MADE_AT)
    assert found.answer.sentence.startswith("CONFOUNDED (strict): strict passes 80%, plain 15%")
    assert any("cannot be attributed" in warning for warning in found.warnings)


def test_other_data_or_judges_are_warned_of(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 3, "strict": 16})
    prints = [{"judge_j_prompt_sha256": "a"}, {"judge_j_prompt_sha256": "b"}]
    variants = [Variant(run.name, run.metrics, run.settings, own)
                for run, own in zip(runs, prints, strict=True)]  # fmt: skip
    every = list(zip(variants, [run.attempts for run in runs], strict=True))
    found = overview(Reported(runs, compare_runs(every, ComparisonOptions())), "title", MADE_AT)
    assert (
        found.warnings[0]
        == "The runs were made or scored with a different judge_j_prompt: strict against plain."
    )


def test_another_judge_that_decides_is_warned_of(runs_passing: Runs) -> None:
    runs = runs_passing({"plain": 3, "strict": 16})
    variants = [Variant(run.name, run.metrics, {"judges.j": run.name}, {}, deciding=["j"])
                for run in runs]  # fmt: skip
    every = list(zip(variants, [run.attempts for run in runs], strict=True))
    compared = compare_runs(every, ComparisonOptions())
    said = "The runs define differently what passes: strict differs from plain in judges.j."
    assert overview(Reported(runs, compared), "title", MADE_AT).warnings[0] == said
    first, *_ = comparison_document(compared).parts
    assert isinstance(first, Note)
    assert first.text == said


def test_runs_that_are_not_compared(runs_passing: Runs) -> None:
    one, other = runs_passing({"a": 15, "b": 10})
    other = replace(other, metrics=replaced(other.metrics, task="essays"))
    found = overview(Reported([one, other]), "title", MADE_AT)
    assert found.answer.sentence == (
        "2 runs of 2 tasks, not compared: a passes 75% of sums, b passes 50% of essays."
    )


def test_models_on_several_tasks_are_compared_in_the_table(runs_passing: Runs) -> None:
    four = runs_passing({"a.x": 15, "a.y": 10, "b.x": 5, "b.y": 10})
    of = [(run, *run.name.split(".")) for run in four]
    runs = [replace(run, metrics=replaced(run.metrics, task=t, model=m)) for run, t, m in of]
    found = overview(Reported(runs, suite=suite(as_variants(runs))), "title", MADE_AT)
    assert found.answer.sentence == "2 models on 2 tasks; highest: x on a (75%) and y on b (50%)."
    assert found.answer.support[0] == "Sure differences from x (p < 0.05, Holm): none."
    assert [section.id for section in found.sections][:2] == ["matrix", "results"]


def test_a_mean_that_is_no_share_is_a_number(tmp_path: Path) -> None:
    runs = [
        reported_run(
            tmp_path / name,
            name,
            [attempt(f"c/{at}", scores={"length": Score(base + at % 3, None)}) for at in range(9)],
        )
        for name, base in (("short", 5.0), ("long", 9.0))
    ]
    runs = [replace(run, metrics=replaced(run.metrics, measure="length")) for run in runs]
    found = told(runs, score="length")
    assert found.answer.sentence.startswith("long has length 10.000, short 6.000: +4.000 (")
    assert [run.unit for run in found.runs] == ["", ""]
    assert found.comparison
    assert found.comparison.unit == ""


def test_hostile_names_are_escaped(runs_passing: Runs) -> None:
    (run,) = runs_passing({"one": 15})
    assert "\\u202e passes" in answer([replace(run, name="\u202e")]).sentence


def test_models_on_tasks_without_a_verdict_have_no_highest_value(tmp_path: Path) -> None:
    undecided = {"helps": Score(None, None, "cannot say")}
    runs = []
    for task in ("a", "b"):
        for model in ("x", "y"):
            lines = [attempt(f"case/{n}", passed=None, scores=undecided) for n in range(3)]
            run = reported_run(tmp_path / f"{task}.{model}", f"{task}.{model}", lines)
            runs.append(replace(run, metrics=replaced(run.metrics, task=task, model=model)))
    found = overview(Reported(runs, suite=suite(as_variants(runs))), "title", MADE_AT)
    assert found.answer.sentence == "2 models on 2 tasks; no value is known."
