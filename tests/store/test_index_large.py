"""A file that is large enough for all cores: the same index as one process makes of it."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.errors import DataInvalid
from harness.records import OUTCOMES, SCHEMA_VERSION, Attempt, Score
from harness.store.attempt_lines import (
    CHUNK_BYTES,
    MIN_PARALLEL_BYTES,
    AttemptLines,
    CountedAttempts,
)
from harness.store.columns import MAX_SCORE_NAMES
from harness.store.index import AttemptIndex
from harness.store.json_lines import encode

LONG = "x" * 40_000  # so that few lines make a large file
LINES = 1 + MIN_PARALLEL_BYTES // len(LONG)


def attempts() -> Iterator[Attempt]:
    """Attempts of all outcomes, with scores of several kinds, some of them written again."""
    for number in range(LINES):
        scores = {"rule": Score(number % 3 == 0)}
        if number % 5 == 0:
            scores = {"rule": Score(None), f"extra{number // 400}": Score(number / 7)}
        yield Attempt(
            SCHEMA_VERSION,
            f"instance {number * 37 % 500 if number % 11 else number}",
            number // 500,
            1 + number % 2,
            {"topic": f"t{number // 300}"},
            f"c{number % 90}",
            {},
            OUTCOMES[number % len(OUTCOMES)],
            0.0,
            float(number),
            text=LONG if number != 800 else LONG * (CHUNK_BYTES // len(LONG) * 2),
            passed=(None, True, False)[number % 3],
            scores=scores,
        )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large file, whose last line is incomplete."""
    path = tmp_path_factory.mktemp("large") / "attempts.jsonl"
    with path.open("wb") as file:
        for one in attempts():
            file.write(encode(one) + b"\n")
        file.write(b'{"v":1,"instance":')
    assert path.stat().st_size > MIN_PARALLEL_BYTES + 2 * CHUNK_BYTES
    return path


def arrays(counted: CountedAttempts) -> dict[str, NDArray[Any]]:
    table = counted.table
    columns = ("instance", "sample", "round", "outcome", "passed")
    return {
        **{name: getattr(table, name) for name in columns},
        **{name: getattr(table.instances, name) for name in ("digest", "cluster", "grouping")},
        "draws": counted.first_lost_draw,
        **{f"line {name}": values for name, values in counted.columns.items()},
        **{f"score {name}": values for name, values in table.scores.items()},
    }


def test_the_index_is_that_of_one_process(path: Path) -> None:
    here, parts = AttemptLines(path, "followed"), AttemptLines(path, "followed")
    here.read_more(max_bytes=path.stat().st_size)
    assert parts.read_more()
    assert (parts.size, parts.n_lines) == (here.size, here.n_lines)
    assert here.n_lines == LINES
    assert not parts.read_more()
    one, other = here.counted_attempts(), parts.counted_attempts()
    assert other.table.instances.groupings == one.table.instances.groupings
    expected, found = arrays(one), arrays(other)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, name)
        assert found[name].dtype == values.dtype
    assert len(one.table) < LINES, "some lines were written again"


def test_lines_that_follow_are_added(path: Path, tmp_path: Path) -> None:
    grown = tmp_path / "attempts.jsonl"
    whole = path.read_bytes()
    grown.write_bytes(whole[: whole.rindex(b"\n") + 1])
    lines = AttemptLines(grown, "")
    lines.read_more()
    with grown.open("ab") as file:
        file.write(encode(next(attempts())) + b"\n")
    assert lines.read_more()
    assert (lines.n_lines, lines.size) == (LINES + 1, grown.stat().st_size)


def test_a_damaged_line_is_named_by_its_number(path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "attempts.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[1_200] = lines[1_200].replace(b'"sample":', b'"sampel":')
    damaged.write_bytes(b"\n".join(lines))
    with pytest.raises(DataInvalid, match=r"line 1201: not an attempt \(.*`sample`"):
        AttemptLines(damaged, "").read_more()


def test_too_many_score_names_are_refused_at_their_line(path: Path, tmp_path: Path) -> None:
    many = tmp_path / "attempts.jsonl"
    lines = path.read_bytes().split(b"\n")
    scores = {f"s{n}": Score(True) for n in range(MAX_SCORE_NAMES)}
    lines[1_300] = encode(replace(next(attempts()), scores=scores))
    many.write_bytes(b"\n".join(lines))
    with pytest.raises(DataInvalid, match=r"line 1301: .*more than 200 score names"):
        AttemptLines(many, "").read_more()


@pytest.mark.exhaustive
def test_an_index_takes_a_bounded_memory_for_each_attempt(tmp_path: Path) -> None:
    n, path = 300_000, tmp_path / "attempts.jsonl"
    one = replace(next(attempts()), text="x" * 200)
    with path.open("wb") as file:
        for number in range(n):
            file.write(
                encode(replace(one, instance=f"i{number % 30_000}", sample=number // 30_000))
            )
            file.write(b"\n")
    assert path.stat().st_size > MIN_PARALLEL_BYTES
    tracemalloc.start()
    try:
        index = AttemptIndex(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index) == n
    assert kept < 45 * n
    assert peak < 100 * n
