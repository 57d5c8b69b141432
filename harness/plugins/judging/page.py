"""What a report says about a run's judges: their validation, and the votes of panels.

It counts how often the judges of a panel disagree, and how often each agrees with the panel.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct

from harness.analysis.breakdown import mean_score
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.errors import ConfigError
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.plugins.comparisons.constraints import table_line
from harness.plugins.judging.references import changed_labels, kept_labels
from harness.plugins.judging.validation import (
    PEOPLE,
    JudgeValidation,
    against_people,
    against_rules,
    validation_document,
)
from harness.plugins.report.figure import Figure
from harness.plugins.report.runs import NOT_VALIDATED, ReportSection
from harness.records import Score
from harness.report.table import Column, Note, Row, Table, table
from harness.report.text import format_number
from harness.store.columns import TableBuilder
from harness.store.index import AttemptIndex


class PanelMember(Struct, frozen=True, kw_only=True):
    """A judge of a panel: how often it says yes and agrees with the panel."""

    judge: str
    yes: SampleStatistic  # the share of its verdicts that are yes
    agrees: SampleStatistic  # the share of its verdicts that are the panel's


class PanelFindings(Struct, frozen=True, kw_only=True):
    """How the judges of a panel voted on one score, over each sample's last answer."""

    score: str
    split: SampleStatistic  # the share of the criteria or answers on which they disagree
    members: list[PanelMember]


class _Judged(Struct, gc=False):
    instance: str
    sample: int
    cluster: str
    scores: dict[str, Score] = {}


def read_panels(index: AttemptIndex) -> list[PanelFindings]:
    """Return the findings on each score of a run's panels, or [] if there are no votes."""
    judges = index.register.judges
    panels = tuple(f"{name}." for name, judge in judges.items() if judge.members)
    if not panels:
        return []
    tables: dict[str, dict[tuple[str, str], TableBuilder]] = defaultdict(
        lambda: defaultdict(TableBuilder)
    )
    for line in index.read(_Judged, index.last_rounds()):
        for name, score in line.scores.items():
            votes = _votes(score) if name.startswith(panels) else ()
            for place, (passed, by_judge) in enumerate(votes):
                row = f"{line.instance}\0{place}"
                for key, share in _shares(passed, by_judge).items():
                    table_row = table_line(row, line.sample, line.cluster, {}, share)
                    tables[name][key].add(table_row)
    return [_findings(name, tables_of_score) for name, tables_of_score in tables.items()]


def _shares(passed: bool | None, votes: Mapping[str, bool | None]) -> dict[tuple[str, str], bool]:
    """Return what one vote of a panel adds to its shares, by their kind and judge."""
    shares = {}
    decided = {judge: vote for judge, vote in votes.items() if vote is not None}
    for judge, vote in decided.items():
        shares["yes", judge] = vote
        if passed is not None:
            shares["agrees", judge] = vote is passed
    if len(decided) > 1:
        shares["split", ""] = len(set(decided.values())) > 1
    return shares


def _findings(score: str, tables: Mapping[tuple[str, str], TableBuilder]) -> PanelFindings:
    shares = {key: mean_score(builder.build()[0], PASS_RATE) for key, builder in tables.items()}
    nothing = SampleStatistic()
    members = []
    for (kind, judge), share in shares.items():
        if kind == "yes":
            agrees = shares.get(("agrees", judge), nothing)
            members.append(PanelMember(judge=judge, yes=share, agrees=agrees))
    return PanelFindings(score=score, split=shares.get(("split", ""), nothing), members=members)


def _votes(score: Score) -> Iterator[tuple[bool | None, dict[str, bool | None]]]:
    criteria = score.details.get("constraints", [])
    for entry in criteria if isinstance(criteria, list) else ():
        if isinstance(entry, dict) and isinstance(votes := entry.get("panel"), dict):
            yield entry.get("passed"), {judge: _verdict(vote) for judge, vote in votes.items()}
    votes = score.details.get("panel")
    if isinstance(votes, dict) and score.passed is not None:
        verdicts = dict.fromkeys(votes)
        verdicts |= {judge: vote for judge, vote in votes.items() if isinstance(vote, bool)}
        yield score.passed, verdicts


