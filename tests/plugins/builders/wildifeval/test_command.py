"""`harness build wildifeval`: from a chat log to a run, on the command line."""

import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import begun, harness, mistake
from tests.plugins.builders.wildifeval.synthetic_chats import REPEATED, answer, task, write_chats

CONCURRENCY = 20


@dataclass(frozen=True)
class Place:
    """A log, a server that answers as a model that knows it, and folders."""

    folder: Path
    kinds: dict[str, str]
    server: MockServer

    @property
    def environment(self) -> dict[str, str]:
        own = {"HARNESS_CACHE_DIR": str(self.folder / "cache"), "OPENAI_API_KEY": "none"}
        return os.environ | own | {"HARNESS_RUNS_DIR": str(self.folder / "runs"), "COLUMNS": "200"}

    def build(self, out: str, *more: str) -> tuple[str | Path, ...]:
        model = f"{{backend: openai, preset: vllm, name: m, base_url: '{self.server.base_url}'}}"
        return (
            *("build", "wildifeval", "--from", self.folder / "chats.jsonl"),
            *("--out", self.folder / out, "-o", f"model={model}"),
            *(
                "-o",
                "filter.keep=0.25",
                "-o",
                "domains.batch=50",
                "-o",
                f"limits.concurrency={CONCURRENCY}",
                *more,
            ),
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("chats")
    kinds = write_chats(folder / "chats.jsonl")
    with MockServer(answers=answer) as server:
        yield Place(folder, kinds, server)


@pytest.fixture(scope="module")
def mine(place: Place) -> Path:
    """The data set, from a build that was killed in its first stage and went on."""
    place.server.change(latency=0.02)
    first = begun(*place.build("mine"), env=place.environment)
    while place.server.stats().requests < 100:
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert not (place.folder / "mine").exists()
    place.server.change(latency=0.0)
    ended = harness(*place.build("mine"), env=place.environment)
    assert ended.returncode == 0, ended.stderr
    return place.folder / "mine"


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "tasks.jsonl").read_bytes().splitlines()]


def write_prompts(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))


def test_just_what_was_planted_is_left_out(place: Place, mine: Path) -> None:
    tasks = rows(mine)
    assert Counter(place.kinds[row["id"]] for row in tasks) == {"task": 105, "repeated": 40}
    signed = [r for r in tasks if any(REPEATED in one["text"] for one in r["constraints"])]
    assert len(signed) == 40
    facts = json.loads((mine / "manifest.json").read_bytes())
    assert [(step["name"], step["removed"]) for step in facts["steps"]] == [
        ("screen", {"language": 60, "code": 50, "toxic": 40, "duplicate": 50}),
        ("filter", {"not among the likeliest": 540}),
        ("decompose", {"no constraints": 5}),
        ("constraints", {"too many constraints": 10, "repeated constraint": 20}),
    ]
    assert facts["steps"][-1]["left"] == facts["tasks"] == 145


def test_tasks_have_constraints_categories_and_domains(mine: Path) -> None:
    tasks = rows(mine)
    assert {one["category"] for row in tasks for one in row["constraints"]} == {
        *("Length", "Other", "Include / Avoid"),
    }
    numbered = [
        one for row in tasks for one in row["constraints"] if "name the number" in one["text"]
    ]
    assert len(numbered) == 105
    assert all((one["category"], one["title"]) == ("Other", "Numbering") for one in numbered)
    assert {row["domain"] for row in tasks} == {f"Field {i}" for i in range(1, 21)}
    facts = json.loads((mine / "manifest.json").read_bytes())
    assert len(facts["proposed_domains"]) == 30  # ten for each of three batches
    assert len(facts["domains"]) == 20


def test_a_killed_build_pays_again_only_for_what_was_on_the_way(place: Place, mine: Path) -> None:
    facts = json.loads((mine / "manifest.json").read_bytes())
    counts = {stage: of["answers"] for stage, of in facts["calls"].items()}
    assert counts["filter"] == 720
    assert counts["decompose"] == 180
    assert counts["domains"] == 3 + 1 + 145
    asked = [body.requests for body in place.server.bodies().values()]
    assert len(asked) == sum(counts.values())
    # Lost with the kill: what was on the way, and what had come but was not committed yet.
    assert sum(asked) - len(asked) <= CONCURRENCY + 25


def test_the_same_again_asks_nothing(place: Place, mine: Path) -> None:
    before, whole = place.server.stats().requests, (mine / "tasks.jsonl").read_bytes()
    ended = harness(*place.build("mine"), env=place.environment)
    assert ended.returncode == 0, ended.stderr
    assert place.server.stats().requests == before
    assert (mine / "tasks.jsonl").read_bytes() == whole


