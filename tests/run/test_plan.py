import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records import Instance
from harness.run.plan import HeldInstances, LimitedInstances
from tests.conftest import Sums

INSTANCES = [
    Instance(f"{group}/{n}", None, {"group": group})
    for group, size in {"big": 50, "small": 2, "middle": 10}.items()
    for n in range(size)
]


def pick(limit: int, seed: int | None = 0) -> list[str]:
    return [instance.id for instance in LimitedInstances(INSTANCES, limit, seed)]


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
    bare = [Instance(str(n), None) for n in range(10)]
    assert len({instance.id for instance in LimitedInstances(bare, 4, 0)}) == 4


@pytest.mark.parametrize(("most", "reads"), [(6, 1), (5, 3)])
def test_a_data_set_that_can_be_held_is_read_once(most: int, reads: int) -> None:
    read = 0

    class Counted(Sums):
        def instances(self) -> Iterator[Instance[int]]:
            nonlocal read
            read += 1
            yield from super().instances()

    held = HeldInstances(Counted(6), most)
    assert len({tuple(instance.id for instance in held) for _ in range(3)}) == 1
    assert read == reads


def test_what_a_new_run_needs_is_imported_without_numpy() -> None:
    """NumPy takes as long to import as all the rest: only a run with attempts needs it."""
    imports = "import sys, harness.cli.run; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imports], check=False).returncode == 0
