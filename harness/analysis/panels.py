"""Counts how often judges of a panel disagree, and how often each agrees with the panel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from harness.analysis.breakdown import value_of
from harness.analysis.constraints import table_line
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.records import Score
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
            for place, (passed, of_judges) in enumerate(votes):
                row = f"{line.instance}\0{place}"
                said = {judge: vote for judge, vote in of_judges.items() if vote is not None}
                shares = {("yes", judge): vote for judge, vote in said.items()}
                if passed is not None:
                    shares |= {("agrees", judge): vote is passed for judge, vote in said.items()}
                if len(said) > 1:
                    shares["split", ""] = len(set(said.values())) > 1
                for key, share in shares.items():
                    one = table_line(row, line.sample, line.cluster, {}, share)
                    tables[name][key].add(one)
    return [_findings(name, own) for name, own in tables.items()]


def _findings(score: str, tables: Mapping[tuple[str, str], TableBuilder]) -> PanelFindings:
    share = {key: value_of(one.table()[0], PASS_RATE) for key, one in tables.items()}
    nothing = SampleStatistic()
    members = [
        PanelMember(judge=judge, yes=yes, agrees=share.get(("agrees", judge), nothing))
        for (what, judge), yes in share.items()
        if what == "yes"
    ]
    return PanelFindings(score=score, split=share.get(("split", ""), nothing), members=members)


def _votes(score: Score) -> Iterator[tuple[bool | None, dict[str, bool | None]]]:
    criteria = score.details.get("constraints", [])
    for one in criteria if isinstance(criteria, list) else ():
        if isinstance(one, dict) and isinstance(votes := one.get("panel"), dict):
            yield one.get("passed"), {judge: _verdict(vote) for judge, vote in votes.items()}
    if isinstance(votes := score.details.get("panel"), dict) and score.passed is not None:
        said = {judge: vote if isinstance(vote, bool) else None for judge, vote in votes.items()}
        yield score.passed, said


def _verdict(vote: Any) -> bool | None:
    """Return a judge's vote as a verdict: yes for a probability of 0.5 or more."""
    return vote >= 0.5 if isinstance(vote, float) else vote if isinstance(vote, bool) else None
