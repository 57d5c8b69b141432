from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from harness.records import Instance
from harness.run.selection import limited

INSTANCES = [
    Instance(f"{group}/{n}", None, {"group": group})
    for group, size in {"big": 50, "small": 2, "middle": 10}.items()
    for n in range(size)
]


def pick(limit: int | None, seed: int | None = 0) -> list[str]:
    return [instance.id for instance in limited(lambda: iter(INSTANCES), limit, seed)]


def test_without_a_limit_the_order_is_the_files() -> None:
    assert pick(None) == [instance.id for instance in INSTANCES]


def test_the_groups_take_turns() -> None:
    groups = [name.split("/")[0] for name in pick(8)]
    assert groups == ["big", "middle", "small", "big", "middle", "small", "big", "middle"]


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 3))
def test_a_larger_limit_takes_the_same_and_more(one: int, two: int, seed: int) -> None:
    small, large = sorted((one, two))
    assert pick(large, seed)[:small] == pick(small, seed)
    assert len(set(pick(large, seed))) == min(large, len(INSTANCES))


def test_the_seed_chooses() -> None:
    assert pick(20, 0) != pick(20, 1)


def test_instances_without_groups_are_one_group() -> None:
    def bare() -> Iterator[Instance[None]]:
        return (Instance(str(n), None) for n in range(10))

    assert len({instance.id for instance in limited(bare, 4, 0)}) == 4
