"""Tables as a terminal shows them: read line by line, at several widths."""

from collections.abc import Callable
from io import StringIO

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from harness.analysis.metrics import (
    Group,
    JudgeFacts,
    Mean,
    Metrics,
    PositionBias,
    PositionRates,
    Rate,
    Rounds,
    Statistic,
)
from harness.records import OUTCOMES, CallTotals, Usage
from harness.report.run_tables import MAX_GROUPS, position_note, run_document, run_summary
from harness.report.runs import runs_table
from harness.report.table import Table, TableDocument, table
from harness.report.terminal import render_for_terminal
from harness.report.text import escape_name

WIDTHS = (60, 80, 120)


def rendered(table: RenderableType | TableDocument | Table, width: int = 80) -> list[str]:
    stream = StringIO()
    shown = render_for_terminal(table) if isinstance(table, TableDocument | Table) else table
    Console(file=stream, width=width, force_terminal=False).print(shown)
    return stream.getvalue().rstrip("\n").split("\n")


def row(lines: list[str], start: str) -> str:
    """The words of the one line that starts with something."""
    (found,) = [line for line in lines if line.startswith(start)]
    return " ".join(found.split())


def rounds(number: int, n: Callable[[int], int] = lambda _: 1000) -> Rounds:
    numbers = range(1, number + 1)
    return Rounds(
        each=dict.fromkeys(numbers, 0.5),
        each_stderr=dict.fromkeys(numbers, 0.01),
        n={number: n(number) for number in numbers},
        any_of_first_k=dict.fromkeys(numbers, 0.75),
        any_of_first_k_stderr=dict.fromkeys(numbers, 0.02),
        any_of_first_k_n=dict.fromkeys(numbers, 1000),
    )


def group(number_of_rounds: int = 1, pass_rate: float | None = 0.25) -> Group:
    return Group(
        mean=pass_rate,
        stderr=0.1 if pass_rate is not None else None,
        ci95=(0.05, 0.45) if pass_rate is not None else None,
        n=20,
        n_clusters=10,
        pass_at_k={},
        pass_at_k_stderr={},
        pass_at_k_instances=20,
        rounds=rounds(number_of_rounds),
    )


def metrics(number_of_rounds: int = 1, **changes: object) -> Metrics:
    made = Metrics(
        run="gpt4_collie",
        task="collie",
        model="gpt-4",
        simulated=False,
        n_instances=1000,
        n_samples=1003,
        n_attempts=1003 * number_of_rounds,
        n_clusters=700,
        outcomes={"ok": 1000, "error": 3},
        overall=Rate(
            mean=0.5125,
            stderr=0.0229,
            ci95=(0.4676, 0.5574),
            n=1000,
            n_clusters=700,
            naive_stderr=0.011,
            missing=3,
            pass_rate_errors_as_failures=0.511,
        ),
        groups={
            "structure": {"para01": group(number_of_rounds), "word01": group(number_of_rounds)}
        },
        pass_at_k={1: 0.5},
        pass_at_k_stderr={1: 0.02},
        pass_at_k_instances=1000,
        rounds=rounds(number_of_rounds),
        n_calls=900,
        usage=Usage(123456, 7890),
        n_calls_without_usage=0,
        cost_usd=12.345,
        known_cost_usd=12.345,
        paid_usd=12.345,
        n_calls_without_cost=0,
    )
    return msgspec.structs.replace(made, **changes)


def test_the_mean_over_prompts_is_named_where_it_differs() -> None:
    equal = metrics()
    rate = msgspec.structs.replace(equal.overall, cluster_rate=0.439, cluster_rate_stderr=0.0131)
    found = row(rendered(run_document(metrics(overall=rate)), 120), "by prompt")
    assert found == "by prompt 0.4390 ± 0.0131, each cluster (unique prompt) with equal weight"
    same = msgspec.structs.replace(rate, cluster_rate=rate.pass_rate)
    for overall in (equal.overall, same):
        assert "by prompt" not in "".join(rendered(run_document(metrics(overall=overall))))


def test_a_part_of_a_run_says_what_its_rates_are_of() -> None:
    part = metrics(2, complete=False, n_samples=30, n_planned=30, n_owed=25)
    lines = rendered(run_document(part), 120)
    assert row(lines, "pass rate") == "pass rate so far 0.5125 ± 0.0229"
    assert row(lines, "first answers") == "first answers 0.5000 ± 0.0100, 1,000 judged"
    assert any("5 of 30 samples; rates cover the samples begun so far" in line for line in lines)
    killed = msgspec.structs.replace(part, n_owed=None)
    for found, told in ((part, "5 of 30"), (killed, "30 begun of 30")):
        table = runs_table({"mine": found})
        assert told in table.texts(table.rows[0])
        assert "samples begun" in "".join(table.notes)
    one_round = metrics(complete=False, n_planned=2000)
    assert "first answers" not in "".join(rendered(run_document(one_round)))


