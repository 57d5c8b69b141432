"""A pool chooses the same candidates, however a corpus is parted."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from harness.builders.collie.pool import Candidate, Pool
from harness.builders.collie.yields import Lengths, Limits, Yield


def candidate(number: int, target: int) -> Candidate:
    return Candidate(f"text {number}", {"op": "x"}, target, f"document {number}", {})


CORPUS = st.lists(st.integers(0, 7), max_size=40).map(
    lambda targets: [candidate(number, target) for number, target in enumerate(targets)]
)


def chosen(candidates: list[Candidate], most: int, seed: int = 0) -> list[Candidate]:
    pool = Pool(most, seed)
    for one in candidates:
        pool.add(one)
    return pool.candidates()


@given(CORPUS, st.integers(1, 12), st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_parts_give_what_the_whole_gives(
    corpus: list[Candidate], most: int, random: Random, parts: int
) -> None:
    whole = chosen(corpus, most)
    assert len(whole) == min(most, len(corpus))
    shuffled = sorted(corpus, key=lambda _: random.random())
    assert chosen(shuffled, most) == whole
    found = Yield()
    for part in range(parts):
        some = Yield(candidates={"s": chosen(shuffled[part::parts], most)})
        found.add(some, Limits(most, 0), seed=0)
    assert found.candidates["s"] == whole


@given(CORPUS, st.integers(1, 12))
def test_as_many_different_targets_as_there_are(corpus: list[Candidate], most: int) -> None:
    there = {one.targets for one in corpus}
    assert len({one.targets for one in chosen(corpus, most)}) == min(most, len(there))


def test_no_text_is_there_twice_and_the_seed_draws() -> None:
    corpus = [candidate(number, 1) for number in range(50)]
    again = [Candidate(one.text, one.constraint, 1, "a copy", {}) for one in corpus]
    both = chosen([*corpus, *again], 100)
    assert len(both) == 50
    assert {one.document for one in both} == {"a copy"}  # always the first by name
    assert chosen(corpus, 5, seed=1) != chosen(corpus, 5, seed=2)


def test_lengths_are_put_together() -> None:
    whole = Lengths()
    whole.count(["abc", "a", "abcdefg"])
    parted = Lengths()
    for texts in (["abc"], [], ["a", "abcdefg"]):
        part = Lengths()
        part.count(texts)
        parted.add(part)
    assert parted == whole == Lengths(3, 11, 1, 7)
    assert whole.mean == 11 / 3
    assert Lengths().mean is None