def test_another_build_takes_what_the_cache_has(place: Place, mine: Path) -> None:
    (place.folder / "looser.stages").mkdir()
    for name in ("stages.json", "screen.json"):  # spares the classifier, and brings no answers
        shutil.copy(place.folder / "mine.stages" / name, place.folder / "looser.stages")
    before = place.server.stats().requests
    ended = harness(*place.build("looser", "-o", "constraints.most_tasks=1000"),
                    env=place.environment)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "filter: 0 calls, 720 from the cache" in ended.stderr
    assert len(rows(place.folder / "looser")) == 165
    new = place.server.stats().requests - before
    assert new <= 20 + 4 + 1  # the domains of twenty more tasks, other batches, other names


def test_the_card_and_the_report_tell_of_it(place: Place, mine: Path) -> None:
    card, report = (mine / "card.md").read_text(), (mine / "report.md").read_text()
    for said in ("145 tasks", '"language": 60', "chats.jsonl", "$0.0000"):
        assert said in card.replace("\\", "")
    assert "were simulated" not in card
    assert "| screen | language | 60 | 0.065 | - |" in report
    assert "| constraints | repeated constraint | 20 | 0.114 | - |" in report
    assert "### screen: code" in report
    assert "Write code that sorts 3 names" in report
    assert "| Numbering | 105 |" in report
    assert "30 were proposed, 20 remain." in report


def test_what_was_built_runs(place: Place, mine: Path) -> None:
    file = place.folder / "own.yaml"
    file.write_text(
        f"task: {{name: wildifeval, dataset: {mine / 'tasks.jsonl'}}}\n"
        "model: {backend: simulated}\n"
        "judges: [{name: yes_no, votes: 1, model: {backend: simulated, accuracy: 1}}]\n"
    )
    ended = harness("run", file, "--limit", "20", env=place.environment)
    assert ended.returncode == 0, ended.stderr
    metrics = json.loads((place.folder / "runs" / "own" / "metrics.json").read_bytes())
    assert metrics["n_instances"] == 20
    domains = metrics["groups"]["domain"]
    assert sum(of["n"] for of in domains.values()) == 20
    assert all(name.startswith("Field ") for name in domains)


def test_a_dry_run_asks_nobody_and_bounds_the_calls(place: Place, mine: Path) -> None:
    before = place.server.stats().requests
    ended = harness(*place.build("mine", "--dry-run"), env=place.environment)
    assert ended.returncode == 0, ended.stderr
    assert place.server.stats().requests == before
    said = {
        cells[0].strip(): int(cells[2].replace(",", ""))
        for line in ended.stdout.splitlines()
        if len(cells := re.split(r"  +", line.strip())) == 6 and cells[0] != "stage"
    }
    assert said == {"filter": 720, "decompose": 180, "categories": 1440, "domains": 4 + 1 + 180}
    facts = json.loads((mine / "manifest.json").read_bytes())
    assert all(facts["calls"][stage]["answers"] <= most for stage, most in said.items())


@pytest.fixture
def few(place: Place, tmp_path: Path) -> Place:
    """Thirty of the chats, among them ten tasks."""
    lines = (place.folder / "chats.jsonl").read_text().splitlines()
    (tmp_path / "chats.jsonl").write_text("\n".join(lines[230:240] + lines[400:420]) + "\n")
    return Place(tmp_path, {}, place.server)


def test_a_spent_budget_ends_a_build_that_goes_on_with_more(few: Place) -> None:
    priced = ("-o", "model.price={input: 100, output: 100}", "-o", "filter.keep=0.34")
    priced += ("-o", "screen.toxicity=null")
    ended = harness(*few.build("mine", *priced, "-o", "budget.usd=0.5"), env=few.environment)
    assert ended.returncode == 3, ended.stderr
    assert "The budget of $0.5000 cannot pay for the next call" in ended.stderr
    ended = harness(*few.build("mine", *priced, "-o", "budget.usd=50.0"), env=few.environment)
    assert ended.returncode == 0, ended.stderr
    facts = json.loads((few.folder / "mine" / "manifest.json").read_bytes())
    assert 0.5 < sum(of["cost_usd"] for of in facts["calls"].values()) < 50
    assert len(rows(few.folder / "mine")) == 10


def test_votes_are_counted_where_there_are_to_be_some(few: Place) -> None:
    more = ("-o", "filter.votes=3", "-o", "filter.keep=0.34", "-o", "screen.toxicity=null")
    ended = harness(*few.build("voted", *more), env=few.environment)
    assert ended.returncode == 0, ended.stderr
    facts = json.loads((few.folder / "voted" / "manifest.json").read_bytes())
    assert facts["calls"]["filter"]["answers"] == 3 * 30
    assert len(rows(few.folder / "voted")) == 10
    assert "more than the model finds" not in ended.stderr


