from hypothesis import given
from hypothesis import strategies as st

from harness.builders.wildifeval.selection import top_share


def test_the_surest_are_kept_and_the_undecided_do_not_count() -> None:
    known = {str(i): i / 100 for i in range(50)}
    top, mark = top_share({**known, "a": None, "b": None}, 0.1, seed=0)
    assert top == {"45", "46", "47", "48", "49"}
    assert mark == 0.45


def test_among_equals_the_seed_draws() -> None:
    equal = {str(i): 0.8 for i in range(100)}
    drawn = [frozenset(top_share({**equal, "best": 1.0}, 0.1, seed)[0]) for seed in range(5)]
    assert all(len(top) == 10 and "best" in top for top in drawn)
    assert len(set(drawn)) == 5
    assert top_share({**equal, "best": 1.0}, 0.1, 3)[0] == drawn[3]


def test_of_nothing_nothing_is_kept() -> None:
    assert top_share({"a": None}, 0.1, 0) == (set(), 0.0)


@given(
    st.dictionaries(st.text(), st.one_of(st.none(), st.sampled_from([0.0, 0.2, 1.0]))),
    st.floats(0.01, 1),
    st.integers(0, 9),
)
def test_nothing_that_is_left_out_is_surer(
    probabilities: dict[str, float | None], share: float, seed: int
) -> None:
    top, mark = top_share(probabilities, share, seed)
    known = {name: one for name, one in probabilities.items() if one is not None}
    assert top <= known.keys()
    assert len(top) == (max(1, round(share * len(known))) if known else 0)
    assert all(known[name] <= mark for name in known.keys() - top)
    assert all(known[name] >= mark for name in top)
