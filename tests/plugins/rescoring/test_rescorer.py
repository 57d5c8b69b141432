"""Recorded attempts, scored by the current task."""

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.config.settings import Settings
from harness.engine.plan import prompt_hash
from harness.errors import DataMissing
from harness.plugins.rescoring.rescorer import (
    GONE,
    Rescored,
    Rescorer,
    VerdictChanges,
    batches,
    line,
)
from harness.records import SCHEMA_VERSION, Attempt, Instance, Outcome, Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.conftest import Sums, run_file


class Strict(Sums):
    """A later version of the checker: an even number of digits is wrong, too."""

    def score(self, instance: Instance[int], text: str) -> Mapping[str, Score]:
        exact = super().score(instance, text)["exact"]
        even = len(text) % 2 == 0
        return {"exact": Score(False, False, "two digits") if even else exact}


class Terse(Sums):
    """A checker that does not quote answers."""

    def score(self, instance: Instance[int], text: str) -> Mapping[str, Score]:
        return {"exact": Score(False, False, "wrong")}


def attempt(number: int, text: str | None, passed: bool | None = None, **given: Any) -> Attempt:
    outcome: Outcome = given.pop("outcome", "ok")
    return Attempt(
        v=SCHEMA_VERSION,
        instance=f"sum/{number}",
        sample=given.pop("sample", 0),
        round=given.pop("round", 1),
        groups={"parity": "odd" if number % 2 else "even"},
        cluster=given.pop("cluster", None)
        or prompt_hash(Sums(), Instance(f"sum/{number}", number)),
        request={},
        outcome=outcome,
        started_at=0.0,
        ended_at=1.0,
        text=text,
        finish_reason=given.pop("finish_reason", "stop"),
        passed=passed,
        **given,
    )


def right(number: int, **given: Any) -> Attempt:
    scores = {"exact": Score(True, True)}
    return attempt(number, str(2 * number), True, scores=scores, **given)


def written(path: Path, *attempts: Attempt) -> Path:
    with JsonLinesWriter(path / "attempts.jsonl") as writer:
        for one in attempts:
            writer.append(one)
    return path / "attempts.jsonl"


def scored(task: Sums, path: Path) -> tuple[list[Rescored], VerdictChanges, list[Any]]:
    lines, changes, changed = list[Rescored](), VerdictChanges(), list[Any]()
    rescorer = Rescorer(task, run_file(), Settings(data_dir=path.parent), path, ())
    for batch in batches(task, AttemptIndex(path)):
        found = rescorer.score(batch)
        lines += [msgspec.json.decode(one, type=Rescored) for one in found.lines.splitlines()]
        changes.add(found.changes)
        changed += found.changed
    return lines, changes, changed


def test_the_same_task_gives_the_same_scores(tmp_path: Path) -> None:
    path = written(tmp_path, *(right(number, sample=k) for k in (0, 1) for number in (2, 0, 1)))
    lines, changes, changed = scored(Sums(), path)
    assert [(one.instance, one.sample) for one in lines] == [
        (f"sum/{number}", k) for number in range(3) for k in (0, 1)
    ], "in the order of the data set"
    assert (changes.same, changes.changed, changes.otherwise) == (6, 0, 0)
    assert not changed
    assert lines[0].scores == {"exact": Score(True, True)}


def test_another_checker_changes_verdicts_and_each_has_its_reason(tmp_path: Path) -> None:
    wrong_before = attempt(1, "2", False, scores={"exact": Score(False, False, "an old slip")})
    path = written(tmp_path, right(2), right(5), wrong_before)
    lines, changes, changed = scored(Strict(), path)
    assert [one.passed for one in lines] == [True, True, False]
    assert dict(changes.verdicts) == {(True, True): 1, (False, True): 1, (True, False): 1}
    assert changes.groups["parity"]["odd"] == {(False, True): 1, (True, False): 1}
    assert [(c.instance, c.before, c.after, c.reason) for c in changed] == [
        ("sum/1", False, True, "exact: an old slip"),
        ("sum/5", True, False, "exact: two digits"),
    ]


