"""The overview: scores, failures by reason, settings in words, sections, explained groups."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as replaced

from harness.analysis.metrics import JudgeFacts
from harness.plugins.comparisons.constraints import ConstraintKind
from harness.plugins.comparisons.run_comparison import ComparisonOptions
from harness.plugins.report.figure import Figure
from harness.plugins.report.figures import figures
from harness.plugins.report.overview import overview, unequal
from harness.plugins.report.parts import Overview, TablePart, WithoutJudges
from harness.plugins.report.runs import NOT_VALIDATED, Reported, ReportedRun, ReportSection
from harness.plugins.report.sections import in_words
from harness.records import Attempt, Score
from harness.report.table import Note, Table, table
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import Register, RegisteredJudge, write_register
from harness.store.run_folder import JUDGEMENTS
from tests.plugins.report.pages import MADE_AT, compared, figure, reported_run, two_runs
from tests.report.attempts import attempt
from tests.store.test_judgements import judgement


def of(*runs: ReportedRun) -> Overview:
    comparison = compared(runs) if len(runs) > 1 else None
    return overview(Reported(list(runs), comparison), "title", MADE_AT)


def tables(found: Overview, section: str) -> list[TablePart]:
    return [
        part
        for one in found.sections
        if one.id == section
        for part in one.parts
        if isinstance(part, TablePart)
    ]


def texts(part: TablePart) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in part.rows]


SCORES = {
    "exact": Score(True, True),
    "words": Score(12.0, None),
    "share": Score(0.25, None),
    "j.strict": Score(False, False),
    "p.strict": Score(True, True),
}


def test_settings_by_model_have_a_column_per_model(tmp_path: Path) -> None:
    def run(model: str, shots: int, passed: bool) -> ReportedRun:
        name = f"{model}.{shots}"
        found = reported_run(tmp_path / name, name, [attempt("a/0", passed=passed), attempt("a/1")])
        metrics = replaced(found.metrics, model=model)
        settings = {"model.name": model, "task.shots": shots}
        return replace(found, metrics=metrics, settings=settings)

    runs = [run("small", 0, False), run("large", 0, True), run("small", 4, True)]
    part = next(one for one in tables(of(*runs), "results") if one.title == "Settings by model")
    assert [column.over for column in part.columns] == ["", "small", "small", "large", "large"]
    assert [[row[0], row[1], row[3]] for row in texts(part)] == [
        ["few-shot examples 0", "50%", "100%"],
        ["few-shot examples 4", "100%", "n/a"],
    ]
    assert not any(one.title == part.title for one in tables(of(*runs[:2]), "results"))


def test_an_ablation_is_drawn_with_a_row_per_variant(tmp_path: Path) -> None:
    def run(name: str, *passed: bool) -> ReportedRun:
        lines = [attempt(f"a/{at}", passed=one) for at, one in enumerate(passed)]
        return reported_run(tmp_path / name, name, lines)

    runs = [run("plain", True, False, False), run("one", True, True, True), run("two", False, True)]
    drawn = {one.name: one for one in figures(runs, compared(runs))}
    rows = drawn["ablation"].rows
    assert [row[0] for row in rows] == ["one", "two"]
    # "round" has a/0 and a/2, "square" has a/1: +50 and +100 points.
    assert any(text.startswith("+75") for text in rows[0])
    assert "ablation" not in {one.name for one in figures(runs[:2], compared(runs[:2]))}


def test_every_score_is_there_with_its_interval(tmp_path: Path) -> None:
    lines = [attempt(f"a/{at}", scores=SCORES) for at in range(4)]
    lines.append(attempt("a/4", passed=False, outcome="empty", text="", scores={}))
    run = reported_run(tmp_path, "run", lines)
    judges = {"j": JudgeFacts(model="m"), "p": JudgeFacts(of=("j", "k"))}
    run = replace(run, metrics=replaced(run.metrics, judges=judges))
    found = {one.name: one for one in of(run).runs[0].scores}
    assert [(one.name, one.kind, one.unit) for one in found.values()] == [
        ("exact", "check", "%"),
        ("words", "score", ""),
        ("share", "score", "%"),
        ("j.strict", "judge", "%"),
        ("p.strict", "panel", "%"),
    ]
    exact = found["exact"]
    assert (exact.value, exact.high, exact.n, exact.missing) == (1.0, 1.0, 4, 1)
    assert exact.low == pytest.approx(0.40, abs=0.01)
    assert found["words"].value == 12.0


def test_a_score_without_a_value_is_missing_and_not_0(tmp_path: Path) -> None:
    lines = [attempt("a", scores={"exact": Score(True, True), "j.soft": Score(None, None)})]
    found = of(reported_run(tmp_path, "run", lines)).runs[0].scores
    assert [(one.value, one.low, one.n, one.missing) for one in found[1:]] == [(None, None, 0, 1)]


def constraint(kind: str, passed: bool) -> dict[str, object]:
    return {"constraint": f"{kind} 3", "kind": kind, "passed": passed}


def failing(instance: str, *kinds: str, sample: int = 0) -> Attempt:
    listed = [constraint(kind, False) for kind in kinds] + [constraint("length", True)]
    scores = {"rules": Score(False, False, "several", {"constraints": listed})}
    return attempt(instance, sample, passed=False, scores=scores)


def test_failures_are_counted_by_reason(tmp_path: Path) -> None:
    unread = "The answer is not JSON: line 3."
    lines = [
        attempt("good"),
        failing("b", "keywords:existence", "case"),
        failing("c", "keywords:existence"),
        attempt("d", passed=False, outcome="unparseable", error=unread, scores={}, text="```{```"),
        attempt("e", passed=False, outcome="truncated", scores={}),
        attempt("f", passed=False, scores={}),
        *[attempt(name, passed=None, outcome="error", error="down", scores={}) for name in "gh"],
    ]
    run = of(reported_run(tmp_path, "run", lines)).runs[0]
    assert (run.n_failed, run.n_failed_calls) == (5, 2)
    assert [(one.reason, one.n, one.of) for one in run.failures] == [
        ("not met: keywords:existence", 2, 5),
        ("not met: case", 1, 5),
        ("unparseable: The answer is not JSON: line 3.", 1, 5),
        ("truncated: the answer reached the token limit (decoding.max_tokens)", 1, 5),
        ("no reason was recorded", 1, 5),
        ("error: down", 2, 2),
    ]
    first, second, unparseable, *_ = run.failures
    assert (first.example, first.alone) == (("c", 0, 1), True)
    assert (second.example, second.alone) == (("b", 0, 1), False)
    assert first.filter == {"where": "run", "reason": "not met: keywords:existence"}
    assert first.hint == ""
    assert "extraction: fence" in unparseable.hint


def test_failures_are_of_last_rounds(tmp_path: Path) -> None:
    lines = [
        attempt("a", passed=False),
        attempt("a", round_=2),
        attempt("b", passed=False),
        attempt("b", round_=2, passed=False),
    ]
    run = of(reported_run(tmp_path, "run", lines)).runs[0]
    assert [(one.n, one.example) for one in run.failures] == [(1, ("b", 0, 2))]


def test_what_runs_differ_in_is_in_words(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    more = {"judges.j": {"judges.j.votes": 3, "judges.j.fields": ["a", "b"]}, "task.loud": True}
    found = of(before, replace(after, settings={**after.settings, **more})).differences
    assert found
    assert texts(found) == [
        ["model", "before", "after"],
        ["judges j votes", "default", "3"],
        ["judges j fields", "default", "a, b"],
        ["task loud", "default", "yes"],
    ]
    assert found.rows[1].cells[0].title == "judges.j.votes"
    assert of(before).differences is None


def test_a_mapping_in_words() -> None:
    assert in_words({"a": {"b": [1, 2]}, "c": None, "d": []}) == "a: b: 1, 2; c: default; d: none"


def test_tables_have_percentages_numbers_to_sort_by_and_links(tmp_path: Path) -> None:
    found = of(*two_runs(tmp_path))
    (by_shape,) = tables(found, "results")
    assert by_shape.title == "By shape"
    assert [column.over for column in by_shape.columns] == ["", *["before"] * 3, *["after"] * 3]
    assert texts(by_shape)[0][:2] == ["round", "67 ± 33%"]
    groups = tables(found, "comparison")[0]
    worse = groups.rows[0].cells[-1]
    assert (worse.text, worse.sort) == ("1", 1)
    assert worse.href == "#attempts?change=worse:after&in.shape=round"
    assert texts(groups)[1][2:5] == ["33%", "67%", "+33"]
    assert [one.id for one in found.sections] == [
        *("results", "comparison", "rounds", "outcomes", "cost")
    ]
    assert texts(tables(found, "outcomes")[0]) == [
        ["before", "12", *["0"] * 6],
        ["after", "24", *["0"] * 6],
    ]


def test_changes_of_the_first_round_link_to_the_first_round(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    comparison = compared(runs, round_=1)
    found = overview(Reported(runs, comparison), "title", MADE_AT)
    worse = tables(found, "comparison")[0].rows[0].cells[-1]
    assert worse.href == "#attempts?change=worse:after&in.shape=round&round=1"
    assert found.comparison
    assert (found.comparison.round, found.comparison.rows[0].worse) == (1, 3)


def test_figures_come_first_and_fold_the_tables(tmp_path: Path) -> None:
    reported = Reported([reported_run(tmp_path, "run", [attempt("a0"), attempt("a1")])])
    found = overview(reported, "title", MADE_AT, figures=[figure("results"), figure("cost")])
    kinds = {
        one.id: [(part["kind"], part.get("folded")) for part in msgspec.to_builtins(one.parts)]
        for one in found.sections
    }
    assert kinds["results"] == [("figure", None), ("table", True)]
    assert kinds["cost"][0] == ("figure", None)


def test_provenance_is_last_and_statistics_are_explained(tmp_path: Path) -> None:
    found = of(*two_runs(tmp_path))
    assert [one.title for one in found.provenance] == [
        *("How the runs were made", "Settings of each run", "Versions of packages")
    ]
    assert any("account for clusters" in one for one in found.method)
    assert any(one.startswith("after: Standard error") for one in found.method)
    assert list(msgspec.json.decode(msgspec.json.encode(found)))[-1] == "provenance"


def test_an_unfair_comparison_and_a_judge_of_the_models_family_are_warned_of(
    tmp_path: Path,
) -> None:
    before, after = two_runs(tmp_path)
    judges = {"j": JudgeFacts(model="gpt-4", family="OpenAI")}
    before = replace(before, metrics=replaced(before.metrics, judges=judges))
    family, models, rounds, feedback = of(before, after).warnings
    assert (
        "before: self-preference: the judge 'j' asks gpt-4, of the model's own family (OpenAI)"
        in family
    )
    assert models == (
        "The runs use different models: model of before (before) and model of after (after)."
    )
    assert rounds.startswith("The runs have 1 and 2 rounds; ")
    assert feedback.endswith("not a gain in unaided ability. First answers pass: after 0%.")
    first = Reported([before, after], compared([before, after], round_=1))
    assert feedback not in overview(first, "title", MADE_AT).warnings


def test_the_notes_of_a_folded_table_are_folded_with_it(tmp_path: Path) -> None:
    kind = ConstraintKind(kind="commas", n=4, mean=0.5, stderr=0.25)
    run = reported_run(tmp_path, "run", [attempt("a")], constraints=[kind])
    reported = Reported([run])
    found = overview(reported, "title", MADE_AT, figures=[figure("results")])
    (part,) = next(one.parts for one in found.sections if one.id == "constraints")
    assert isinstance(part, TablePart)
    assert part.folded
    assert part.notes[0].startswith("Each sample's last round.")


def test_runs_wholly_from_the_cache_are_named(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    assert not any("cache" in said for said in of(before, after).warnings)
    after = replace(after, metrics=replaced(after.metrics, from_cache=True))
    said = of(before, after).warnings[0]
    assert said.startswith("The model's replies in after all come from the cache")


def test_recorded_answers_have_no_cost(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")], manifest={"backend": "replay"})
    found = of(run)
    assert (found.runs[0].recorded, found.runs[0].cost_usd) == (True, None)
    (cost,) = tables(found, "cost")
    assert texts(cost) == [["cost", "recorded answers: nothing was paid for or timed"]]


def test_reasons_are_chosen_over_all_runs(tmp_path: Path) -> None:
    rare = [failing(f"r/{at}", f"kind {chr(97 + at)}") for at in range(24)]
    often = [failing(f"o/{at}", "kind x") for at in range(3)]
    runs = [
        reported_run(tmp_path / name, name, lines)
        for name, lines in {"many": rare, "one": [*often, attempt("r/0")]}.items()
    ]
    many, one = of(*runs).runs
    assert (many.n_failed, len(many.failures)) == (24, 20)
    assert "not met: kind x" in {failure.reason for failure in many.failures}
    assert [failure.n for failure in one.failures] == [3]


def test_what_groups_mean_is_explained(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")])
    run = replace(run, explanations={"shape": {"round": "has no corners"}})
    assert of(run).groups == {"shape": {"round": "has no corners"}}


def test_unequal_rounds_and_samples_are_told(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)  # their settings say neither: what there is counts
    found = compared(runs)
    assert list(unequal(found, runs)) == [
        "The runs have 1 and 2 rounds; the comparison uses each sample's last round."
    ]
    assert list(unequal(found, [runs[0], runs[0]])) == []
    several = [
        replace(runs[0], settings={"rounds.max": rounds, "samples": samples})
        for rounds, samples in ((1, 1), (4, 5), (2, 5))
    ]
    rounds, samples = unequal(replaced(found, asked=ComparisonOptions(round=3)), several)
    assert rounds.startswith("The runs have 1, 2 and 4 rounds; ")
    assert rounds.endswith("each sample's last round up to 3.")
    assert samples.startswith("The runs have 1 and 5 samples per instance; ")
    (first, _) = unequal(replaced(found, asked=ComparisonOptions(round=1)), several)
    assert first.endswith("the comparison uses first rounds.")


class Readability(ReportSection):
    """A plug-in's section that also knows a judge."""

    def tables(self, run: str) -> Iterator[Table | Note]:
        yield table(["words"], [[3]], title=f"Words of {run}")
        yield Note("Of all texts.")

    def figures(self) -> Iterator[Figure]:
        yield figure("results")

    def judge_note(self, judge: str) -> str | None:
        return NOT_VALIDATED

    def doubts(self, judge: str) -> bool:
        return True


