"""What is a pair, from runs that were written to files and read back."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.comparison import Pairs, pair
from harness.records import Attempt, Score
from harness.store.columns import name_digest
from tests.analysis.conftest import Make, TableOf

NAMES = st.sampled_from([f"{source}/{n}" for source in ("wiki", "ccnews") for n in range(8)])
VERDICTS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4)
RUN = st.dictionaries(NAMES, VERDICTS, max_size=10)


def values(pairs: Pairs, *names: str) -> dict[str, tuple[float, float]]:
    """Name of each pair to its two values."""
    rows = zip(pairs.digest, pairs.first, pairs.second, strict=True)
    found = {int(digest): (float(one), float(other)) for digest, one, other in rows}
    return {name: found.pop(name_digest(name)) for name in names} | {
        str(d): found[d] for d in found
    }


def units(pairs: Pairs, *names: str) -> list[set[str]]:
    """Which instances are one statistical unit, in the order of the names."""
    unit = dict(zip(pairs.digest.tolist(), pairs.cluster.tolist(), strict=True))
    numbers = [unit[name_digest(name)] for name in names]
    return [
        {name for name, other in zip(names, numbers, strict=True) if other == number}
        for number in dict.fromkeys(numbers)
    ]


@given(RUN, RUN, st.randoms(use_true_random=False))
def test_instances_are_paired_by_name(
    make: Make,
    table_of: TableOf,
    first: dict[str, list[bool | None]],
    second: dict[str, list[bool | None]],
    chance: Random,
) -> None:
    tables = []
    for run in (first, second):
        attempts = [
            make(name, passed, sample=sample)
            for name, verdicts in run.items()
            for sample, passed in enumerate(verdicts)
        ]
        chance.shuffle(attempts)
        tables.append(table_of(attempts))
    pairs = pair(*tables)

    both = first.keys() & second.keys()
    known = {
        name: tuple([v for v in run[name] if v is not None] for run in (first, second))
        for name in both
    }
    judged = {name: found for name, found in known.items() if all(found)}
    assert pairs.digest.tolist() == sorted(name_digest(name) for name in judged)
    found = values(pairs, *judged)
    assert list(found) == list(judged)
    for name, parts in judged.items():
        assert found[name] == pytest.approx(tuple(float(np.mean(part)) for part in parts))
    for digest, samples in zip(pairs.digest, pairs.samples.tolist(), strict=True):
        (name,) = (name for name in judged if name_digest(name) == digest)
        assert samples == [len(part) for part in judged[name]]
    assert pairs.only_first == len(first.keys() - second.keys())
    assert pairs.only_second == len(second.keys() - first.keys())
    assert pairs.not_judged == len(both) - len(judged)
    assert pairs.verdicts
    assert pairs.binary == all(len(part) == 1 for found in judged.values() for part in found)
    assert len(set(pairs.cluster.tolist())) == len(judged)


def test_the_last_line_of_a_key_counts(make: Make, table_of: TableOf) -> None:
    first = table_of([make("a", False), make("b", False), make("a", True)])
    second = table_of([make("a", True), make("b", None), make("b", True), make("a", None)])
    pairs = pair(first, second)
    assert values(pairs) == {str(name_digest("b")): (0.0, 1.0)}
    assert pairs.not_judged == 1


def rounds(make: Make, name: str, *verdicts: bool | None) -> list[Attempt]:
    return [make(name, passed, round=number) for number, passed in enumerate(verdicts, start=1)]


def test_each_samples_last_round_counts_unless_one_is_named(make: Make, table_of: TableOf) -> None:
    first = table_of(
        [*rounds(make, "a", False, True), *rounds(make, "b", True), *rounds(make, "c", True, None)]
    )
    second = table_of(
        [*rounds(make, "a", True, False), *rounds(make, "b", True), *rounds(make, "c", False)]
    )
    last = pair(first, second)
    assert values(last, "a", "b") == {"a": (1.0, 0.0), "b": (1.0, 1.0)}
    assert last.not_judged == 1
    one = pair(first, second, round_=1)
    assert values(one, "a", "b", "c") == {"a": (0.0, 1.0), "b": (1.0, 1.0), "c": (1.0, 0.0)}
    two = pair(first, second, round_=2)
    assert values(two, "a", "b") == {"a": (1.0, 0.0), "b": (1.0, 1.0)}  # b stopped on its pass
    assert (two.not_judged, two.only_first, two.only_second) == (1, 0, 0)


def test_scores_are_paired_where_both_have_a_value(make: Make, table_of: TableOf) -> None:
    def scored(name: str, f1: float | None, sample: int = 0) -> Attempt:
        scores = {"f1": Score(f1, None), "exact": Score(f1 == 1.0, f1 == 1.0)}
        return make(name, True, sample=sample, scores=scores)

    first = table_of([scored("a", 0.25), scored("a", 0.75, 1), scored("b", None), scored("c", 1.0)])
    second = table_of([scored("a", 1.0), scored("b", 0.5), make("c", True)])
    pairs = pair(first, second, score="f1")
    assert values(pairs, "a") == {"a": (0.5, 1.0)}
    assert pairs.samples.tolist() == [[2, 1]]
    assert pairs.not_judged == 2
    assert not pairs.verdicts
    exact = pair(first, second, score="exact")
    assert values(exact, "a", "b") == {"a": (0.0, 1.0), "b": (0.0, 0.0)}
    assert not exact.binary
    assert pair(first, second, score="none").not_judged == 3


def test_the_order_of_a_sum_is_no_difference(make: Make, table_of: TableOf) -> None:
    def run(*scores: float) -> list[Attempt]:
        return [
            make("a", True, sample=sample, scores={"f1": Score(value, None)})
            for sample, value in enumerate(scores)
        ]

    pairs = pair(table_of(run(0.1, 0.2, 0.3)), table_of(run(0.3, 0.2, 0.1)), score="f1")
    assert pairs.first[0] != pairs.second[0]
    assert pairs.difference.tolist() == [0.0]


def test_units_of_either_run_are_joined(make: Make, table_of: TableOf) -> None:
    # p joins a and b in the first run, q joins b and c in the second.
    first = {"a": "p", "b": "p", "c": "r", "d": "s", "e": "t", "x": "s", "y": "t"}
    second = {"c": "q", "b": "q", "a": "u", "e": "v", "d": "w"}
    one, other = (
        table_of(make(name, True, cluster=cluster) for name, cluster in run.items())
        for run in (first, second)
    )
    joined = [{"a", "b", "c"}, {"d"}, {"e"}]
    assert units(pair(one, other), "a", "b", "c", "d", "e") == joined
    assert units(pair(other, one), "a", "b", "c", "d", "e") == joined


def test_many_instances_of_one_prompt_stay_joined(make: Make, table_of: TableOf) -> None:
    names = [f"{number}" for number in range(257)]
    first = table_of(make(name, True, cluster="rest" if name == "0" else "p") for name in names)
    second = table_of(make(name, True, cluster="p") for name in names)
    assert len(units(pair(first, second), *names)) == 1


@pytest.fixture
def labelled(make: Make, table_of: TableOf) -> Pairs:
    def run(passed: bool) -> list[Attempt]:
        of = {
            "a": ("p", {"source": "wiki"}),
            "b": ("q", {"source": "wiki"}),
            "c": ("r", {"source": "news"}),
            "d": ("r", {"source": "guten"}),  # the prompt of c
            "e": ("s", {}),
            "f": ("s", {}),
            "g": ("t", {}),
        }
        return [make(n, passed, cluster=c, groups=groups) for n, (c, groups) in of.items()]

    return pair(table_of(run(False)), table_of(run(True)))


def test_a_label_makes_coarser_units(labelled: Pairs) -> None:
    assert units(labelled, *"abcdefg") == [{"a"}, {"b"}, {"c", "d"}, {"e", "f"}, {"g"}]
    coarser = labelled.clustered_by("source")
    # What shares a prompt is never taken apart.
    assert units(coarser, *"abcdefg") == [{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g"}]


def test_groups_are_rows_of_the_pairs(labelled: Pairs) -> None:
    groups = labelled.group("source")
    assert list(groups) == ["guten", "news", "wiki"]
    wiki = labelled.take(groups["wiki"])
    assert values(wiki, "a", "b") == {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    assert units(wiki, "a", "b") == [{"a"}, {"b"}]
    assert sum(map(len, groups.values())) == 4
    # A group without pairs is none.
    assert list(wiki.group("source")) == ["wiki"]
    assert labelled.group("unknown") == {}


def test_a_group_of_single_verdicts_is_binary(make: Make, table_of: TableOf) -> None:
    attempts = [
        make("a", True, groups={"k": "one"}),
        make("b", True, groups={"k": "two"}),
        make("b", False, sample=1, groups={"k": "two"}),
    ]
    pairs = pair(table_of(attempts), table_of(attempts))
    assert not pairs.binary
    binary = {name: pairs.take(rows).binary for name, rows in pairs.group("k").items()}
    assert binary == {"one": True, "two": False}


def test_runs_without_attempts_have_no_pairs(make: Make, table_of: TableOf) -> None:
    none, some = table_of([]), table_of([make("a", True)])
    for first, second, only in ((none, none, (0, 0)), (none, some, (0, 1)), (some, none, (1, 0))):
        pairs = pair(first, second)
        assert len(pairs) == 0
        assert (pairs.only_first, pairs.only_second) == only
        assert pairs.clustered_by("x").group("x") == {}