def test_what_others_have_paid_is_told_apart() -> None:
    lines = rendered(run_document(metrics(paid_usd=2.0)))
    assert (
        row(lines, "cost") == "cost $12.35 ($2.00 of it paid by this run, the rest from the cache)"
    )


def test_the_prefix_caches_share_is_told() -> None:
    usage = Usage(input_tokens=1000, output_tokens=10, cached_input_tokens=840)
    lines = rendered(run_document(metrics(usage=usage)))
    assert row(lines, "tokens in") == "tokens in 1,000 (840 cached by provider, 84%)"


def test_one_run() -> None:
    lines = rendered(run_document(metrics()))
    assert lines[0] == "gpt4_collie  collie  gpt-4"
    assert row(lines, "pass rate") == "pass rate 0.5125 ± 0.0229"
    assert row(lines, "95% interval") == "95% interval 0.4676-0.5574"
    assert row(lines, "naive s.e.") == "naive s.e. ± 0.0110, as if all samples were independent"
    assert row(lines, "judged") == "judged 1,000 samples in 700 clusters"
    assert row(lines, "not judged") == "not judged 3 samples, pass rate if all failed 0.5110"
    assert row(lines, "para01") == "para01 20 0.250 ± 0.100 0.050-0.450"
    assert row(lines, "all") == "all 1,000 0.512 ± 0.023 0.468-0.557"
    assert row(lines, "calls") == "calls 900"
    assert row(lines, "tokens in") == "tokens in 123,456 (0 cached by provider)"
    assert row(lines, "tokens out") == "tokens out 7,890 (0 reasoning)"
    assert row(lines, "cost") == "cost $12.35"
    assert not any(line.startswith(("k ", "round", "SIMULATED")) for line in lines)


def test_all_outcomes_are_always_shown() -> None:
    lines = rendered(run_document(metrics()), width=64)
    heading = next(number for number, line in enumerate(lines) if "unparseable" in line)
    assert lines[heading].split() == list(OUTCOMES)
    assert lines[heading + 2].split() == ["1,000", "0", "0", "0", "0", "0", "3"]


def test_unknown_is_not_nothing() -> None:
    unknown = metrics(
        usage=None,
        cost_usd=None,
        known_cost_usd=0.0,
        n_calls_without_usage=900,
        n_calls_without_cost=900,
        overall=Rate(mean=None, n=0, n_clusters=0),
        groups={"structure": {"para01": group(pass_rate=None)}},
    )
    lines = rendered(run_document(unknown))
    assert row(lines, "tokens") == "tokens unknown"
    assert row(lines, "cost") == "cost unknown"
    assert row(lines, "pass rate") == "pass rate n/a"
    assert row(lines, "95% interval") == "95% interval n/a"
    assert row(lines, "para01") == "para01 20 n/a n/a"


def test_partly_unknown_cost() -> None:
    lines = rendered(
        run_document(
            metrics(
                cost_usd=None,
                known_cost_usd=0.0125,
                paid_usd=0.0,
                n_calls_without_cost=4,
                n_calls_without_usage=4,
            )
        )
    )
    assert row(lines, "cost") == "cost unknown ($0.0125 and 4 calls of unknown cost)"
    told = "tokens in 123,456 (0 cached by provider), 4 calls not counted"
    assert row(lines, "tokens in") == told


def test_what_the_model_and_each_judge_cost_is_told_apart() -> None:
    judged = metrics(
        model_calls=CallTotals(n_calls=1, cost_usd=2.5, known_cost_usd=2.5, paid_usd=2.5),
        judges={
            "j": JudgeFacts(n_calls=2000, cost_usd=0.25, known_cost_usd=0.25, paid_usd=0.125),
            "k": JudgeFacts(n_calls=2, known_cost_usd=0.5, n_calls_without_cost=1),
        },
    )
    lines = rendered(run_document(judged), width=120)
    assert row(lines, "cost") == "cost $12.35"
    assert row(lines, "  the model") == "the model 1 call, $2.50"
    assert row(lines, "  judge j") == (
        "judge j 2,000 calls, $0.2500 ($0.1250 of it paid by this run, the rest from the cache)"
    )
    unknown = "judge k 2 calls, unknown ($0.5000 and 1 call of unknown cost)"
    assert row(lines, "  judge k") == unknown
    assert not any("the model" in line for line in rendered(run_document(metrics())))


