"""Work on the cores of a Ray cluster: in order, and done again if a process or a machine dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.backends._ray_tasks import RayTasks
from harness.errors import ConfigError, HarnessError
from harness.workers import PENDING, Workers
from tests.backends.ray.conftest import RayCluster


@pytest.fixture
def workers(cluster: RayCluster) -> Iterator[Workers]:
    with Workers(engine=RayTasks(address=cluster.address)) as found:
        yield found


def _node(number: int) -> tuple[int, str]:
    import ray

    time.sleep(0.05)
    return number, ray.get_runtime_context().get_node_id()


def test_pieces_are_worked_on_by_all_machines_in_order_and_few_at_a_time(
    cluster: RayCluster, workers: Workers
) -> None:
    taken = []

    def pieces() -> Iterator[int]:
        for number in range(60):
            taken.append(number)
            yield number

    found = workers.in_order(_node, pieces())
    first, node = next(found)
    assert len(taken) <= RayTasks(address=cluster.address).capacity == 8 * PENDING
    numbers, nodes = zip((first, node), *found, strict=True)
    assert numbers == tuple(range(60))
    assert len(set(nodes)) > 1


def test_functions_that_the_machines_do_not_have_are_sent(workers: Workers) -> None:
    space: dict[str, Callable[[int], int]] = {}
    exec("def doubled(n): return 2 * n", {"__name__": "nowhere"}, space)
    assert list(workers.in_order(space["doubled"], range(5))) == [0, 2, 4, 6, 8]


def _refused(number: int) -> int:
    if number == 3:
        raise ConfigError("a slip")
    return number


def test_an_error_of_the_work_is_raised_with_the_machine(workers: Workers) -> None:
    with pytest.raises(ConfigError, match=r"On .*: a slip"):
        list(workers.in_order(_refused, range(8)))


def test_work_that_cannot_be_sent_is_an_error(workers: Workers) -> None:
    lock = threading.Lock()
    with pytest.raises(ConfigError, match="cannot be sent to other machines"):
        list(workers.in_order(lambda number: (number, lock), range(3)))


def _dies_on(deaths: int, folder: Path, number: int) -> int:
    """Die on the fourth piece, in the first ``deaths`` processes."""
    if number == 3:
        for death in range(deaths):
            try:
                (folder / str(death)).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_piece_whose_worker_died_is_worked_on_again(workers: Workers, tmp_path: Path) -> None:
    assert list(workers.in_order(partial(_dies_on, 2, tmp_path), range(20))) == list(range(20))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_piece_that_ends_three_workers_is_an_error(workers: Workers, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="begun 3 times, and each time its process ended"):
        list(workers.in_order(partial(_dies_on, 9, tmp_path), range(20)))
    assert len(list(tmp_path.iterdir())) == 3


def test_pieces_of_a_killed_machine_are_worked_on_by_others(
    cluster: RayCluster, workers: Workers
) -> None:
    joined = cluster.add(cpus=2)
    found = workers.in_order(_node, range(100))
    numbers, on_joined = [], False
    for number, node in found:
        numbers.append(number)
        on_joined |= node == joined.node_id
        if on_joined and joined in cluster.nodes:
            cluster.kill(joined)
    assert on_joined
    assert numbers == list(range(100))
