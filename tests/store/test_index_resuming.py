import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid, StoreFailed
from harness.records import OUTCOMES, SCHEMA_VERSION, Attempt, Outcome
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter

Found = tuple[Outcome, bool | None]

PASS: Found = ("ok", True)
FAIL: Found = ("ok", False)
UNJUDGED: Found = ("ok", None)
ERROR: Found = ("error", None)


def attempt(number: int, found: Found, **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "v": SCHEMA_VERSION,
        "instance": "i",
        "sample": 0,
        "round": number,
        "groups": {},
        "cluster": "c",
        "request": {},
        "outcome": found[0],
        "passed": found[1],
        "started_at": 0.0,
        "ended_at": 1.0,
    }
    return Attempt(**fields | changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "attempts.jsonl"


def ledger(path: Path, attempts: Iterable[Attempt]) -> AttemptIndex:
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    return AttemptIndex(path)


def owed(found: AttemptIndex, rounds: int, *, stop_on_pass: bool = True, **more: Any) -> int | None:
    return found.next_round("i", 0, rounds=rounds, stop_on_pass=stop_on_pass, **more)


def test_a_run_without_attempts_owes_everything(path: Path) -> None:
    found = AttemptIndex(path)
    assert len(found) == 0
    assert owed(found, 3) == 1


@pytest.mark.parametrize(
    ("done", "rounds", "stop_on_pass", "expected"),
    [
        ([], 1, True, 1),
        ([PASS], 1, True, None),
        ([PASS], 4, True, None),
        ([PASS], 4, False, 2),
        ([FAIL], 1, True, None),
        ([FAIL], 4, True, 2),  # rounds.max has grown, or the run was interrupted
        ([UNJUDGED], 4, True, 2),
        ([("refused", False)], 1, True, None),
        ([("truncated", False)], 2, True, 2),
        ([ERROR], 1, True, 1),
        ([FAIL, ERROR], 4, True, 2),
        ([FAIL, FAIL, PASS], 4, True, None),
        ([FAIL, PASS, FAIL], 4, False, 4),
        ([FAIL, FAIL, FAIL, FAIL], 4, True, None),
    ],
)
def test_the_round_that_is_owed_next(
    path: Path, done: list[Found], rounds: int, stop_on_pass: bool, expected: int | None
) -> None:
    found = ledger(path, (attempt(n, one) for n, one in enumerate(done, start=1)))
    assert owed(found, rounds, stop_on_pass=stop_on_pass) == expected


def test_every_run_of_rounds_owes_what_it_has_not_got(path: Path) -> None:
    """Each sequence of up to three rounds against the rule said in another way."""
    kinds = [PASS, FAIL, UNJUDGED, ERROR]
    done = [seq for length in range(4) for seq in itertools.product(kinds, repeat=length)]
    found = ledger(
        path,
        (
            attempt(number, one, sample=sample)
            for sample, sequence in enumerate(done)
            for number, one in enumerate(sequence, start=1)
        ),
    )
    for sample, sequence in enumerate(done):
        for rounds, stop_on_pass in itertools.product(range(1, 6), (True, False)):
            kept = list(itertools.takewhile(lambda one: one != ERROR, sequence[:rounds]))
            finished = len(kept) == rounds or (stop_on_pass and PASS in kept)
            assert found.next_round("i", sample, rounds=rounds, stop_on_pass=stop_on_pass) == (
                None if finished else len(kept) + 1
            ), (sequence, rounds, stop_on_pass)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_only_the_outcomes_to_retry_are_owed_again(path: Path, outcome: Outcome) -> None:
    found = ledger(path, [attempt(1, (outcome, False))])
    assert owed(found, 1) == (1 if outcome == "error" else None)
    assert owed(found, 1, retried={outcome}) == 1
    assert owed(found, 1, retried=()) is None


def test_a_finish_reason_can_be_retried(path: Path) -> None:
    reasons = ["stop", "weather", None]
    lines = [
        attempt(1, PASS, sample=sample, finish_reason=reason)
        for sample, reason in enumerate(reasons)
    ]
    found = ledger(path, lines)
    assert found.finish_reasons() == {"stop", "weather"}
    rows = found.rows_with_finish_reason({"weather", "length"})
    retried = [
        found.next_round("i", sample, rounds=1, stop_on_pass=True, retried_rows=rows)
        for sample in range(3)
    ]
    assert retried == [None, 1, None]


def test_samples_and_instances_are_told_apart(path: Path) -> None:
    found = ledger(
        path, [attempt(1, FAIL, sample=3), attempt(1, FAIL, instance="j"), attempt(2, FAIL)]
    )
    assert len(found) == 3
    assert found.next_round("i", 3, rounds=1, stop_on_pass=True) is None
    assert found.next_round("i", 1, rounds=1, stop_on_pass=True) == 1
    assert found.next_round("j", 0, rounds=2, stop_on_pass=True) == 2
    assert owed(found, 2) == 1, "a round without the one before it is no beginning"


def test_a_later_line_supersedes_an_earlier_one(path: Path) -> None:
    found = ledger(path, [attempt(1, ERROR, error="503"), attempt(1, FAIL, text="an answer")])
    assert len(found) == 1
    assert owed(found, 1) is None
    [kept] = found.read_rounds("i", 0, before=2)
    assert kept.text == "an answer"


def test_the_rounds_after_a_superseded_one_are_owed_anew(path: Path) -> None:
    """Round 2 continued an answer that is no longer there."""
    found = ledger(
        path,
        [
            attempt(1, ("truncated", False), text="old"),
            attempt(2, PASS, text="after old"),
            attempt(1, FAIL, text="new"),
        ],
    )
    assert owed(found, 2) == 2
    assert [one.text for one in found.read_rounds("i", 0, before=2)] == ["new"]


def test_the_recorded_rounds_come_in_order_and_whole(path: Path) -> None:
    text = "two\nlines and ä"
    found = ledger(
        path,
        [
            attempt(1, FAIL, text="first", feedback="no"),
            attempt(1, FAIL, text="another sample's", sample=1),
            attempt(2, ERROR, error="503"),
            attempt(2, FAIL, text=text, feedback="still no"),
            attempt(3, ERROR, error="503"),
        ],
    )
    assert found.read_rounds("i", 0, before=1) == []
    assert [(one.round, one.text, one.feedback) for one in found.read_rounds("i", 0, before=3)] == [
        (1, "first", "no"),
        (2, text, "still no"),
    ]


def test_rounds_of_a_run_that_goes_on_are_read_from_the_file_as_it_is_now(path: Path) -> None:
    found = ledger(path, [attempt(1, FAIL, text="first")])
    with JsonLinesWriter(path) as writer:
        writer.append(attempt(1, FAIL, sample=1))
        assert [one.text for one in found.read_rounds("i", 0, before=2)] == ["first"]


def test_a_torn_last_line_is_owed_again(path: Path) -> None:
    ledger(path, [attempt(1, FAIL), attempt(2, FAIL)])
    path.write_bytes(path.read_bytes()[:-1])
    assert owed(AttemptIndex(path), 2) == 2


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"nonsense", b"{}", b"[]", b'{"instance": "i"}', b"\0" * 100, b'{"v": "\xff"}'),
        b'{"v": 1, "instance": "i", "sample": 0, "round": 1, "outcome": "odd", "passed": null}',
        b'{"v": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_line_in_the_middle_is_named_with_its_number(path: Path, line: bytes) -> None:
    ledger(path, [attempt(1, FAIL)])
    before = path.read_bytes()
    path.write_bytes(before + line + b"\n" + before)
    with pytest.raises(DataInvalid, match=r"attempts\.jsonl, line 2: not an attempt") as caught:
        AttemptIndex(path)
    assert caught.value.remedy == "Remove the line and run again: its attempt is then repeated."
    path.write_bytes(before + before)
    assert len(AttemptIndex(path)) == 1, "the remedy works"


