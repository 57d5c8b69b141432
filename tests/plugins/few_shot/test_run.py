"""Few-shot runs as their users make them: what is sent, resumed, refused and paired."""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.datasets.folder import DataFolder
from harness.plugins.benchmarks.collie.task import CollieTask
from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake

QUICK = ("run", "configs/quickstart.yaml", "--limit", "26")
ONE = "task.shots={n: 1, within: [structure], form: message, allow_fewer: true}"

EXAMPLES = {
    instance.id: instance.data
    for instance in CollieTask(data=DataFolder(Path("nowhere"))).instances()
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


def attempts(runs: Path, name: str, round_: int = 1) -> dict[tuple[str, int], dict[str, Any]]:
    lines = (runs / name / "attempts.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    return {(a["instance"], a["sample"]): a for a in found if a["round"] == round_}


def test_a_few_shot_run_sends_its_shots_and_resumes(runs: Path) -> None:
    with MockServer() as server:
        command = (
            "run", "configs/gpt4_collie.yaml", "-o", "task.dataset=builtin", "-o", "samples=2",
            "-o", f"model.base_url={server.base_url}", "-o", "task.shots=2",
        )  # fmt: skip
        assert harness(*command, "--limit", "13", "--name", "few").returncode == 0
        first = attempts(runs, "few")
        asked = server.stats().requests
        assert harness(*command, "--limit", "13", "--name", "few").returncode == 0
        assert server.stats().requests == asked == len(first) == 26
        assert harness(*command, "--limit", "20", "--name", "few").returncode == 0
        assert server.stats().requests == 40
    assert first.items() <= attempts(runs, "few").items()
    by_prompt = {data.prompt: data for data in EXAMPLES.values()}
    for (instance, _), attempt in first.items():
        *shots, asked_for = attempt["request"]["messages"]
        assert asked_for == {"role": "user", "content": EXAMPLES[instance].prompt}
        assert [turn["role"] for turn in shots] == ["user", "assistant"] * 2
        for shown in shots[::2]:
            assert by_prompt[shown["content"]].id != instance
        assert EXAMPLES[instance].example not in [turn["content"] for turn in shots]


def test_zero_shot_and_few_shot_runs_share_their_clusters(runs: Path) -> None:
    assert harness(*QUICK, "--name", "zero").returncode == 0
    assert harness(*QUICK, "--name", "one", "-o", ONE).returncode == 0
    zero, one = attempts(runs, "zero"), attempts(runs, "one")
    assert {key: a["cluster"] for key, a in zero.items()} == {
        key: a["cluster"] for key, a in one.items()
    }
    longer = 0
    for (instance, sample), attempt in one.items():
        (before,) = zero[instance, sample]["request"]["messages"]
        (message,) = attempt["request"]["messages"]
        assert message["content"].endswith(before["content"])
        longer += len(message["content"]) > len(before["content"])
    assert longer == len(one) - 2 * 4  # two of the 26 have no fit shot
    rounds = attempts(runs, "one", 2)
    assert rounds, "feedback goes on from what was sent"


def test_the_four_ways_of_prompting_share_the_first_answers(runs: Path) -> None:
    with MockServer() as server:
        ended = harness(
            "run", "configs/gpt4_collie_prompting.yaml", "-o", "task.dataset=builtin",
            "-o", f"model.base_url={server.base_url}", "--limit", "13",
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
    calls = {
        variant: {
            key: a["call_id"]
            for key, a in attempts(runs, f"gpt4_collie_prompting.{variant}").items()
        }
        for variant in ("zero_shot", "one_shot", "feedback", "best_of_4")
    }
    assert calls["zero_shot"] == calls["feedback"]
    assert calls["zero_shot"].items() < calls["best_of_4"].items()
    assert len(calls["best_of_4"]) == 4 * 13
    assert calls["one_shot"].keys() == calls["zero_shot"].keys()
    assert calls["one_shot"] != calls["zero_shot"]


def test_a_dry_run_shows_the_shots(runs: Path) -> None:
    shown = harness(*QUICK, "-o", ONE, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "1 before each prompt; fewer for 2 instances" in shown.stdout
    _, _, prompt = shown.stdout.partition("first prompt (user):")
    assert prompt.count("Please generate") == 2
    assert "before each prompt" not in harness(*QUICK, "--dry-run").stdout


def test_other_shots_are_another_run(runs: Path) -> None:
    assert harness(*QUICK).returncode == 0
    said = mistake(harness(*QUICK, "-o", ONE))
    assert "was started with different values: task.shots (0, now" in said
    assert harness(*QUICK, "-o", "task.shots.n=0").returncode == 0, "still the zero-shot run"


def test_a_run_that_an_older_version_began_is_continued(runs: Path) -> None:
    assert harness(*QUICK).returncode == 0
    config = runs / "quickstart" / "config.yaml"
    assert "shots: 0\n" in config.read_text()
    assert "shots" not in json.loads((runs / "quickstart/manifest.json").read_text())["fingerprint"]
    assert harness(*QUICK, "-o", "samples=5").returncode == 0


def test_a_changed_pool_refuses_to_continue(runs: Path, tmp_path: Path) -> None:
    items = [
        {
            "id": data.id, "level": "word", "prompt": data.prompt, "example": data.example,
            "constraint": {"target_level": "character", "transformation": {"op": "count"},
                           "relation": "=="},
            "targets": len(data.example or ""),
        }
        for data in islice((d for d in EXAMPLES.values() if d.structure == "word02"), 8)
    ]  # fmt: skip
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in items))
    command = (
        *QUICK, "-o", f"task.shots={{n: 1, allow_fewer: true, source: {{dataset: '{source}'}}}}"
    )  # fmt: skip
    assert harness(*command).returncode == 0
    sent = {
        message["content"]
        for attempt in attempts(runs, "quickstart").values()
        for message in attempt["request"]["messages"][:-1]
    }
    assert sent <= {item[key] for item in items for key in ("prompt", "example")}
    assert harness(*command).returncode == 0
    source.write_text("".join(json.dumps(item) + "\n" for item in items[1:]))
    assert "another version of the shots" in mistake(harness(*command))


def test_shots_of_the_most_frequent_errors_of_an_earlier_run(runs: Path) -> None:
    assert harness(*QUICK, "--name", "earlier").returncode == 0
    learnt = "task.shots={n: 1, select: errors, run: earlier, within: [structure]}"
    command = (*QUICK, "-o", learnt, "-o", "task.shots.allow_fewer=true", "--name", "later")
    assert harness(*command).returncode == 0
    failed = {i for (i, _), a in attempts(runs, "earlier").items() if a["passed"] is False}
    prompts = {data.prompt: data.id for data in EXAMPLES.values()}
    shown = {
        prompts[attempt["request"]["messages"][0]["content"]]
        for attempt in attempts(runs, "later").values()
        if len(attempt["request"]["messages"]) > 1
    }
    assert len(shown & failed) > len(shown) / 2
    # Another run takes the earlier one's name. The shots count even if the answers are lost.
    assert harness(*QUICK, "--name", "other", "-o", "model.accuracy=0.1").returncode == 0
    (runs / "earlier").rename(runs / "aside")
    shutil.copytree(runs / "other", runs / "earlier")
    problem = "another version of the shots (chosen by the errors of the run 'earlier')"
    answers = runs / "later" / "attempts.jsonl"
    content = answers.read_bytes()
    for left in (content, content[: len(content) // 2], b"", None):
        answers.unlink(missing_ok=True)
        if left is not None:
            answers.write_bytes(left)
        assert problem in mistake(harness(*command))
    shutil.rmtree(runs / "earlier")
    (runs / "aside").rename(runs / "earlier")
    assert harness(*command).returncode == 0
    assert len(attempts(runs, "later")) == 104


@pytest.mark.parametrize(
    ("shots", "others", "said"),
    [
        ("{n: 1, within: [structure]}", (), "suitable for the instance"),
        ("{n: 1, within: [strucure]}", (), "Did you mean 'structure'?"),
        ("{n: 1, source: {datset: v1}}", (), "Did you mean 'dataset'?"),
        ("{n: 1, select: errors, run: earleir}", (), "Did you mean 'earlier'?"),
        ("{n: 1, select: errors, run: empty}", (), "has no attempts yet"),
        ("{n: 1, select: errors, run: quickstart}", (), "is this run itself"),
        (
            "{n: 1, select: errors, run: earlier}",
            ("task={name: natural_instructions}",),
            "has a different dataset",
        ),
        (
            "{n: 1, select: errors, run: earlier}",
            ("task.dataset=own.yaml",),
            "has a different dataset (builtin, now own.yaml)",
        ),
        (
            "{n: 1, form: message}",
            ("polish={backend: simulated, name: p}",),
            "polish would rewrite the shots too",
        ),
        (
            "1",
            (
                "model={backend: openai_completions, name: m, base_url: 'http://localhost:9/v1'}",
                "rounds.max=1",
            ),
            "Set task.shots.form to message",
        ),
        ("{n: 1, form: task}", ("task={name: natural_instructions}",), "no few-shot form"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shots: str, others: Any, said: str
) -> None:
    monkeypatch.setenv("HARNESS_DATA_DIR", str(tmp_path))
    (tmp_path / "own.yaml").write_text(
        "- {id: a, level: word, targets: 3, example: owl, constraint: "
        "{target_level: character, transformation: {op: count}, relation: '=='}}"
    )
    if "run:" in shots:
        assert harness(*QUICK, "--limit", "1", "--name", "earlier").returncode == 0
        for name in ("empty", "quickstart"):
            (runs / name).mkdir()
            config = (runs / "earlier" / "config.yaml").read_bytes()
            (runs / name / "config.yaml").write_bytes(config)
    options = [part for other in others for part in ("-o", other)]
    ended = harness("run", "configs/quickstart.yaml", *options, "-o", f"task.shots={shots}")
    assert said in mistake(ended)
    assert not (runs / "quickstart" / "attempts.jsonl").exists()


def test_recorded_answers_are_not_replayed_as_few_shot_ones(runs: Path, tmp_path: Path) -> None:
    recording = tmp_path / "own.jsonl"
    recording.write_text('{"prompt": "?", "instance": "i", "rounds": [{"text": "x"}]}\n')
    replay = f"model={{backend: replay, path: {recording}}}"
    for shots in ("task.shots=1", "task.shots={n: 1, form: message}"):
        ended = harness(*QUICK, "-o", replay, "-o", "model.match=instance", "-o", shots)
        assert "as few-shot answers" in mistake(ended)


def test_the_errors_of_a_variant_of_the_same_file_are_refused(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "err.yaml"
    file.write_text(
        "task: {name: collie}\nmodel: {backend: simulated}\nlimit: 13\nvariants:\n  zero: {}\n"
        "  taught: {task.shots: {n: 1, select: errors, run: err.zero, allow_fewer: true}}\n"
    )
    assert harness("run", file, "-o", "variants={zero: {}}").returncode == 0
    said = mistake(harness("run", file))
    assert "Variant 'taught'" in said
    assert "is a variant of the same file" in said