def test_a_plug_in_adds_a_section(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")])
    run = replace(run, metrics=replaced(run.metrics, judges={"j": JudgeFacts(model="gpt-4")}))
    assert of(run).judges == {}, "without a section that knows judges"
    added = [(name, Readability(run.index, "run", True)) for name in ("reading_ease", "scores")]
    run = replace(run, added=added)
    drawn = figures([run], None)
    shown = overview(Reported([run]), "title", MADE_AT, figures=drawn)
    titles = {section.id: section.title for section in shown.sections}
    assert titles["reading_ease"] == "Reading ease"
    for name in ("reading_ease", "scores"):
        (section,) = (section for section in shown.sections if section.id == name)
        assert [type(part).__name__ for part in section.parts][:2] == ["FigurePart", "TablePart"]
        assert tables(shown, name)[0].title == "Words of run"
    assert shown.judges == {"j": NOT_VALIDATED}


def test_what_only_a_doubted_judge_decides_has_no_pass_rate_without_it(tmp_path: Path) -> None:
    """No check gives a verdict, so the judge alone fails two of three answers."""
    lines = [attempt(name, passed=None, scores={}) for name in ("good", "rude", "wrong")]
    run = reported_run(tmp_path, "run", lines)
    write_register(
        tmp_path, Register(judged=("ok",), judges={"j": RegisteredJudge({}, decides=True)})
    )
    with JsonLinesWriter(tmp_path / JUDGEMENTS) as writer:
        for line in lines:
            passed = line.instance == "good"
            scores = {"j.strict": Score(passed, passed)}
            writer.append(judgement(line.instance, text=line.text or "", scores=scores))
    index = AttemptIndex(run.index.path)
    run = replace(run, index=index, added=[("scores", Readability(index, "run", True))])
    assert of(run).runs[0].without == WithoutJudges(judges=["j"], value=None, failed=2, alone=2)
