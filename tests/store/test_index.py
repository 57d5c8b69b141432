"""Which lines of a run count: as columns, and whole."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid, StoreFailed
from harness.records import OUTCOMES, SCHEMA_VERSION, Attempt, Score, Usage
from harness.store.calls import RunCalls
from harness.store.columns import (
    MAX_MAGNITUDE,
    MAX_SCORE_NAMES,
    NOT_JUDGED,
    AttemptTable,
    name_digest,
)
from harness.store.index import AttemptIndex, AttemptLine, read_instance
from harness.store.json_lines import JsonLinesWriter
from tests.columns import read_columns

NAMES = {name_digest(name): name for name in "abc"}


def attempt(instance: str = "a", sample: int = 0, round_: int = 1, **changes: object) -> Attempt:
    made = Attempt(
        v=SCHEMA_VERSION,
        instance=instance,
        sample=sample,
        round=round_,
        groups={"structure": "word01"},
        cluster=f"prompt of {instance}",
        request={"messages": []},
        outcome="ok",
        started_at=1.0,
        ended_at=2.0,
        text="an answer",
        passed=True,
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "attempts.jsonl"


def write(path: Path, *attempts: Attempt) -> Path:
    path.unlink(missing_ok=True)
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    return path


def read(path: Path, *attempts: Attempt) -> tuple[AttemptTable, RunCalls]:
    return read_columns(write(path, *attempts))


def keys(table: AttemptTable) -> list[tuple[str, int, int]]:
    return [
        (NAMES[int(table.instances.digest[row])], int(sample), int(round_))
        for row, sample, round_ in zip(table.instance, table.sample, table.round, strict=True)
    ]


def in_order(keys: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """As a table has them: instances by their digests."""
    return sorted(keys, key=lambda key: (name_digest(key[0]), *key[1:]))


def test_no_file_is_no_attempts(tmp_path: Path) -> None:
    attempts, calls = read_columns(tmp_path / "attempts.jsonl")
    assert (len(attempts), calls.n_calls) == (0, 0)
    assert len(attempts.last_rounds()) == 0
    assert attempts.labels() == []


def test_columns(file: Path) -> None:
    table, _ = read(
        file,
        attempt("b", outcome="error", passed=None),
        attempt("a", sample=3, round_=2, passed=False, outcome="refused"),
    )
    rows = dict(zip(keys(table), range(len(table)), strict=True))
    a, b = rows["a", 3, 2], rows["b", 0, 1]
    assert (table.passed[a], table.passed[b]) == (0, NOT_JUDGED)
    assert (OUTCOMES[table.outcome[a]], OUTCOMES[table.outcome[b]]) == ("refused", "error")
    assert (table.has_verdict[a], table.has_verdict[b]) == (True, False)


def test_instances_of_one_prompt_are_one_cluster(file: Path) -> None:
    table, _ = read(
        file,
        attempt("a", cluster="p"),
        attempt("b", cluster="q"),
        attempt("c", cluster="p"),
    )
    cluster = {
        name: number for (name, _, _), number in zip(keys(table), table.cluster, strict=True)
    }
    assert cluster["a"] == cluster["c"] != cluster["b"]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 2),
            st.integers(1, 3),
            st.sampled_from([True, False, None]),
        )
    )
)
def test_last_line_of_a_key_counts(
    file: Path, rows: list[tuple[str, int, int, bool | None]]
) -> None:
    made = [attempt(name, sample, number, passed=passed) for name, sample, number, passed in rows]
    table, _ = read(file, *made)
    expected: dict[tuple[str, int, int], bool | None] = {}
    seen = set()
    for name, sample, number, passed in rows:
        key = (name, sample, number)
        if key in seen:  # written anew: later rounds followed another answer
            later = [k for k in expected if k[:2] == key[:2] and k[2] > number]
            for stale in later:
                del expected[stale]
        seen.add(key)
        expected[key] = passed
    verdicts = [{1: True, 0: False, NOT_JUDGED: None}[code] for code in table.passed.tolist()]
    assert dict(zip(keys(table), verdicts, strict=True)) == expected
    assert keys(table) == in_order(expected)
    last = {key[:2]: key for key in sorted(expected)}
    assert keys(table.last_rounds()) == in_order(last.values())
    for name in "abc":
        whole = read_instance(file, name)
        assert [(one.instance, one.sample, one.round) for one in whole] == sorted(
            key for key in expected if key[0] == name
        )
        assert all(one.passed is expected[name, one.sample, one.round] for one in whole)


def test_groups(file: Path) -> None:
    table, _ = read(
        file,
        attempt("a", groups={"structure": "s2", "source": "wiki"}),
        attempt("b", groups={"structure": "s1"}),
        attempt("c", groups={}),
        attempt("a", sample=1, groups={"structure": "s2", "source": "wiki"}),
    )
    assert table.labels() == ["structure", "source"]
    assert {name: keys(rows) for name, rows in table.split_by("structure")} == {
        "s1": [("b", 0, 1)],
        "s2": [("a", 0, 1), ("a", 1, 1)],
    }
    assert {name: len(rows) for name, rows in table.split_by("source")} == {"wiki": 2}
    assert [name for name, _ in table.take(table.sample == 1).split_by("structure")] == ["s2"]


def test_scores_are_columns_whatever_the_lines_have(file: Path) -> None:
    table, _ = read(
        file,
        attempt("a", scores={"exact": Score(True, True), "overlap": Score(0.25)}),
        attempt("b", scores={"exact": Score(False, False), "overlap": Score(None)}),
        attempt("c", scores={}, outcome="error", passed=None),
        attempt("a", sample=1, scores={"grade": Score(7), "exact": Score(None)}),
        attempt("b", scores={"exact": Score(True, True), "overlap": Score(True)}),
    )
    assert list(table.scores) == ["exact", "grade", "overlap"]
    rows = dict(zip(keys(table), range(len(table)), strict=True))

    def values(name: str) -> dict[tuple[str, int, int], float]:
        measured = table.has_score(name)
        return {key: float(table.scores[name][row]) for key, row in rows.items() if measured[row]}

    assert values("exact") == {("a", 0, 1): 1, ("b", 0, 1): 1}
    assert values("overlap") == {("a", 0, 1): 0.25, ("b", 0, 1): 1}
    assert values("grade") == {("a", 1, 1): 7}
    only = table.take(table.sample == 1)
    assert only.scores["grade"].tolist() == [7]


@settings(max_examples=40)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("xyz"),
            st.none() | st.booleans() | st.floats(-MAX_MAGNITUDE, MAX_MAGNITUDE),
        ),
        max_size=8,
    )
)
def test_every_score_is_found_again(file: Path, lines: list[dict[str, Any]]) -> None:
    made = [
        attempt("a", sample, scores={name: Score(value) for name, value in scores.items()})
        for sample, scores in enumerate(lines)
    ]
    table, _ = read(file, *made)
    for name in "xyz":
        found = {}
        if name in table.scores:
            measured = table.has_score(name)
            found = dict(zip(table.sample[measured], table.scores[name][measured], strict=True))
        assert found == {
            sample: scores[name]
            for sample, scores in enumerate(lines)
            if scores.get(name) is not None
        }


@pytest.mark.parametrize(
    "line",
    [
        attempt(scores={"x": Score(1e300)}),
        attempt(call_id="c", cost_usd=1e308),
        attempt(call_id="c", cost_usd=-1.0),
        attempt(scores={f"score {number}": Score(True) for number in range(MAX_SCORE_NAMES + 1)}),
    ],
)
def test_what_would_spoil_every_sum_is_refused_with_its_line(file: Path, line: Attempt) -> None:
    write(file, attempt(), line)
    with pytest.raises(DataInvalid, match=r"line 2: not an attempt"):
        read_columns(file)


def test_nested_without_end_is_told_with_its_line(file: Path) -> None:
    text = msgspec.json.encode(attempt()).replace(b'{"messages":[]}', b"[" * 9000 + b"]" * 9000)
    file.write_bytes(text + b"\n")
    with pytest.raises(DataInvalid, match=r"line 1: not an attempt"):
        read_columns(file)


def test_shared_calls_are_one_row(file: Path) -> None:
    _, calls = read(
        file,
        attempt("a", call_id="x", usage=Usage(10, 5, 2, 1), cost_usd=0.5),
        attempt("b", call_id="x", usage=Usage(10, 5, 2, 1), cost_usd=0.0, cached=True),
        attempt("c", call_id="y"),
        attempt("d", call_id=None, outcome="error", passed=None),
    )
    assert calls == RunCalls(
        n_calls=2,
        usage=Usage(10, 5, 2, 1),
        n_calls_without_usage=1,
        known_cost_usd=0.5,
        paid_usd=0.5,
        n_calls_without_cost=1,
    )


def test_call_of_a_superseded_line_was_paid_for(file: Path) -> None:
    attempts, calls = read(
        file,
        attempt(call_id="x", cost_usd=1.0, outcome="empty", passed=False),
        attempt(call_id="y", cost_usd=2.0),
    )
    assert (len(attempts), calls.known_cost_usd) == (1, 3.0)


def test_torn_last_line_is_no_attempt(file: Path) -> None:
    write(file, attempt("a"), attempt("b"))
    file.write_bytes(file.read_bytes()[:-20])
    assert len(read_columns(file)[0]) == 1
    assert read_instance(file, "b") == []


def test_keys_of_later_versions_are_ignored(file: Path) -> None:
    line = msgspec.json.decode(msgspec.json.encode(attempt())) | {"mood": {"new": [1, 2]}}
    file.write_bytes(msgspec.json.encode(line) + b"\n")
    assert len(read_columns(file)[0]) == 1
    assert read_instance(file, "a") == [attempt()]


@pytest.mark.parametrize(
    "broken",
    [
        b"{not json",
        b"",
        b'{"v":1}',
        msgspec.json.encode(attempt(sample=-1)),
        msgspec.json.encode(attempt(round_=0)),
        msgspec.json.encode(attempt(sample=2**31)),
        msgspec.json.encode(attempt()).replace(b'"ok"', b'"fine"'),
        msgspec.json.encode(attempt("b")).replace(b'{"structure":"word01"}', b'{"structure":1}'),
        b"\xff\xfe",
    ],
)
def test_invalid_line_is_named(file: Path, broken: bytes) -> None:
    line = msgspec.json.encode(attempt())
    file.write_bytes(b"\n".join([line, broken, line, b""]))
    with pytest.raises(DataInvalid, match=r"attempts\.jsonl, line 2: not an attempt"):
        read_columns(file)


def test_invalid_line_is_named_when_showing(file: Path) -> None:
    file.write_bytes(msgspec.json.encode(attempt()).replace(b'"ok"', b'"fine"') + b"\n")
    with pytest.raises(DataInvalid, match="line 1: not an attempt"):
        read_instance(file, "a")


@pytest.mark.parametrize("line", [attempt(v=3), {"v": 3, "sample": "of another shape"}])
def test_other_version_is_named(file: Path, line: object) -> None:
    file.write_bytes(msgspec.json.encode(line) + b"\n")
    with pytest.raises(DataInvalid, match=r"line 1: schema version 3, .* versions 1 and 2"):
        read_columns(file)
    with pytest.raises(DataInvalid, match="schema version 3"):
        read_instance(file, "a")


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="Cannot read"):
        read_columns(tmp_path)


def test_a_restored_answer_replaces_no_later_draw(tmp_path: Path) -> None:
    """The first draw of round 1 was lost. Round 2 followed the second one."""
    path = tmp_path / "attempts.jsonl"
    second = attempt(request={"messages": [], "redraw": 1}, text="second")
    followed = attempt(round_=2, text="followed")
    index = AttemptIndex(write(path, attempt(round_=2, text="old"), second, followed))
    assert [*index.lost_draws("a", 0)] == [(1, 0)]
    assert index.count_answers("a", 0, 1) == 2, "the next draw is the third"
    for _ in range(2):
        assert [line.text for line in index.read(AttemptLine)] == ["second", "followed"]
        index = AttemptIndex(write(path, second, followed, attempt(text="first")))
    assert not [*index.lost_draws("a", 0)]
    assert (index.count_answers("a", 0, 1), index.n_repeated) == (2, 1)


def test_a_round_written_anew_ends_its_sample(tmp_path: Path) -> None:
    """As the ledger has it: what followed the earlier answer is owed again."""
    written = [("a", 0, 1), ("a", 0, 2), ("b", 0, 1), ("a", 0, 3), ("b", 0, 2), ("a", 0, 1)]
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for instance, sample, number in written:
            writer.append(
                Attempt(1, instance, sample, number, {}, instance, {}, "ok", 0.0, 1.0, passed=True)
            )
    attempts, _ = read_columns(path)
    assert keys(attempts) == in_order([("a", 0, 1), ("b", 0, 1), ("b", 0, 2)])
    assert [a.round for a in read_instance(path, "a")] == [1]
    assert [a.round for a in read_instance(path, "b")] == [1, 2]


@pytest.mark.parametrize("tokens", [2**31, 2**70])
def test_a_count_that_is_no_number_of_tokens_is_told_with_its_line(
    tmp_path: Path, tokens: int
) -> None:
    path = tmp_path / "attempts.jsonl"
    path.write_text(
        '{"v":1,"instance":"a","sample":0,"round":1,"groups":{},"cluster":"c","outcome":"ok",'
        '"request":{},"started_at":0,"ended_at":1,"call_id":"k",'
        f'"usage":{{"input_tokens":{tokens}}}}}\n'
    )
    with pytest.raises(DataInvalid, match="line 1"):
        read_columns(path)


KEYS = st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(1, 3))


@settings(max_examples=30)
@given(st.lists(KEYS, max_size=25))
def test_what_counts_is_what_one_instance_shows(
    tmp_path_factory: pytest.TempPathFactory, keys: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = [attempt(*key, text=f"line {number}\n") for number, key in enumerate(keys)]
    path = write(folder / "attempts.jsonl", *lines)
    found = list(AttemptIndex(path).read(Attempt))
    begun = list(dict.fromkeys(one.instance for one in found))
    assert found == [one for instance in begun for one in read_instance(path, instance)]
    assert set(begun) == {instance for instance, _, _ in keys}


def test_instances_come_as_the_file_begins_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a", attempt("z", 0, 1), attempt("a", 0, 1), attempt("z", 0, 2))
    assert [(one.instance, one.round) for one in AttemptIndex(path).read(Attempt)] == [
        ("z", 1),
        ("z", 2),
        ("a", 1),
    ]


def test_no_file_has_none(tmp_path: Path) -> None:
    assert list(AttemptIndex(tmp_path / "none").read(Attempt)) == []


def test_a_torn_line_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a", attempt("a", 0, 1))
    with path.open("ab") as file:
        file.write(b'{"v":1,"instance":"b"')
    assert [one.instance for one in AttemptIndex(path).read(Attempt)] == ["a"]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a", attempt("a", 0, 1), attempt("b", 0, 1))
    lines = path.read_bytes().splitlines()
    broken = msgspec.json.decode(lines[1]) | {"text": 5}
    path.write_bytes(lines[0] + b"\n" + msgspec.json.encode(broken) + b"\n")
    with pytest.raises(DataInvalid, match="line 2"):
        list(AttemptIndex(path).read(Attempt))


class Text(msgspec.Struct):
    text: str


def test_a_shape_reads_what_it_has_and_the_rows_asked_for(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a",
        attempt("a", 0, 1, text="first"),
        attempt("a", 0, 2, text="second"),
        attempt("b", 0, 1, text="third"),
    )
    places = AttemptIndex(path)
    last = list(places.read(Text, places.last_rounds()))
    assert [one.text for one in last] == ["second", "third"]
    first = list(places.read(Text, places.last_rounds(1)))
    assert [one.text for one in first] == ["first", "third"]


def test_a_line_tells_all_that_an_attempt_does() -> None:
    own = {"request", "scores"}  # of the shapes made of it
    left_out = {
        "v",
        "polish",
        "reasoning_state",
        "answered_by",
        "without_logprobs",
        "partial",
        "exception",
    }  # no page and no table shows them
    told = set(AttemptLine.__struct_fields__)
    assert told | own | left_out == set(Attempt.__struct_fields__)
    assert not told & (own | left_out)


def test_lists_are_in_the_order_of_given_names_and_else_of_numbers(file: Path) -> None:
    names = ["n10", "b", "n9", "a"]
    index = AttemptIndex(write(file, *(attempt(name, 1 - n) for name in names for n in range(2))))

    def listed(*first: str) -> list[tuple[str, int]]:
        found = index.read(AttemptLine, index.rows_by_name(first))
        return [(one.instance, one.sample) for one in found]

    assert listed() == [(name, n) for name in ("a", "b", "n9", "n10") for n in range(2)]
    assert listed("n9", "unknown", "b")[::2] == [("n9", 0), ("b", 0), ("a", 0), ("n10", 0)]