def test_a_share_that_takes_in_what_the_model_says_no_to_is_told(few: Place) -> None:
    sure = [task(n, ["be short"]) for n in range(5)]
    no = [task(n, ["be kind"]).replace("Please write", "Write") for n in range(15)]
    write_prompts(few.folder / "chats.jsonl", [*sure, *no])
    more = ("-o", "filter.keep=0.5", "-o", "screen.toxicity=null")
    ended = harness(*few.build("half", *more), env=few.environment)
    assert ended.returncode == 0, ended.stderr
    assert "keeps tasks down to a probability of 0.05" in ended.stderr


def test_a_mistake_in_the_settings_is_told_before_anything_is_made(few: Place) -> None:
    said = mistake(harness(*few.build("x", "-o", "filter.kep=1"), env=few.environment))
    assert "unknown key 'filter.kep'" in said
    assert "keep" in said
    assert not (few.folder / "x.stages").exists()


def test_ctrl_c_ends_after_the_calls_on_the_way_and_one_process_builds_at_a_time(
    few: Place,
) -> None:
    command = few.build("mine", "-o", "screen.toxicity=null", "-o", "limits.concurrency=1")
    few.server.change(latency=0.2)
    try:
        before = few.server.stats().requests
        first = begun(*command, env=few.environment)
        while few.server.stats().requests < before + 3:
            assert first.poll() is None, first.communicate()
            time.sleep(0.01)
        said = mistake(harness(*few.build("mine", "--dry-run"), env=few.environment))
        assert "Another process is building" in said
        first.send_signal(signal.SIGINT)
        _, told = first.communicate(timeout=60)
    finally:
        few.server.change(latency=0.0)
    assert first.returncode == 130, told
    assert "Interrupted. To continue: harness build wildifeval --from" in told


def test_a_model_that_only_thinks_is_told_of_before_its_stage_is_paid_for(few: Place) -> None:
    texts = [f"Write a letter about day {n}." for n in range(60)]
    write_prompts(few.folder / "chats.jsonl", texts)
    with MockServer(answers=answer, reasoning="think") as server:
        thinking = Place(few.folder, {}, server)
        command = thinking.build("thought", "-o", "screen.toxicity=null")
        for _ in range(2):
            said = mistake(harness(*command, env=thinking.environment))
            assert "they say '' and have no" in said
            assert "filter.votes=5" in said
            assert "filter.max_tokens=4000" in said
        assert server.stats().requests == 20  # the reasoning was paid for, and is cached
        more = ("-o", "filter.votes=1", "-o", "filter.max_tokens=4000")
        ended = harness(*command, *more, env=thinking.environment)
        assert "filter: 60 calls" in ended.stderr


def test_a_log_that_is_not_there_is_told(few: Place) -> None:
    (few.folder / "chats.jsonl").unlink()
    said = mistake(harness(*few.build("mine"), env=few.environment))
    assert "There is no file" in said


def test_lines_that_are_no_chats_are_counted_and_named(few: Place) -> None:
    command = few.build("mine", "-o", "screen.toxicity=null", "-o", "filter.keep=1")
    path = few.folder / "chats.jsonl"
    write_prompts(path, [task(n, ["be short"]) for n in range(3)])
    path.write_text(path.read_text() + '{"id": "b"}\n{"prompt": "torn\n')
    ended = harness(*command, env=few.environment)
    assert ended.returncode == 0, ended.stderr
    assert "2 of 5 chats cannot be read, such as chats.jsonl, line 4: not a chat" in ended.stderr
    assert "screen: 3 of 5 left (2 unreadable removed)" in ended.stderr
    report = (few.folder / "mine" / "report.md").read_text()
    assert "chats.jsonl, line 5: not a JSON object" in report.replace("\\", "")
    path.write_text('{"id": "b"}\n')
    assert "chats.jsonl, line 1: not a chat" in mistake(harness(*command, env=few.environment))


def test_a_log_s_name_need_not_be_utf_8(few: Place) -> None:
    odd = few.folder / os.fsdecode(b"l\xf6g.jsonl")
    write_prompts(odd, [task(n, ["be short"]) for n in range(3)])
    odd.write_text(odd.read_text() + '{"id": "b"}\n')
    (few.folder / "chats.jsonl").unlink()
    more = ("--from", odd, "-o", "screen.toxicity=null", "-o", "filter.keep=1")
    command = [
        part for part in few.build("mine") if part not in ("--from", few.folder / "chats.jsonl")
    ]
    ended = harness(*command, *more, env=few.environment)
    assert ended.returncode == 0, ended.stderr
    assert "cannot be read, such as l\ufffdg.jsonl, line 4" in ended.stderr