def test_rounds() -> None:
    lines = rendered(run_document(metrics(4)))
    assert row(lines, "structure") == "structure n rate ± s.e. 95% r1 r2 r3 r4"
    assert row(lines, "para01").endswith("0.500 0.500 0.500 0.500")
    assert row(lines, "2 ") == "2 1,000 0.5000 ± 0.0100 1,000 0.7500 ± 0.0200"
    assert not any("judged in it" in line for line in lines)


def test_rounds_of_unequal_samples_say_so() -> None:
    stopped = metrics(2, rounds=rounds(2, n=lambda number: 1000 // number))
    lines = rendered(run_document(stopped))
    assert row(lines, "2 ") == "2 500 0.5000 ± 0.0100 1,000 0.7500 ± 0.0200"
    assert "A round's rate is over the samples judged in it." in lines


def test_group_without_a_round() -> None:
    stopped = metrics(2, groups={"structure": {"word01": group(1)}})
    assert row(rendered(run_document(stopped)), "word01").endswith("0.500 n/a")


def test_pass_at_k() -> None:
    every = range(1, 26)
    drawn = metrics(
        pass_at_k={k: k / 25 for k in every}, pass_at_k_stderr=dict.fromkeys(every, 0.01)
    )
    lines = rendered(run_document(drawn), width=60)
    top = lines.index(next(line for line in lines if line.startswith("k ")))
    assert lines[top].split() == ["k", "pass@k", "±", "s.e."]
    shown = [int(line.split()[0]) for line in lines[top + 2 : top + 8]]
    assert shown == [1, 2, 5, 10, 20, 25]
    assert lines[top + 7].split()[1:] == ["1.000", "±", "0.010"]


def test_pass_at_k_says_how_many_instances_have_k_verdicts() -> None:
    drawn = metrics(
        pass_at_k={1: 0.5, 2: 0.75}, pass_at_k_stderr={1: 0.1, 2: 0.1}, pass_at_k_n={1: 30, 2: 29}
    )
    lines = rendered(run_document(drawn), width=60)
    assert row(lines, "2 ") == "2 29 0.750 ± 0.100"
    assert "n: instances with at least k verdicts. Others are excluded." in map(str.strip, lines)


def test_simulated_is_marked_in_every_table() -> None:
    made_up = metrics(2, simulated=True, pass_at_k={1: 0.1, 2: 0.2}, pass_at_k_stderr={1: 0, 2: 0})
    lines = rendered(run_document(made_up), width=64)
    assert lines[0].startswith("SIMULATED")
    tables = sum(set(line.strip()) == {"─"} for line in lines) - 1  # one has a line for its footer
    assert sum(line.strip() == "SIMULATED" for line in lines[1:]) == tables == 4
    for width in WIDTHS:
        lines = rendered(runs_table({"quickstart_with_a_long_name" * 2: made_up}), width)
        assert "SIMULATED" in lines[2]


HOSTILE = "[bold red]evil[/] [link=file:///]\x1b[2J\x07\r\n\x9b31m\u202egnp\u2066\u200b\ud800 "


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_do_nothing(width: int) -> None:
    hostile = metrics(
        run=HOSTILE, task=HOSTILE, model=HOSTILE, groups={HOSTILE: {HOSTILE: group()}}
    )
    for shown in (run_document(hostile), runs_table({HOSTILE: hostile})):
        lines = rendered(shown, width)
        assert all(line.isprintable() for line in lines)
        assert all(cell_len(line) <= width for line in lines)
        assert any(line.startswith("[bold") for line in lines)


def test_control_characters_stay_legible() -> None:
    assert escape_name("a\x1b[31mb\n\u202e").plain == "a\\x1b[31mb\\n\\u202e"
    assert len(escape_name("x" * 10_000_000).plain) < 200


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("number_of_rounds", [1, 2, 4, 12])
@pytest.mark.parametrize("name", ["word01", "x" * 90, "日本語" * 20])
def test_names_of_groups_are_folded(width: int, number_of_rounds: int, name: str) -> None:
    groups = {"structure": {name: group(number_of_rounds), "b": group(number_of_rounds)}}
    made = metrics(number_of_rounds, groups=groups)
    lines = rendered(run_document(made), width)
    assert all(cell_len(line) <= width for line in lines)
    top = next(number for number, line in enumerate(lines) if line.startswith("structure"))
    bottom = next(at for at, line in enumerate(lines) if at > top and line.startswith("all "))
    name_row, (b_row, line, total) = lines[top + 2], lines[bottom - 2 : bottom + 1]
    assert "".join(line.split()[0] for line in lines[top + 2 : bottom - 2]) == name
    assert b_row.startswith("b ")
    assert line.startswith("─")
    assert total.startswith("all ")
    # Figures are never cut: where they do not fit, the row has fewer of them.
    assert "…" not in lines[top] + b_row + total
    assert "0.250 ± 0.100" in name_row


def test_narrow_terminals_say_what_they_leave_out() -> None:
    lines = rendered(run_document(metrics(12)), width=60)
    assert row(lines, "structure") == "structure n rate ± s.e. r1 r10 r11 r12"
    text = " ".join(" ".join(lines).split())
    assert "too narrow for 95%, r2, r3, r4, r5, r6, r7, r8, r9." in text


def test_very_many_groups() -> None:
    many = metrics(groups={"template": {f"t{number:04}": group() for number in range(1000)}})
    lines = rendered(run_document(many))
    assert sum(line.startswith("t0") for line in lines) == MAX_GROUPS
    assert "950 more groups are in metrics.json." in lines


def test_several_runs() -> None:
    lines = rendered(runs_table({"first": metrics(), "second": None}), width=100)
    assert row(lines, "run") == "run task model n rate ± s.e. not judged cost"
    assert row(lines, "first") == "first collie gpt-4 1,000 0.512 ± 0.023 3 $12.35"
    assert row(lines, "second") == "second not finished"


def test_no_runs() -> None:
    assert row(rendered(runs_table({})), "run").startswith("run")


def measured(mean: float) -> Mean:
    return Mean(mean=mean, stderr=0.01, ci95=(mean - 0.02, mean + 0.02), n=1000, n_clusters=700)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_task_with_a_measure_is_headed_by_it(width: int) -> None:
    one = msgspec.structs.replace(group(), scores={"rouge_l": measured(0.3)})
    made = metrics(
        measure="rouge_l",
        scores={"rouge_l": measured(0.3954), "[bold]f1": measured(0.2)},
        groups={"task": {"a": one, "b": group()}},
    )
    lines = rendered(run_document(made), width)
    figures = [line for line in lines if line.startswith(("rouge_l ", "pass rate"))]
    assert [line.split()[:2] for line in figures[:2]] == [["rouge_l", "0.3954"], ["pass", "rate"]]
    assert row(lines, "[bold]f1").startswith("[bold]f1 1,000 0.2000 ± 0.0100")
    assert row(lines, "a ").startswith("a 1,000 0.300 ± 0.010")
    assert row(lines, "b ").startswith("b 0 n/a")
    assert "rouge_l 0.395 ± 0.010" in " ".join(rendered(runs_table({"r": made}), 120)[2].split())


def test_a_run_of_numbers_says_that_it_has_no_pass_rate() -> None:
    quality = Mean(mean=0.9, n=30, missing=30)
    rate = msgspec.structs.replace(metrics().overall, mean=None, n=0, missing=60)
    made = metrics(measure="quality", scores={"quality": quality}, overall=rate)
    lines = rendered(run_document(made))
    assert row(lines, "not measured") == "not measured 30 of 60"
    assert row(lines, "pass rate") == "pass rate none: no answer has a verdict"


@pytest.mark.parametrize("left_out", [False, True])
def test_scores_of_some_groups_only_leave_nothing_out(left_out: bool) -> None:
    scores = {"acc": Mean(mean=0.5, n=20 - left_out), "exact_match": Mean(mean=0.5, n=20)}
    pairs = zip("ab", scores.items(), strict=True)
    groups = {one: msgspec.structs.replace(group(), scores={k: v}) for one, (k, v) in pairs}
    rate = msgspec.structs.replace(metrics().overall, n=40)
    made = metrics(scores=scores, groups={"task": groups}, overall=rate)
    assert ("Scores leave out answers" in "\n".join(rendered(run_document(made)))) == left_out


def test_a_score_that_only_repeats_the_pass_rate_is_not_shown() -> None:
    same = msgspec.structs.replace(measured(0.5125), n=metrics().overall.n)
    assert not any("score" in line for line in rendered(run_document(metrics(scores={"x": same}))))
    assert any(
        "score" in line for line in rendered(run_document(metrics(scores={"x": measured(0.1)})))
    )


def test_of_several_samples_or_rounds_it_is_told_how_often_any_passed() -> None:
    once = metrics(pass_at_k={1: 0.5})
    four = metrics(pass_at_k={1: 0.5, 2: 0.6, 4: 0.75})
    thrice = metrics(number_of_rounds=3)
    lines = rendered(runs_table({"once": once, "four": four, "thrice": thrice}), 120)
    assert "any of" in lines[0]
    assert "0.750 of 4" in row(lines, "four")
    assert "0.750 of 3" in row(lines, "thrice")
    assert " of " not in row(lines, "once")
    assert "any of" not in rendered(runs_table({"once": once}), 120)[0]


@pytest.mark.parametrize(("width", "folded"), [(40, True), (80, False), (120, False), (200, False)])
def test_headings_are_folded_only_if_the_table_does_not_fit(width: int, folded: bool) -> None:
    columns = ("run", "difference from the baseline", "instances that are better")
    lines = rendered(table(columns, [["one", 0.5, 3], ["two", -0.25, 12]]), width)
    assert (lines[0].split() != " ".join(columns).split()) is folded
    assert row(lines, "two") == "two -0.250 12"
    assert max(map(len, lines)) <= width


def test_a_task_in_a_python_file_is_shown_without_its_folders() -> None:
    found = metrics(task="/home/me/tasks/river.py:big")
    assert rendered(run_document(found))[0] == "gpt4_collie  river.py:big  gpt-4"
    shown = "\n".join(rendered(runs_table({"run": found}), 120))
    assert " river.py:big " in shown
    assert "/home" not in shown


@pytest.mark.parametrize(
    ("passed", "reason"), [(1, "Every choice is right"), (0, "Wrong choices cancel")]
)
def test_without_a_test_of_position_bias_the_reason_is_given(passed: int, reason: str) -> None:
    share = Statistic(mean=0.5, n=2)
    verdicts = Statistic(mean=passed, n=1)
    positions = [
        PositionRates(option=option, n_right=1, chosen=share, excess=Statistic(), passed=verdicts)
        for option in "AB"
    ]
    assert position_note(PositionBias(n=2, n_clusters=1, positions=positions)).startswith(reason)


def test_the_summary_of_a_run_fits_a_screen() -> None:
    labels = {
        "source": {"builtin": group(2)},
        "structure": {f"word{n:02}": group(2) for n in range(13)},
        "other": {f"x{n}": group(2) for n in range(5)},
    }
    made = metrics(2, simulated=True, groups=labels, outcomes={"ok": 898, "error": 2, "empty": 0})
    lines = rendered(run_summary(made), width=80)
    assert len(lines) <= 24
    assert lines[0].split() == ["SIMULATED", "gpt4_collie", "collie", "gpt-4"]
    assert row(lines, "pass rate").startswith("pass rate 0.5125 ± 0.0229 (95% ")
    assert row(lines, "first answers") == "first answers 0.5000 ± 0.0100"
    assert row(lines, "attempts") == "attempts 898 ok, 2 error in up to 2 rounds"
    assert row(lines, "calls") == "calls 900, 123,456 tokens in, 7,890 out, cost $12.35"
    assert row(lines, "structure") == "structure n rate ± s.e. 95%"
    assert sum("builtin" in line or line.startswith(" x") for line in lines) == 0, "one table"


def test_the_summary_says_what_is_missing_and_what_may_mislead() -> None:
    rate = msgspec.structs.replace(metrics().overall, missing=120, pass_rate_errors_as_failures=0.4)
    part = metrics(overall=rate, complete=False, n_samples=30, n_planned=30, n_owed=25)
    lines = rendered(run_summary(msgspec.structs.replace(part, from_cache=True)), 120)
    assert row(lines, "not judged") == "not judged 120 samples, pass rate if all failed 0.4000"
    assert lines[0].startswith("INCOMPLETE")
    assert any(line.startswith("INCOMPLETE ") and "5 of 30 samples" in line for line in lines[1:])
    assert row(lines, "pass rate").startswith("pass rate so far")
    full = rendered(run_document(msgspec.structs.replace(part, from_cache=True)), 120)
    cached = [line for line in lines if "from the cache" in line]
    assert cached == [line for line in full if "from the cache" in line] != []


def test_the_summary_shows_scores_before_groups() -> None:
    lines = rendered(run_summary(metrics(scores={"quality": measured(0.1)})), 120)
    assert row(lines, "quality").startswith("quality")
    assert not any("structure" in line for line in lines)
