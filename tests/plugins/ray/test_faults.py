"""Runs on a Ray cluster while its machines and copies fail."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.backends.stand_ins import alive, until
from tests.plugins.ray.conftest import RayCluster, started
from tests.plugins.ray.runs import PlacedRun


@pytest.mark.parametrize("samples", [75, pytest.param(500, marks=pytest.mark.exhaustive)])
def test_a_run_with_faults_has_the_attempts_of_an_undisturbed_one(
    samples: int, cluster: RayCluster, tmp_path: Path
) -> None:
    """A copy hangs, a node with a copy is killed, and one joins: 4 copies on 3 nodes."""
    model = {"backend": "simulated", "latency_s": 0.3}
    given = {"samples": samples, "limits": {"concurrency": samples}}
    run = PlacedRun(tmp_path / "placed", cluster.address)
    total = 40 * samples
    placement = {"engine": "ray", "replicas": 4, "cpus": 2, "hang_s": 10}
    with run.started({**model, "placement": placement}, **given) as process:
        first, doomed = cluster.nodes[0], cluster.nodes[1]
        until(lambda: run.written() > total * 0.1, "answers")
        hanging = cluster.copies(first)[0]
        os.kill(hanging, signal.SIGSTOP)
        until(lambda: run.written() > total * 0.3, "answers of other copies")
        cluster.kill(doomed)
        joined = cluster.add(cpus=2)
        until(lambda: cluster.copies(joined), "a copy on the new node")
        until(lambda: not alive(hanging), "the end of the copy that hangs")
        assert process.poll() is None, "the run ended before the faults"
        assert process.wait() == 0, run.output()
    alone = PlacedRun(tmp_path / "alone")
    with alone.started(model, **given) as process:
        assert process.wait() == 0, alone.output()
    assert len(alone.attempts()) == total
    assert run.attempts() == alone.attempts()


def test_a_run_ends_with_a_message_if_the_cluster_is_gone(tmp_path: Path) -> None:
    """And it continues on another cluster. Without the message, Ray would end the process."""
    model = {"backend": "simulated", "latency_s": 0.3}
    placement = {"engine": "ray", "replicas": 2, "cpus": 2}
    given = {"samples": 75, "limits": {"concurrency": 20}}
    doomed = started(4)
    run = PlacedRun(tmp_path, doomed.address)
    with run.started({**model, "placement": placement}, **given) as process:
        until(lambda: run.written() > 100, "answers")
        doomed.kill_all()
        assert process.wait() == 1
    assert "The Ray cluster is gone" in run.output()
    assert "repeat the command" in run.output()
    assert "Traceback" not in run.output()
    before = run.attempts()
    with run.started(model, **given) as process:
        assert process.wait() == 0, run.output()
    assert len(run.attempts()) == 40 * 75
    assert run.attempts().items() >= before.items()
