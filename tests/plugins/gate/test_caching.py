"""`harness check`: what it says about replies from the cache, and about crashed calls."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.cli.test_caching import Project, project, run, runs

__all__ = ["project", "runs"]


def test_the_gate_says_how_many_replies_come_from_the_cache(runs: Path, project: Project) -> None:
    bounds = ("--min", "pass_rate=0.1", "--max", "latency_p50=9", "--too-few", "pass")
    with MockServer(answers=lambda *_: "good") as server:
        project.of_provider(server)
        run(project, "--limit", "1")
        shutil.rmtree(runs)
        run(project)
        n = 0
        for form in ("table", "markdown", "json", "junit"):
            said = harness("check", "quality", *bounds, "--format", form).stdout
            if form == "json":
                (gate,) = json.loads(said)["runs"]
                assert (gate["calls"], gate["cached_calls"]) == (2, 1)
                latency = next(one for one in gate["decisions"] if "latency" in one["what"])
                assert latency["n"] == 1, "of the one call that was made"
                n += 1
                continue
            assert "1 of 2 replies (50.0%) came from the cache" in " ".join(said.split()), form
            assert "ALL REPLIES" not in said
            n += 1
        assert n == 4
        shutil.rmtree(runs)
        run(project)
        for form in ("table", "markdown", "json", "junit"):
            said = harness("check", "quality", "--min", "pass_rate=0.1", "--format", form).stdout
            plain = " ".join(said.split())
            if form == "json":
                (gate,) = json.loads(said)["runs"]
                assert gate["calls"] == gate["cached_calls"] == 2
            else:
                assert "The model's replies all come from the cache" in plain, form
                assert "model.cache: run" in plain, "which is the remedy for an application, too"


def test_the_gate_names_the_judge_whose_replies_come_from_the_cache(
    runs: Path, project: Project
) -> None:
    with MockServer(answers=lambda *_: "Yes") as server:
        provider = {"backend": "openai", "name": "gpt", "base_url": server.base_url}
        judge = {"name": "yes_no", "as": "judge", "model": provider}
        model = {"backend": "app.py"}
        project.write(model, judges=[judge], criteria=["Is it so?"])
        run(project)
        shutil.rmtree(runs)
        run(project)
    checked = " ".join(harness("check", "quality", "--min", "pass_rate=0").stdout.split())
    assert "2 of 2 replies of judge judge (100.0%) came from the cache" in checked
    assert "ALL REPLIES" not in checked


def test_the_gate_says_that_latencies_include_crashes(runs: Path, project: Project) -> None:
    crash = '    if "Bye" in prompt: raise KeyError(prompt)\n'
    source = project.application.read_text()
    project.application.write_text(source.replace("    return", crash + "    return"))
    project.of_application()
    said = run(project)
    bounds = ("--max", "latency_p50=9", "--too-few", "pass")
    checked = " ".join(harness("check", "quality", *bounds).stdout.split())
    assert "Latencies include 1 crashed call" in checked
    assert "calls 2 (1 crashed)" in said


def test_the_gate_says_when_an_application_answered(runs: Path, project: Project) -> None:
    check = ("check", "quality", "--min", "pass_rate=0.1", "--too-few", "pass")
    project.of_application()
    run(project)
    for form in ("table", "json", "junit"):
        text = " ".join(harness(*check, "--format", form).stdout.split())
        assert "The last answer of your application in quality is from 20" in text, form
    with MockServer(answers=lambda *_: "good") as server:
        project.of_provider(server)
        run(project, "--fresh")
    assert "your application" not in harness(*check).stdout
