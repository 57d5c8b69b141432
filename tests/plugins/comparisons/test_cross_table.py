"""A results table over made-up runs of two tasks: a paper's, with five figures."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from harness.analysis.breakdown import mean_by_group
from harness.analysis.metrics import PASS_RATE
from harness.errors import ConfigError, RunConflict
from harness.plugins.comparisons.comparable import Run
from harness.plugins.comparisons.cross_table import (
    CrossTable,
    TableCell,
    TableOptions,
    TableRow,
    cross_table,
)
from harness.plugins.comparisons.run_differences import setting_text
from harness.plugins.comparisons.table_figures import MILLISECONDS, TOKENS, macro_f1
from harness.ports import PaperTable, TableFigure
from harness.records import Attempt, Score
from tests.analysis.conftest import Make
from tests.analysis.test_pass_at_k import FOUR, LAST
from tests.plugins.comparisons.test_scores_of_k import run as run_of
from tests.plugins.comparisons.variants import variant

FORMATS = ("json", "xml", "yaml")
SOURCE = "A paper, table 1"
TABLES = {
    "generation": PaperTable(
        "representation",
        "output",
        (TableFigure("Gen Acc"), TableFigure("IS%", "score", "invalid")),
        SOURCE,
    ),
    "validation": PaperTable(
        "representation",
        "output",
        (
            TableFigure("Val Acc"),
            TableFigure("Answered", "answered", "correct"),
            TableFigure("Macro-F1", "macro_f1", "correct", "label"),
            TableFigure("F1 answered", "macro_f1_answered", "correct", "label"),
        ),
        SOURCE,
    ),
}


def generated(
    make: Make, representation: str = "python", outputs: tuple[str, ...] = FORMATS, n: int = 6
) -> Iterator[Attempt]:
    for output in outputs:
        for number in range(n):
            invalid = number % 3 == 0
            yield make(
                f"{representation}/{output}/{number}",
                not invalid and number % 2 == 0,
                groups={"representation": representation, "output": output},
                cluster=f"{number % 4}",
                scores={"invalid": Score(invalid)},
            )


def validated(make: Make, representation: str = "python", n: int = 12) -> Iterator[Attempt]:
    for output in FORMATS:
        for number in range(n):
            answered = number % 5 != 4
            correct = answered and number % 3 != 0
            yield make(
                f"{representation}/{output}/{number}",
                correct,
                groups={
                    "representation": representation,
                    "output": output,
                    "label": "yes" if number % 2 else "no",
                },
                cluster=f"{number % 4}",
                scores={"correct": Score(correct)} if answered else {},
                outcome="ok" if answered else "unparseable",
            )


@pytest.fixture
def runs(make, table_of):
    """A function that makes a run: of a task and a model, with attempts and settings."""

    def run(name: str, task: str, attempts, model: str = "m", **settings: Any) -> Run:
        shown = {key.replace("__", "."): value for key, value in settings.items()}
        base = variant(
            name, {"t": 0.5}, settings={"model.name": model, **shown}, task=task, model=model,
            measure=None, run=name,
        )  # fmt: skip
        return base, table_of(attempts)

    return run


def column(found: CrossTable, figure: str, group: str | None) -> int:
    names = [(found.figures[one.figure].name, one.group) for one in found.columns]
    return names.index((figure, group))


def cell(found: CrossTable, row: TableRow, figure: str, group: str | None = None) -> TableCell:
    shown = row.cells[column(found, figure, group)]
    assert shown is not None
    return shown


def names(found: CrossTable) -> list[tuple[str, Mapping[str, str], str]]:
    return [(row.model, row.settings, row.group) for row in found.rows]


def test_a_paper_s_table_of_two_tasks(make, runs) -> None:
    generation = runs("gen", "generation", generated(make))
    validation = runs("val", "validation", validated(make))
    found = cross_table([generation, validation], TABLES, TableOptions())
    (row,) = found.rows
    assert (row.model, row.settings, row.group) == ("m", {}, "python")
    assert row.runs == ["gen", "val"]
    heads = [(found.figures[one.figure].name, one.group) for one in found.columns]
    figures = ("Gen Acc", "IS%", "Val Acc", "Answered", "Macro-F1", "F1 answered")
    assert heads == [(name, group) for name in figures for group in (*FORMATS, None)]
    labels = ("representation", "output")
    for table, name, expected in (
        (generation[1], "Gen Acc", mean_by_group(generation[1], PASS_RATE, *labels)),
        (generation[1], "IS%", mean_by_group(generation[1], "invalid", *labels)),
        (validation[1], "Macro-F1", macro_f1(validation[1], "correct", "label", *labels)),
    ):
        assert len(table)
        for output in FORMATS:
            one, part = cell(found, row, name, output), expected["python", output]
            assert (one.mean, one.stderr, one.ci95) == (part.mean, part.stderr, part.ci95)
            assert (one.n, one.missing) == (part.n, part.missing)
    verdicts = validation[1].take(validation[1].has_score("correct"))
    (expected,) = macro_f1(verdicts, "correct", "label", "representation").values()
    assert cell(found, row, "F1 answered").mean == expected.mean
    assert cell(found, row, "Macro-F1").mean < expected.mean
    answered = cell(found, row, "Answered")
    assert (answered.n, answered.missing) == (30, 6)
    correct = sum(n % 5 != 4 and n % 3 != 0 for n in range(12)) * 3
    assert answered.mean == pytest.approx(correct / 30)
    assert cell(found, row, "Val Acc").mean == pytest.approx(correct / 36)
    assert found.sources == [SOURCE]
    assert found.notes == []


def test_runs_that_fill_other_cells_share_rows_and_need_no_settings(make, runs) -> None:
    found = cross_table(
        [
            runs("p", "generation", generated(make), "b", task__representation="python"),
            runs("j", "generation", generated(make, "json"), "b", task__representation="json"),
            runs("a", "generation", generated(make), "a", task__representation="python"),
        ],
        TABLES,
        TableOptions(),
    )
    assert names(found) == [("b", {}, "json"), ("b", {}, "python"), ("a", {}, "python")]
    assert any("task.representation" in note for note in found.notes)
    assert not any("model.name" in note for note in found.notes)


def test_settings_in_which_runs_would_collide_name_the_rows(make, runs) -> None:
    found = cross_table(
        [
            runs("g0", "generation", generated(make), task__shots=0, decoding__max_tokens=9),
            runs("g5", "generation", generated(make), task__shots=5, decoding__max_tokens=9),
            runs("v0", "validation", validated(make), task__shots=0, decoding__max_tokens=1),
            runs("v5", "validation", validated(make), task__shots=5, decoding__max_tokens=1),
        ],
        TABLES,
        TableOptions(),
    )
    assert names(found) == [
        ("m", {"task.shots.n": "0"}, "python"),
        ("m", {"task.shots.n": "5"}, "python"),
    ]
    assert [row.runs for row in found.rows] == [["g0", "v0"], ["g5", "v5"]]
    assert all(one is not None for row in found.rows for one in row.cells)
    assert not any("task.shots" in note for note in found.notes)


def test_runs_of_different_models_name_the_settings_in_which_they_differ(make, runs) -> None:
    found = cross_table(
        [
            runs("a", "generation", generated(make), "a", task__shots=4, model__base_url="x"),
            runs("b", "generation", generated(make), "b", task__shots=0, model__base_url="y"),
        ],
        TABLES,
        TableOptions(),
    )
    assert names(found) == [
        ("a", {"task.shots.n": "4"}, "python"),
        ("b", {"task.shots.n": "0"}, "python"),
    ]


def test_a_run_has_the_row_of_its_own_value(make, runs) -> None:
    """Validation was run without examples alone: beside five, there is none of it."""
    found = cross_table(
        [
            runs("g0", "generation", generated(make), task__shots=0),
            runs("g5", "generation", generated(make), task__shots=5),
            runs("v0", "validation", validated(make), task__shots=0),
        ],
        TABLES,
        TableOptions(),
    )
    zero, five = found.rows
    assert cell(found, zero, "Val Acc").n == 36
    assert five.cells[column(found, "Val Acc", None)] is None


@pytest.mark.parametrize("second", [{}, {"samples": "1"}])
def test_runs_with_the_same_settings_are_told_apart_by_name(make, runs, second) -> None:
    found = cross_table(
        [
            runs("one", "generation", generated(make), samples=1),
            runs("two", "generation", generated(make), **{"samples": 1, **second}),
        ],
        TABLES,
        TableOptions(),
    )
    assert [row.settings for row in found.rows] == [{"run": "one"}, {"run": "two"}]
    assert "Runs with the same settings are distinguished by their names." in found.notes


def test_runs_of_a_format_each_share_a_row_that_has_no_whole(make, runs) -> None:
    one, two = (
        runs(name, "generation", generated(make, outputs=(name,)), task__outputs=[name])
        for name in ("json", "yaml")
    )
    found = cross_table([one, two], TABLES, TableOptions())
    (row,) = found.rows
    assert row.runs == ["json", "yaml"]
    assert {head.group for head in found.columns} == {"json", "yaml"}
    assert "A figure that several runs of a row have is not shown over all columns." in found.notes


def test_without_columns(make, runs) -> None:
    found = cross_table(
        [runs("g", "generation", generated(make))], TABLES, TableOptions(columns="")
    )
    assert [one.group for one in found.columns] == [None, None]
    (row,) = found.rows
    assert cell(found, row, "Gen Acc").n == 18


def test_without_rows(make, runs) -> None:
    found = cross_table(
        [runs("g", "generation", generated(make))], TABLES, TableOptions(rows="", columns="")
    )
    assert names(found) == [("m", {}, "")]


def test_a_single_group_needs_no_whole(make, runs) -> None:
    found = cross_table(
        [runs("g", "generation", generated(make, outputs=("json",)))], TABLES, TableOptions()
    )
    assert {one.group for one in found.columns} == {"json"}


def test_scores_and_figures_by_name(make, runs) -> None:
    run = runs("g", "generation", generated(make))
    found = cross_table([run], TABLES, TableOptions(scores=["IS%", "pass_rate"]))
    assert [figure.name for figure in found.figures] == ["IS%", "pass rate"]
    assert found.sources == [SOURCE]
    plain = cross_table([run], TABLES, TableOptions(scores=["invalid"]))
    assert [figure.of for figure in plain.figures] == ["score"]
    assert plain.sources == []


def test_a_figure_that_two_tasks_have_is_told_with_the_task(make, runs) -> None:
    both = [runs("a", "one", generated(make)), runs("b", "two", generated(make))]
    found = cross_table(both, {}, TableOptions(rows="representation"))
    assert [figure.name for figure in found.figures] == ["one pass rate", "two pass rate"]
    assert len(found.rows) == 1


def test_what_no_run_has_is_said(make, runs) -> None:
    def wordless() -> Iterator[Attempt]:
        for attempt in validated(make):
            groups = {k: v for k, v in attempt.groups.items() if k != "label"}
            yield make(attempt.instance, attempt.passed, groups=groups)

    found = cross_table([runs("v", "validation", wordless())], TABLES, TableOptions())
    assert [figure.name for figure in found.figures] == ["Val Acc"]
    assert found.notes == ["No run has 'Answered', 'Macro-F1', 'F1 answered'."]


def test_no_answer_with_a_verdict_is_a_macro_f1_of_nothing(make, runs) -> None:
    attempts = [
        make(
            f"{n}",
            False,
            outcome="refused",
            groups={"representation": "x", "output": "json", "label": "ab"[n % 2]},
        )
        for n in range(4)
    ]
    found = cross_table([runs("v", "validation", attempts)], TABLES, TableOptions())
    assert cell(found, found.rows[0], "Macro-F1", "json").mean == 0.0


def test_a_class_that_never_occurs_is_said(make, runs) -> None:
    attempts = [one for one in validated(make) if one.groups["label"] == "yes"]
    found = cross_table([runs("v", "validation", attempts)], TABLES, TableOptions())
    assert cell(found, found.rows[0], "Macro-F1", "json").mean is None
    assert "4 cells have no Macro-F1: one of its classes never occurs there." in found.notes


def test_scores_that_are_no_fractions(make, runs) -> None:
    attempts = [
        make(f"{n}", True, groups={"g": "x"}, scores={"words": Score(float(n))}) for n in range(4)
    ]
    found = cross_table(
        [runs("r", "free", attempts)], {}, TableOptions(rows="g", scores=["words", "pass_rate"])
    )
    assert [figure.fraction for figure in found.figures] == [False, True]
    assert cell(found, found.rows[0], "words").mean == 1.5


@pytest.mark.parametrize("declared", [(True, True), (True, False), (False, True)])
def test_a_figure_is_a_fraction_if_it_is_one_in_every_run(make, runs, declared) -> None:
    both = [
        runs(
            f"r{number}", "free", model=f"m{number}",
            attempts=[make("a", True, scores={"x": Score(0.5, share=share)})],
        )
        for number, share in enumerate(declared)
    ]  # fmt: skip
    found = cross_table(both, {}, TableOptions(scores=["x"]))
    assert [figure.fraction for figure in found.figures] == [all(declared)]


def test_a_run_without_a_figure_does_not_decide_whether_it_is_a_fraction(make, runs) -> None:
    with_x = runs("r0", "free", [make("a", True, scores={"x": Score(0.5, share=True)})], model="m0")
    without_x = runs("r1", "free", [make("a", True)], model="m1")
    table = cross_table([with_x, without_x], {}, TableOptions(scores=["x", "pass_rate"]))
    assert [(figure.name, figure.fraction) for figure in table.figures] == [
        ("x", True),
        ("pass rate", True),
    ]


def test_tokens_per_millisecond_are_no_fraction(make, runs) -> None:
    scores = {TOKENS: Score(20), MILLISECONDS: Score(400), "met": Score(3), "asked": Score(4)}
    tables = {
        "timed": PaperTable(
            "",
            "",
            (
                TableFigure("speed", "ratio", TOKENS, per=MILLISECONDS),
                TableFigure("met", "ratio", "met", per="asked", share=True),
            ),
            SOURCE,
        )
    }
    attempts = [make(f"{n}", True, scores=scores) for n in range(4)]
    table = cross_table([runs("r", "timed", attempts)], tables, TableOptions())
    assert [(figure.name, figure.fraction) for figure in table.figures] == [
        ("speed", False),
        ("met", True),
    ]
    assert [cell.mean for cell in table.rows[0].cells if cell] == [20 / 400, 3 / 4]


def test_rounds(make, runs) -> None:
    attempts = [
        make(f"{n}", round_ == 2 or n == 0, round=round_, groups={"g": "x"})
        for n in range(4)
        for round_ in (1, 2)
        if n or round_ == 1
    ]
    run = runs("r", "free", attempts)
    for round_, value in ((None, 1.0), (2, 1.0), (1, 0.25)):
        found = cross_table([run], {}, TableOptions(rows="g", round=round_))
        assert cell(found, found.rows[0], "pass rate").mean == value
    with pytest.raises(ConfigError, match="has a round 3: the last one is round 2"):
        cross_table([run], {}, TableOptions(rows="g", round=3))


def test_marks(make, runs) -> None:
    one, two = runs("g", "generation", generated(make)), runs("v", "validation", validated(make))
    simulated = variant(
        "v",
        {"t": 0.5},
        task="validation",
        run="v",
        simulated=True,
        complete=False,
        n_planned=200,
        n_owed=100,
    )
    found = cross_table([one, (simulated, two[1])], TABLES, TableOptions())
    assert found.rows[0].marks == ["v: SIMULATED", "v: INCOMPLETE 100 of 200"]
    alone = cross_table([(simulated, two[1])], TABLES, TableOptions())
    assert alone.rows[0].marks == ["SIMULATED", "INCOMPLETE 100 of 200"]


def test_samples_in_no_row_and_runs_without_attempts_are_told(make, runs) -> None:
    attempts = [make("a", True, groups={"g": "x"}), make("b", True, groups={"h": "y"})]
    found = cross_table(
        [runs("r", "free", attempts), runs("empty", "free", [])], {}, TableOptions(rows="g")
    )
    assert "Samples of 'r' without 'g', in no row: 1." in found.notes
    assert "The run 'empty' has no attempts." in found.notes
    with pytest.raises(ConfigError, match="None of the runs has an attempt"):
        cross_table([runs("empty", "free", [])], {}, TableOptions(rows="g"))


def test_without_a_papers_table_there_is_a_row_per_run(make, runs) -> None:
    found = cross_table([runs("r", "free", generated(make))], {}, TableOptions())
    assert (len(found.rows), found.row_label) == (1, "")
    assert found.hint == "For a row per group, add --rows representation or --rows output"


@pytest.mark.parametrize(
    ("asked", "message", "remedy"),
    [
        (TableOptions(rows="outputs"), "'r' has no label 'outputs'", "Did you mean 'output'?"),
        (TableOptions(rows="output", columns="x"), "--columns: the run 'r' has no label", "Valid"),
        (TableOptions(rows="output", columns="output"), "is the label of the rows", "''"),
        (TableOptions(rows="output", scores=["invalit"]), "no score 'invalit'", "mean 'invalid'"),
    ],
)
def test_what_cannot_be_shown(make, runs, asked: TableOptions, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        cross_table([runs("r", "free", generated(make))], {}, asked)
    assert remedy in raised.value.remedy


def test_tables_of_different_rows(make, runs) -> None:
    tables = TABLES | {"validation": PaperTable("label", "output", (), SOURCE)}
    both = [runs("g", "generation", generated(make)), runs("v", "validation", validated(make))]
    with pytest.raises(ConfigError, match="different rows: representation, label"):
        cross_table(both, tables, TableOptions())


def test_other_data_are_refused_where_they_would_stand_side_by_side(make, runs) -> None:
    first, second = (runs(name, "generation", generated(make), name) for name in "ab")
    other = variant("b", {}, task="generation", run="b", fingerprint={"dataset_sha256": "other"})
    with pytest.raises(RunConflict, match="'a' and 'b' are runs of different data sets"):
        cross_table([first, (other, second[1])], TABLES, TableOptions())
    elsewhere = runs("b", "generation", generated(make, "json"))[1]
    assert len(cross_table([first, (other, elsewhere)], TABLES, TableOptions()).rows) == 2


def test_settings_are_told_as_yaml_has_them() -> None:
    shots = {"task.shots.n": 1, "task.shots.within": ["a", "b"], "task.shots.form": None}
    assert setting_text(shots, "task.shots.") == "{n: 1, within: [a, b], form: null}"
    assert setting_text(True) == "true"


def test_a_table_has_a_column_for_each_measure() -> None:
    runs = [run_of("retried", FOUR, "pass@4"), run_of("taught", LAST)]
    found = cross_table(runs, {}, TableOptions(rows=""))
    assert [figure.name for figure in found.figures] == ["pass@4", "pass rate"]
    first, second = found.rows
    cells = [cell for cell in first.cells if cell]
    assert [cell.mean for cell in cells] == pytest.approx([0.75, (9 + 3 + 3) / 54])
    assert [(cell.n, cell.missing) for cell in cells] == [(12, 2), (54, 1)]
    assert second.cells[0] is None  # it has one sample of each instance
    with pytest.raises(ConfigError, match="'taught' has no score 'pass@4'") as refused:
        cross_table(runs, {}, TableOptions(rows="", scores=["pass@4"]))
    assert refused.value.remedy == "It needs 4 samples of an instance; this run has 1."
