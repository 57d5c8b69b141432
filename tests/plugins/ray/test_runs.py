"""Runs whose model has copies on a Ray cluster."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.backends.stand_ins import until
from tests.plugins.ray.conftest import RayCluster
from tests.plugins.ray.runs import PlacedRun

PLACEMENT: dict[str, Any] = {"engine": "ray", "replicas": 2, "cpus": 1}
SIMULATED: dict[str, Any] = {"backend": "simulated", "latency_s": 0.1, "placement": PLACEMENT}
KEY = "local-key-0123456789"
DEADLY = "para02/8"  # an instance
MODEL = f'''
from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Literal

from harness.plugin import Backend
from harness.records import Reply, Request, Usage
from words import greeting

Fault = Literal["", "dies", "hangs"]


class Local(Backend):
    """A model that computes. It dies on one prompt, or the first of its copies hangs."""

    cacheable, endpoint = True, "local:1"
    features = frozenset({{"temperature", "max_tokens", "seed", "free", "conversation"}})

    def __init__(self, fault: Fault = "", *, secret, model: str) -> None:
        self.fault, self.model = fault, model
        self.key = hashlib.sha256(secret("LOCAL_MODEL_KEY").encode()).hexdigest()
        self.hangs: bool | None = None

    async def generate(self, request: Request) -> Reply:
        if self.fault == "dies" and request.origin.instance == {DEADLY!r}:
            os._exit(1)
        if self.fault == "hangs" and self.hangs is None:
            try:
                Path("hanging").touch(exist_ok=False)
                self.hangs = True
            except FileExistsError:
                self.hangs = False
        await asyncio.sleep(1e6 if self.hangs else 0.05)
        return Reply(f"{{greeting()}}, {{self.model}} with {{self.key}}", "stop", Usage(1, 1))

    async def aclose(self) -> None: ...


plugin = Local
'''


def local(run: PlacedRun, **options: object) -> dict[str, Any]:
    """The section of a model in two files beside the run's."""
    (run.folder / "local.py").write_text(MODEL)
    (run.folder / "words.py").write_text("def greeting(): return 'Hello'\n")
    return {"backend": "./local.py", "name": "m", "placement": PLACEMENT, **options}