def _verdict(vote: Any) -> bool | None:
    """Return a judge's vote as a verdict: yes for a probability of 0.5 or more."""
    if isinstance(vote, float):
        return vote >= 0.5
    return vote if isinstance(vote, bool) else None


class JudgeFindings(ReportSection):
    """A run's panels, and its judges' validations against rules and human labels."""

    def __init__(self, index: AttemptIndex, run: str, texts: bool) -> None:
        super().__init__(index, run, texts)
        self.panels = read_panels(index) if texts else []
        self.validations = _validations(index, run) if texts else []

    def tables(self, run: str) -> Iterator[Table | Note]:
        """Yield a table per panel, and the tables of each validation."""
        for panel in self.panels:
            yield _panel(run, panel)
        for judge in self.index.register.judges:
            if changed := _changed(self.index, judge):
                yield Note(f"{run}: {judge}: {changed}. Validate it again: harness judge validate.")
        for validation in self.validations:
            document = validation_document(validation)
            for part in document.parts[1:]:  # without the run's name, which is in the title
                if isinstance(part, Table):
                    yield replace(part, title=f"{run}: {document.title}")
                else:
                    yield part

    def figures(self) -> Iterator[Figure]:
        """Yield the calibration of each judge with probabilities."""
        from harness.plugins.judging.calibration import calibration_figure  # needs Altair

        for validation in self.validations:
            if curve := calibration_figure(validation):
                yield curve

    def judge_note(self, judge: str) -> str | None:
        """Return how far a judge agrees with human labels."""
        if validation := self._by_people(judge):
            return f"agrees with {_agreement_text(validation)}"
        if changed := _changed(self.index, judge):
            return changed
        return "" if kept_labels(self.index.path.parent, judge) else NOT_VALIDATED

    def doubts(self, judge: str) -> bool:
        """Return whether a judge was not shown to agree with people beyond chance.

        A judge is trusted if its labels have not been read.
        """
        if validation := self._by_people(judge):
            return not validation.agreement.beyond_chance
        return not kept_labels(self.index.path.parent, judge)

    def _by_people(self, judge: str) -> JudgeValidation | None:
        """Return a judge's validation by the run's largest file of human labels, if any."""
        largest = None
        for validation in self.validations:
            if validation.judge != judge or not validation.reference.startswith(PEOPLE):
                continue
            n = validation.agreement.accuracy.n
            if largest is None or n > largest.agreement.accuracy.n:
                largest = validation
        return largest


def _changed(index: AttemptIndex, judge: str) -> str:
    """Return which label files of a judge were changed in the run's folder, or ""."""
    names = changed_labels(index.path.parent, judge)
    if not names:
        return ""
    return f"its human labels ({', '.join(names)}) were changed after the validation"


def _validations(index: AttemptIndex, run: str) -> list[JudgeValidation]:
    validations: list[JudgeValidation] = []
    if index.judgements is not None:
        with contextlib.suppress(ConfigError):  # no criterion that both decided on
            validations += against_rules(index, run)
        validations += against_people(index, run)
    return validations


def _agreement_text(validation: JudgeValidation) -> str:
    unit = ShownUnit(percent=True, digits=0)
    column = Column("", rate=True)
    accuracy = validation.agreement.accuracy
    return (
        f"{validation.reference} on {unit.show(accuracy.mean, column)} "
        f"({unit.show(accuracy.ci95, column)}) of {accuracy.n:,} verdicts, "
        f"kappa {format_number(validation.agreement.kappa.mean, 2)}"
    )


def _panel(run: str, findings: PanelFindings) -> Table:
    rows = []
    for member in findings.members:
        rows.append([member.judge, member.yes, member.yes.n, member.agrees, member.agrees.ci95])
    split = findings.split
    footer = Row(["the judges disagree", "", split.n, split, split.ci95])
    columns: list[Column | str] = [
        "judge",
        Column("says yes ± s.e.", rate=True),
        Column("n"),
        Column("as the panel ± s.e.", rate=True),
        Column("95%", rate=True),
    ]
    title = f"{findings.score}, the panel's judges in {run}"
    return table(columns, rows, title=title, footer=footer)
