"""Which runs use a cached reply, and what the command says about it. The server, or the user's
application, counts what it was asked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from harness.report.text import format_usd
from tests.cli.command import begun, harness, mistake
from tests.cli.test_run import attempts, metrics, runs, wait_until
from tests.installed import has_verb

__all__ = ["runs"]

PROMPTS = {"r1": "Hello?", "r2": "Hello?", "r3": "Bye?"}  # the first two share a prompt

APPLICATION = """
from pathlib import Path

def answer(prompt):
    with open({ledger!r}, "a") as ledger:
        ledger.write(repr(prompt) + "\\n")
    return Path({text!r}).read_text()
"""


class Project:
    """A folder with a run file, an application, and what the application was asked."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "quality.yaml"
        self.application = folder / "app.py"
        self.text = folder / "prompt.txt"
        self._ledger = folder / "ledger.txt"
        self._ledger.touch()
        self.text.write_text("good")
        source = APPLICATION.format(ledger=str(self._ledger), text=str(self.text))
        self.application.write_text(source)

    def read(self) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load(self.file.read_text())
        return content

    def write(
        self, model: Mapping[str, Any], criteria: Sequence[str] = (), **sections: Any
    ) -> None:
        more = {"criteria": list(criteria)} if criteria else {}
        rows = [{"id": name, "prompt": prompt, **more} for name, prompt in PROMPTS.items()]
        task = {"name": "jsonl", "rows": rows, "checks": [{"contains": {"target": "good"}}]}
        content = {"task": task, "model": dict(model), **sections}
        self.file.write_text(yaml.safe_dump(content))

    def of_application(self, **model: Any) -> None:
        self.write({"backend": "app.py", **model})

    def of_provider(self, server: MockServer, **model: Any) -> None:
        price = {"input": 0, "output": 1000}
        provider = {"backend": "openai", "name": "gpt", "base_url": server.base_url}
        decoding = {"max_tokens": 20}
        self.write({**provider, "price": price, **model}, decoding=decoding, budget={"usd": 2})

    @property
    def requests(self) -> int:
        """The number of calls of the application."""
        return len(self._ledger.read_text().splitlines())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    return Project(tmp_path)


def run(project: Project, *words: str) -> str:
    ended = harness("run", project.file, "--yes", *words)
    assert ended.returncode == 0, ended.stderr
    return " ".join((ended.stdout + ended.stderr).split())


def test_replies_of_a_deleted_run_are_counted_and_named_as_cached(
    runs: Path, project: Project
) -> None:
    with MockServer(answers=lambda *_: "good") as server:
        project.of_provider(server)
        first = run(project)
        assert server.stats().requests == 2
        before = metrics(runs, "quality")
        assert (before["n_calls"], before["n_cached_calls"], before["from_cache"]) == (2, 0, False)
        assert "calls 2 (+1 cached)" in first
        assert "from the cache" not in first
        shutil.rmtree(runs)

        second = run(project)
        assert server.stats().requests == 2, "nothing was paid for again"
        assert all(attempt["cached"] for attempt in attempts(runs, "quality").values())
        after = metrics(runs, "quality")
        assert (after["n_calls"], after["n_cached_calls"], after["from_cache"]) == (2, 2, True)
        assert after["paid_usd"] == 0 < before["paid_usd"] == after["cost_usd"]
        assert "calls 0 (+3 cached), tokens 0 in, 0 out, paid $0.00" in second
        assert "calls 2 (0 by this run, 2 from the cache)" in second
        spent = f"budget ${before['paid_usd']:.4f}".rstrip("0")
        assert spent in second, "the deleted run's payments count towards the cap"
        listed = " ".join(harness("ls").stdout.split())
        assert "The model's replies in quality all come from the cache" in listed


@pytest.mark.skipif(not has_verb("merge"), reason="shards are merged")
def test_the_list_of_runs_adds_up_each_payment_once(runs: Path, project: Project) -> None:
    with MockServer(answers=lambda *_: "good") as server:
        project.of_provider(server)
        run(project)
        run(project, "--name", "again")
        for shard in ("1/2", "2/2"):
            run(project, "--name", "parts", "--shard", shard, "-o", "seed=7")
        assert harness("merge", "parts").returncode == 0
        assert server.stats().requests == 4
    shutil.copytree(runs / "quality", runs / "copy")
    listed = json.loads(harness("ls", "--format", "json").stdout)
    paid = {row["run"]: row["paid_usd"] for row in listed}
    assert paid["again"] == 0 < paid["quality"] == paid["copy"]
    assert paid["parts"] == pytest.approx(paid["parts-1of2"] + paid["parts-2of2"])
    table = harness("ls", env=os.environ | {"COLUMNS": "200"}).stdout
    assert "paid" in table.splitlines()[0]
    total = format_usd(paid["quality"] + paid["parts"])
    assert f"Paid by all runs: {total} " in table


