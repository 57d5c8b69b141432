import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.calls.signals import Stop
from harness.config.settings import Settings
from harness.engine.job import Job
from harness.engine.plan import CachedInstances, LimitedInstances
from harness.errors import ConfigError
from harness.records import Instance
from harness.store.run_folder import RunFolder
from tests.conftest import Scripted, Sums, run_file
from tests.engine.toys import bound

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
def test_a_larger_limit_yields_the_same_instances_and_more(one: int, two: int, seed: int) -> None:
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

    held = CachedInstances(Counted(6), most)
    assert len({tuple(instance.id for instance in held) for _ in range(3)}) == 1
    assert read == reads


@pytest.mark.parametrize(
    ("instance", "problem"),
    [
        (Instance("sum/0", 1), "'sum/0' occurs twice"),
        (Instance(7, 1), "7 has an id that is not text"),  # type: ignore[arg-type]
        (Instance([7], 1), r"\[7\] has an id that is not text"),  # type: ignore[arg-type]
        (Instance("a", 1, {"n": 3}), "'a' has a group that is not text: {'n': 3}"),  # type: ignore[dict-item]
    ],
)
def test_an_instance_whose_attempts_could_not_be_read_again_is_refused(
    instance: Instance[int], problem: str
) -> None:
    class Careless(Sums):
        def instances(self) -> Iterator[Instance[int]]:
            yield from super().instances()
            yield instance

    with pytest.raises(ConfigError, match=problem):
        list(CachedInstances(Careless(2)))


def test_a_new_run_does_not_import_numpy() -> None:
    """NumPy takes as long to import as everything else: only a run with attempts needs it."""
    imports = "import sys, harness.cli.run; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imports], check=False).returncode == 0


def test_a_fingerprint_that_does_not_fit_the_manifest_is_refused(tmp_path: Path) -> None:
    class Careless(Sums):
        def fingerprint(self) -> Mapping[str, Any]:
            return {"n": 6, "of": "sums"}

    task, model = Careless(), bound(Scripted(str), Stop()).model
    folder = RunFolder(tmp_path, "run")
    job = Job(run_file(), folder, task, CachedInstances(task), model, Settings())
    with pytest.raises(ConfigError, match=r"not text: \{'n': 6\}"):
        _ = job.fingerprint
