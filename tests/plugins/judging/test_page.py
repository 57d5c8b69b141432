"""What a report says about judges: whether they were validated, panels, calibration."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from harness.analysis.metrics import JudgeFacts, SampleStatistic
from harness.plugins.judging.page import JudgeFindings, PanelFindings, PanelMember
from harness.plugins.judging.references import Label, keep_labels
from harness.plugins.judging.validation import PEOPLE, JudgeValidation
from harness.plugins.report.figures import figures
from harness.plugins.report.overview import overview
from harness.plugins.report.parts import WithoutJudges
from harness.plugins.report.runs import Reported, ReportedRun
from harness.records import Score
from harness.store.files import write_json
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import Register, RegisteredJudge, write_register
from harness.store.run_folder import JUDGEMENTS, RunFolder
from tests.plugins.judging.test_calibration import found as validation
from tests.plugins.report.pages import MADE_AT, reported_run
from tests.plugins.report.test_overview import SCORES, of, tables, texts
from tests.report.attempts import attempt
from tests.store.test_judgements import judgement


def with_findings(
    run: ReportedRun,
    validations: Sequence[JudgeValidation] = (),
    panels: Sequence[PanelFindings] = (),
) -> ReportedRun:
    findings = JudgeFindings(run.index, run.name, False)
    findings.validations = list(validations)
    findings.panels = list(panels)
    return replace(run, added=[("scores", findings)])


def test_a_judge_that_was_not_validated_is_named(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a", scores=SCORES)])
    run = replace(run, metrics=replaced(run.metrics, judges={"j": JudgeFacts(model="gpt-4")}))
    run = with_findings(run)
    assert of(run).judges == {"j": "not validated against human labels"}
    keep_labels(RunFolder(tmp_path.parent, tmp_path.name), "j", "labels.jsonl", [Label("a", True)])
    assert of(run).judges == {}, "not known without the attempts' texts"
    write_json(tmp_path / "manifest.json", {"files": {}})
    keep_labels(RunFolder(tmp_path.parent, tmp_path.name), "j", "labels.jsonl", [Label("a", True)])
    (tmp_path / "labels" / "j" / "labels.jsonl").write_text("")
    assert "(labels.jsonl) were changed after the validation" in of(run).judges["j"]
    people = replaced(validation((0.9, True)), judge="j", reference=PEOPLE)
    told = of(with_findings(run, validations=[people])).judges["j"]
    assert told.startswith("agrees with human labels on ")


def test_the_pass_rate_without_a_judge_that_was_not_validated(tmp_path: Path) -> None:
    lines = [attempt("good"), attempt("rude"), attempt("both", passed=False)]
    run = reported_run(tmp_path, "run", lines)
    judges = {"j": RegisteredJudge({}, decides=True), "silent": RegisteredJudge({})}
    write_register(tmp_path, Register(judged=("ok",), judges=judges))
    with JsonLinesWriter(tmp_path / JUDGEMENTS) as writer:
        for line in lines:
            passed = line.instance == "good"
            said = {"j.strict": Score(passed, passed)}
            writer.append(judgement(line.instance, text=line.text or "", judge="j", scores=said))
    facts = dict.fromkeys(judges, JudgeFacts(model="gpt-4"))
    run = replace(
        run,
        index=AttemptIndex(run.index.path),
        metrics=replaced(run.metrics, judges=facts),
    )
    found = of(with_findings(run))
    assert found.runs[0].without == WithoutJudges(judges=["j"], value=2 / 3, failed=2, alone=1)
    assert found.answer.support[-2] == (
        "Failures found only by judges that human labels do not validate: 1 of 2 (j)."
    )
    for labels, good in (([(0.9, True), (0.1, False)] * 10, True), ([(0.9, True)] * 11, False)):
        people = replaced(validation(*labels), judge="j", reference=PEOPLE)
        validated = of(with_findings(run, validations=[people]))
        assert (validated.runs[0].without is None) == good


def test_a_panels_disagreement_is_a_table(tmp_path: Path) -> None:
    half, all_ = (
        SampleStatistic(mean=0.5, stderr=0.1, ci95=(0.3, 0.7), n=8),
        SampleStatistic(mean=1.0, stderr=0.0, n=4),
    )
    panel = PanelFindings(
        score="jury.strict",
        split=half,
        members=[PanelMember(judge="a", yes=half, agrees=all_)],
    )
    run = with_findings(reported_run(tmp_path, "run", [attempt("a")]), panels=[panel])
    (table,) = tables(of(run), "scores")
    assert table.title == "jury.strict, the panel's judges in run"
    assert texts(table) == [["a", "50 ± 10%", "8", "100%", "n/a"]]
    assert table.footer
    assert [cell.text for cell in table.footer.cells] == [
        *("the judges disagree", "", "8", "50 ± 10%", "30-70%")
    ]


def test_a_judges_agreement_with_rules_is_shown_as_tables_and_a_curve(tmp_path: Path) -> None:
    judged = validation((0.95, True), (0.92, True), (0.91, False), (0.15, False))
    run = with_findings(reported_run(tmp_path, "run", [attempt("a")]), validations=[judged])
    drawn = figures([run], None)
    assert [one.name for one in drawn if one.section == "scores"] == ["calibration"]
    shown = overview(Reported([run]), "title", MADE_AT, figures=drawn)
    agreement, *_ = tables(shown, "scores")
    assert agreement.title == "run: <j> against k"
    assert texts(agreement)[0][:2] == ["accuracy", "0.750 ± 0.250"]