def test_replies_paid_for_before_a_kill_are_the_runs_own(runs: Path, project: Project) -> None:
    with MockServer(latency="uniform:0.1:1", answers=lambda *_: "good") as server:
        project.of_provider(server, cache=False)
        words = ("run", project.file, "--yes", "-o", "samples=20")
        process = begun(*words)
        file = runs / "quality" / "attempts.jsonl"
        wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 10)
        process.kill()
        process.communicate()
        # As if it had been killed when all replies were in the cache and few lines were written.
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
        assert harness(*words).returncode == 0
        whole = metrics(runs, "quality")
        assert (whole["n_calls"], whole["n_cached_calls"]) == (60, 0)
        assert whole["paid_usd"] == pytest.approx(whole["cost_usd"])
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
        requests = server.stats().requests
        assert harness(*words).returncode == 0
        assert server.stats().requests == requests, "an attempt resumes from its own reply"
        assert metrics(runs, "quality")["n_cached_calls"] == 0


# By the policy: what the application is asked in a run, and in two runs.
POLICIES = {None: (2, 4), "run": (2, 4), "shared": (2, 2), False: (3, 6)}


@pytest.mark.parametrize("cache", POLICIES)
@pytest.mark.parametrize("removed", [False, True], ids=["another run", "the folder is deleted"])
def test_who_uses_the_replies_of_an_application(
    runs: Path, project: Project, cache: str | bool | None, removed: bool
) -> None:
    project.of_application(**({} if cache is None else {"cache": cache}))
    run(project)
    once, twice = POLICIES[cache]
    assert project.requests == once
    if removed:
        shutil.rmtree(runs)
    name = "quality" if removed else "second"
    run(project, "--name", name)
    assert project.requests == twice
    n_cached = 2 if cache == "shared" else 0
    assert metrics(runs, name)["n_cached_calls"] == n_cached


@pytest.mark.parametrize(
    ("model", "expected"),
    [({}, 2), ({"cache": "shared"}, 2), ({"cache": "run"}, 4), ({"cache": False}, 6)],
)
def test_who_uses_the_replies_of_a_provider(
    runs: Path, project: Project, model: dict[str, Any], expected: int
) -> None:
    with MockServer() as server:
        project.of_provider(server, **model)
        run(project)
        run(project, "--name", "second")
        assert server.stats().requests == expected


@pytest.mark.parametrize("edit", ["prompt.txt", "app.py", "nothing"])
@pytest.mark.parametrize("how", ["the folder is deleted", "--fresh"])
def test_a_changed_application_is_asked_again_and_fails_the_gate(
    runs: Path, project: Project, edit: str, how: str
) -> None:
    project.of_application()
    run(project)
    check = ("check", "quality", "--min", "pass_rate=0.9", "--too-few", "pass")
    assert metrics(runs, "quality")["overall"]["pass_rate"] == 1
    assert not has_verb("check") or harness(*check).returncode == 0
    if edit == "prompt.txt":  # which no hash of the code covers
        project.text.write_text("bad")
    elif edit == "app.py":
        source = project.application.read_text().replace(".read_text()", ".read_text()[:1]")
        project.application.write_text(source)
    if how == "--fresh":
        run(project, "--fresh")
    else:
        shutil.rmtree(runs)
        run(project)
    assert project.requests == 4
    passes = edit == "nothing"
    assert metrics(runs, "quality")["overall"]["pass_rate"] == int(passes)
    assert not has_verb("check") or harness(*check).returncode == (0 if passes else 4)


NOTHING_ASKED = "nothing was asked, because all answers of your application are recorded."


@pytest.mark.parametrize("cache", [None, "shared"])
def test_a_complete_run_says_that_its_application_was_not_asked(
    runs: Path, project: Project, cache: str | None
) -> None:
    project.of_application(**({} if cache is None else {"cache": cache, "version": "1"}))
    assert NOTHING_ASKED not in run(project)
    project.text.write_text("bad")
    again = run(project)
    assert project.requests == 2
    assert f"quality: {NOTHING_ASKED}" in again
    assert ("change model.version and ask again" in again) == (cache == "shared")
    assert "--fresh" in again
    assert NOTHING_ASKED not in run(project, "--fresh")


def test_a_complete_run_of_a_provider_says_nothing_of_an_application(
    runs: Path, project: Project
) -> None:
    with MockServer(answers=lambda *_: "good") as server:
        project.of_provider(server)
        run(project)
        assert "nothing was asked" not in run(project)


