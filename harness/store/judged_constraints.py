"""What a run's judges say of each constraint: met, not met, or no verdict, as rows for analysis.

What was said of a superseded answer, and by a judge that the run does not have, does not count
(`harness.store.judge_verdicts`).

>>> found = read_judged(Path("runs/none/attempts.jsonl"), "yes_no")  # doctest: +SKIP
>>> list(found.table.by("category"))  # doctest: +SKIP
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.records import Outcome
from harness.store.columns import AttemptTable
from harness.store.gathering import Attempts
from harness.store.judge_verdicts import read_answers
from harness.store.whole import Places


@dataclass(frozen=True, slots=True)
class JudgedConstraints:
    """The constraints of each sample's last round.

    judge: whose verdicts they are.
    table: each constraint of an instance is a row like an instance, by its place in the list;
        ``passed`` whether it was met. Its cluster is the instance's, and so are its groups,
        with labels of its own beside them.
    without: samples of which the judge tells of none, by the outcome of the attempt: refused,
        empty and failed answers are put before nobody; of an ``ok`` one the judge gave no verdict.
    """

    judge: str
    table: AttemptTable
    without: Counter[Outcome]


def read_judged(
    path: Path, judge: str, places: Places | None = None, round_: int | None = None
) -> JudgedConstraints:
    """The constraints that a judge has judged.

    path: of the run's attempts.
    judge: its name in the run.
    places: of the file, where they are known already.
    round_: each sample's last round up to this one counts; None for its last one.

    Raises: DataInvalid, StoreFailed.
    """
    gathered, without = Attempts(), Counter[Outcome]()
    for answer in read_answers(path, [judge], places, round_):
        (said,) = answer.said
        if said is None or not said.of_criteria:
            without[answer.outcome] += 1
            continue
        for place, verdict in enumerate(said.verdicts):
            gathered.add(
                f"{answer.instance}\0{place}",
                answer.sample,
                1,
                groups=msgspec.json.encode({**answer.groups, **verdict.groups}),
                cluster=answer.cluster,
                outcome="ok",
                passed=verdict.passed,
                scores={},
            )
    return JudgedConstraints(judge, gathered.table()[0], without)