def test_a_plugin_in_files_gets_its_secret_which_is_logged_nowhere(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_MODEL_KEY", KEY)
    run = PlacedRun(tmp_path / "run", cluster.address)
    with run.started(local(run)) as process:
        assert process.wait() == 0, run.output()
    [text] = {one["text"] for one in run.attempts().values()}
    assert text == f"Hello, m with {hashlib.sha256(KEY.encode()).hexdigest()}"
    written = [path for folder in (run.folder, cluster.logs) for path in folder.rglob("*")]
    assert len(written) > 20
    for path in written:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_a_prompt_that_kills_three_copies_is_the_only_error(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_MODEL_KEY", KEY)
    run = PlacedRun(tmp_path / "run", cluster.address)
    with run.started(local(run, fault="dies")) as process:
        assert process.wait() in (0, 1), run.output()
    errors = {key: one["error"] for key, one in run.attempts().items() if one["error"]}
    assert errors.keys() == {(DEADLY, 0, 1)}, run.output()
    assert "died 3 times on this prompt" in errors[DEADLY, 0, 1]
    assert len(run.attempts()) == 40


def test_a_copy_that_answers_nothing_is_replaced_while_others_answer(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_MODEL_KEY", KEY)
    run = PlacedRun(tmp_path / "run", cluster.address)
    model = local(run, fault="hangs", placement=PLACEMENT | {"hang_s": 10})
    with run.started(model, samples=10, limits={"concurrency": 8}) as process:
        assert process.wait() == 0, run.output()
    assert (run.folder / "hanging").exists()
    assert len(run.attempts()) == 400
    assert not any(one["error"] for one in run.attempts().values())


def test_an_interrupted_run_continues_without_a_cluster(
    cluster: RayCluster, tmp_path: Path
) -> None:
    run, alone = PlacedRun(tmp_path / "run", cluster.address), PlacedRun(tmp_path / "alone")
    given = {"samples": 50, "limits": {"concurrency": 40}}
    with run.started(SIMULATED, **given) as process:
        until(lambda: run.written() > 100, "attempts")
        process.send_signal(signal.SIGINT)
        process.wait()
    begun = run.written()
    assert 100 < begun < 2000, run.output()
    for one in (run, alone):
        with one.started(SIMULATED | {"placement": None}, **given) as process:
            assert process.wait() == 0, one.output()
    assert run.attempts() == alone.attempts()


def test_a_model_and_its_judge_share_the_cluster(cluster: RayCluster, tmp_path: Path) -> None:
    judge = {"name": "yes_no", "as": "judge", "model": SIMULATED}
    runs = [PlacedRun(tmp_path / "placed", cluster.address), PlacedRun(tmp_path / "alone")]
    for run in runs:
        model = dict(SIMULATED) if run is runs[0] else SIMULATED | {"placement": None}
        judges = [judge | {"model": model | {"accuracy": 0.8}}]
        given = {"task": {"name": "infobench"}, "limit": 10, "samples": 3}
        with run.started(model, judges=judges, **given) as process:
            assert process.wait() == 0, run.output()
    assert runs[0].attempts() == runs[1].attempts()
    assert runs[0].judgements() == runs[1].judgements()


def test_an_interrupted_run_of_a_model_and_another_judge_on_one_cluster_continues_there(
    cluster: RayCluster, tmp_path: Path
) -> None:
    """Two models with placements of their own: 2 copies of 1 CPU, and 2 of 2 CPUs."""
    placements = PLACEMENT, PLACEMENT | {"cpus": 2}
    model, judge = (SIMULATED | {"placement": one} for one in placements)
    model |= {"accuracy": 0.7}
    run, alone = PlacedRun(tmp_path / "placed", cluster.address), PlacedRun(tmp_path / "alone")

    def given(judge_model: dict[str, Any]) -> dict[str, Any]:
        judges = [{"name": "yes_no", "as": "judge", "model": judge_model | {"accuracy": 0.8}}]
        task = {"task": {"name": "infobench"}, "limit": 10, "samples": 30}
        return {**task, "judges": judges, "limits": {"concurrency": 20}}

    with run.started(model, **given(judge)) as process:
        until(lambda: len(run.judgements()) > 20, "judgements")
        copies = [pid for node in cluster.nodes for pid in cluster.copies(node)]
        process.send_signal(signal.SIGINT)
        process.wait()
    assert len(copies) == 4, "two of the model and two of the judge"
    begun = run.written()
    assert 20 < begun < 300, run.output()
    with run.started(model, **given(judge)) as process:
        assert process.wait() == 0, run.output()
    here = {"placement": None}
    with alone.started(model | here, **given(judge | here)) as process:
        assert process.wait() == 0, alone.output()
    assert run.attempts() == alone.attempts()
    assert len(run.attempts()) == 300
    assert run.judgements() == alone.judgements()


def test_variants_share_copies_on_a_cluster_that_ray_starts_here(tmp_path: Path) -> None:
    run = PlacedRun(tmp_path / "run")
    model = SIMULATED | {"placement": PLACEMENT | {"cpus": 0.5, "address": "local"}}
    with run.started(model, variants={"one": {}, "two": {"seed": 1}}) as process:
        assert process.wait() == 0, run.output()
    for name in ("run.one", "run.two"):
        assert len((run.folder / "runs" / name / "attempts.jsonl").read_bytes().splitlines()) == 40


def test_doctor_shows_the_nodes_and_whether_a_model_fits(
    cluster: RayCluster, tmp_path: Path
) -> None:
    run = PlacedRun(tmp_path / "run", cluster.address)
    (run.folder / "run.yaml").write_text(
        json.dumps(
            {
                "task": {"name": "collie"},
                "model": SIMULATED | {"placement": PLACEMENT | {"cpus": 3}},
            }
        )
    )
    found = json.loads(run.harness("doctor", "run.yaml", "--cluster", "--format", "json"))
    said = {one["name"]: one for one in found["Cluster"]}
    assert said["4 nodes"]["detail"] == "8 CPUs and 0 GPUs"
    assert said["simulated"]["detail"] == "room for 1 of 2 copies"
    assert {one["state"] for one in found["Cluster"]} == {"ok", "lack"}