def test_a_new_version_is_asked_again_and_the_old_one_is_not(runs: Path, project: Project) -> None:
    for number, (version, expected) in enumerate([("a", 2), ("b", 4), ("a", 4), (None, 6)]):
        model = {} if version is None else {"version": version}
        project.of_application(cache="shared", **model)
        run(project, "--name", f"run{number}")
        assert project.requests == expected
    with MockServer() as server:
        for number, (version, expected) in enumerate([(None, 2), ("a", 4), ("a", 4), (None, 4)]):
            project.of_provider(server, **({} if version is None else {"version": version}))
            run(project, "--name", f"provider{number}")
            assert server.stats().requests == expected


@pytest.mark.parametrize("key", ["cache", "version"])
def test_a_run_keeps_its_policy_and_its_version(runs: Path, project: Project, key: str) -> None:
    project.of_application()
    run(project)
    config = yaml.safe_load((runs / "quality" / "config.yaml").read_text())
    assert not {"cache", "version"} & config["model"].keys(), "as in earlier versions"
    ended = harness("run", project.file, "-o", f"model.{key}=shared")
    assert f"model.{key}" in mistake(ended)
    assert "--fresh" in ended.stderr
    assert project.requests == 2


def test_a_judges_application_is_asked_again_and_must_not_change_within_a_run(
    runs: Path, project: Project
) -> None:
    project.text.write_text("Yes")
    judge = {"name": "yes_no", "as": "judge", "model": {"backend": "app.py"}}
    with MockServer(answers=lambda *_: "good") as server:
        project.of_provider(server)
        project.write(project.read()["model"], judges=[judge], criteria=["Is it so?"])
        run(project)
        once = project.requests
        shutil.rmtree(runs)
        said = run(project)
        assert server.stats().requests == 2
    assert project.requests == 2 * once > 0, "the new run asks the judge's application again"
    found = metrics(runs, "quality")
    assert (found["model_calls"]["n_cached_calls"], found["n_cached_calls"]) == (2, 2)
    assert found["judges"]["judge"]["n_cached_calls"] == 0
    assert "the model 2 calls (0 by this run, 2 from the cache)" in said
    if has_verb("check"):
        checked = " ".join(harness("check", "quality", "--min", "pass_rate=0").stdout.split())
        assert "ALL REPLIES OF THE MODEL FROM THE CACHE" in checked
        assert "of judge" not in checked
    project.application.write_text(project.application.read_text() + "\n# changed\n")
    assert "app.py" in mistake(harness("run", project.file))


def test_retries_are_asked_again_whatever_the_policy(runs: Path, project: Project) -> None:
    with MockServer(answers=lambda *_: "one two three " * 9) as server:  # all are truncated
        for number, (cache, calls) in enumerate([("shared", 2), ("run", 2), (False, 3)]):
            project.of_provider(server, cache=cache, version=str(number))
            before = server.stats().requests
            run(project, "--name", f"run{number}")
            assert server.stats().requests == before + calls
            run(project, "--name", f"run{number}", "--retry", "truncated")
            assert server.stats().requests == before + 2 * calls


def test_calls_for_several_samples_are_refused_if_each_attempt_has_its_own_call(
    runs: Path, project: Project
) -> None:
    with MockServer() as server:
        project.of_provider(server, cache=False, preset="openai")
        ended = harness("run", project.file, "-o", "limits.samples_per_call=2")
        assert "cache: false" in mistake(ended)
        assert server.stats().requests == 0


CLASS = """
from harness.plugin import Backend
from harness.records import Reply

class Application(Backend):
    features = frozenset({{"max_tokens"}})
    endpoint = "http://127.0.0.1/app"
    cacheable = True
    {more}

    async def generate(self, request):
        with open({ledger!r}, "a") as ledger:
            ledger.write("asked\\n")
        return Reply("good", "stop")

    async def aclose(self):
        pass
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [("", 4), ("shares_replies = True", 2), ("shares_replies = False", 4)],
)
def test_a_class_may_say_whether_its_replies_are_shared(
    runs: Path, project: Project, more: str, expected: int
) -> None:
    ledger = str(project.file.parent / "ledger.txt")
    project.application.write_text(CLASS.format(more=more, ledger=ledger))
    project.of_application()
    for name in ("first", "second"):
        run(project, "--name", name)
    assert project.requests == expected


def test_an_option_named_like_a_key_of_the_section_gets_its_value(
    runs: Path, project: Project
) -> None:
    source = project.application.read_text()
    source = source.replace("answer(prompt)", 'answer(prompt, version: str = "v1")')
    source = source.replace("return ", "return version + ")
    project.application.write_text(source)
    project.of_application()
    run(project)
    project.of_application(version="v2")
    assert "model.version (v1, now v2)" in mistake(harness("run", project.file))
    run(project, "--fresh")
    texts = {attempt["text"] for attempt in attempts(runs, "quality").values()}
    assert texts == {"v2good"}