def test_the_same_verdict_for_another_reason_is_a_difference(tmp_path: Path) -> None:
    before = attempt(1, "7", False, scores={"exact": Score(False, False, "worded otherwise")})
    _, changes, changed = scored(Sums(), written(tmp_path, before))
    assert (changes.same, changes.otherwise) == (1, 1)
    assert not changed


def test_a_failed_call_is_unchanged(tmp_path: Path) -> None:
    failed = attempt(1, None, None, outcome="error", error="TimedOut: no answer")
    lines, changes, _ = scored(Sums(), written(tmp_path, failed))
    assert (lines[0].outcome, lines[0].passed, lines[0].error) == ("error", None, failed.error)
    assert changes.left == 1
    assert not changes.verdicts


@pytest.mark.parametrize(
    ("text", "finish_reason", "outcome"),
    [
        ("4", "refusal", "refused"),
        (" ", "stop", "empty"),
        ("four", "stop", "unparseable"),
        ("4", "length", "truncated"),
    ],
)
def test_outcomes_are_determined_again(
    tmp_path: Path, text: str, finish_reason: str, outcome: str
) -> None:
    before = attempt(2, text, True, finish_reason=finish_reason)
    (found,), changes, (change,) = scored(Sums(), written(tmp_path, before))
    assert (found.outcome, found.passed) == (outcome, False)
    assert change.reason == (found.error or outcome)
    assert changes.changed == 1


def test_a_task_that_now_grades_truncated_answers_scores_them(tmp_path: Path) -> None:
    before = attempt(2, "4", False, finish_reason="length", outcome="truncated")
    (found,), _, _ = scored(Sums(on_truncated="grade"), written(tmp_path, before))
    assert (found.outcome, found.passed) == ("truncated", True)


def test_attempts_on_removed_instances_have_no_verdict(tmp_path: Path) -> None:
    lines, changes, (change,) = scored(Sums(n=2), written(tmp_path, right(4), right(0)))
    assert [one.instance for one in lines] == ["sum/0", "sum/4"], "last"
    assert (lines[1].passed, lines[1].scores, lines[1].error) == (None, {}, GONE)
    assert (changes.gone, change.before, change.after, change.reason) == (1, True, None, GONE)


def test_answers_to_another_prompt_have_no_verdict(tmp_path: Path) -> None:
    """Such as those to rows without ids that have changed places."""
    path = written(tmp_path, right(4, cluster="of another prompt"), right(2))
    lines, changes, (change,) = scored(Sums(), path)
    assert [(one.instance, one.passed) for one in lines] == [("sum/2", True), ("sum/4", None)]
    assert (changes.gone, change.before, change.after, change.reason) == (1, True, None, GONE)


def test_a_data_set_with_none_of_the_instances_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="none of the run's instances, such as 'sum/4'"):
        scored(Sums(n=2), written(tmp_path, right(4)))


def test_the_last_line_of_a_key_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, attempt(1, "9", False), right(2), right(1))
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"v":1,"instance":"sum/3"')
    recorded = AttemptIndex(path)
    assert (len(recorded), recorded.size) == (2, whole)
    found, _, _ = scored(Sums(), path)
    assert [(one.instance, one.passed) for one in found] == [("sum/1", True), ("sum/2", True)]


def test_a_run_without_attempts(tmp_path: Path) -> None:
    recorded = AttemptIndex(tmp_path / "attempts.jsonl")
    assert len(recorded) == 0
    assert not list(batches(Sums(), recorded))


def test_half_a_character_is_replaced() -> None:
    score = Score(True, True, "\ud800!")
    assert msgspec.json.decode(line({"a": score}))["a"]["reason"] == "\N{REPLACEMENT CHARACTER}!"


def test_texts_are_never_held(tmp_path: Path) -> None:
    long = "1" * 40_000
    path = written(
        tmp_path, *(attempt(number % 6, long, False, sample=number) for number in range(500))
    )
    tracemalloc.start()
    try:
        n = 0
        rescorer = Rescorer(Terse(), run_file(), Settings(data_dir=tmp_path), path, ())
        for batch in batches(Terse(), AttemptIndex(path)):
            n += rescorer.score(batch).changes.same
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n == 500
    assert path.stat().st_size > 20e6
    assert peak < 2e6