def test_a_line_that_is_damaged_where_only_its_text_is_needed_is_named(path: Path) -> None:
    ledger(path, [attempt(1, FAIL, text="an answer")])
    path.write_bytes(path.read_bytes().replace(b'"an answer"', b"42"))
    found = AttemptIndex(path)
    with pytest.raises(DataInvalid, match="line 1: not an attempt"):
        found.read_rounds("i", 0, before=2)


def test_attempts_of_another_schema_version_are_not_continued(path: Path) -> None:
    with pytest.raises(DataInvalid, match=r"line 1: schema version 99, .* versions 1 and 2"):
        ledger(path, [attempt(1, FAIL, v=99)])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"Cannot read .*: Is a directory"):
        AttemptIndex(tmp_path)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ij"),
            st.integers(0, 2),
            st.sampled_from([PASS, FAIL, UNJUDGED, ERROR]),
        ),
        max_size=40,
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_run_that_does_what_is_owed_comes_to_an_end(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, int, Found]],
    rounds: int,
    stop_on_pass: bool,
) -> None:
    """Answers fall in any order, errors too: what is read back is what was last written."""
    path = tmp_path_factory.mktemp("run") / "attempts.jsonl"
    expected: dict[tuple[str, int], list[Found]] = {}
    for step, (instance, sample, answer) in enumerate(drawn):
        found = AttemptIndex(path)
        number = found.next_round(instance, sample, rounds=rounds, stop_on_pass=stop_on_pass)
        done = expected.setdefault((instance, sample), [])
        if number is None:
            assert len(done) == rounds or (stop_on_pass and PASS in done)
            continue
        assert number == len(done) + 1
        recorded = found.read_rounds(instance, sample, before=number)
        assert [(one.outcome, one.passed) for one in recorded] == done
        ledger(path, [attempt(number, answer, instance=instance, sample=sample, text=str(step))])
        if answer != ERROR:
            done.append(answer)
