"""The estimated cost of a later judge, before its calls."""

from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, on
from tests.plugins.estimates.test_confirm import answered, paying


def test_a_later_judge_above_the_bound_asks_about_what_it_has_not_judged(tmp_path: Path) -> None:
    rows, judge, runs = tmp_path / "rows.jsonl", tmp_path / "judge.yaml", tmp_path / "runs"
    rows.write_text('{"prompt": "a", "target": "yes"}\n{"prompt": "b", "target": "no"}\n')
    task = f"task={{name: jsonl, path: {rows}, checks: [exact_match]}}"
    model = "model={backend: simulated, accuracy: 1.0}"
    (tmp_path / "mine.yaml").write_text("task: {name: jsonl}\nmodel: {backend: simulated}\n")
    made = harness("run", tmp_path / "mine.yaml", "-o", task, "-o", model, env=on(runs))
    assert made.returncode == 0, made.stderr
    with MockServer(answers=lambda asked, _: "Verdict: good") as server:
        price = "{input: 0, output: 1000000}"
        judge.write_text(
            "{name: choice, max_tokens: 10, model: {backend: openai, name: j, "
            f"base_url: '{server.base_url}', price: {price}}}, "
            "criteria: {fine: {question: 'Is it?', choices: {good: 1, bad: 0}}}}"
        )
        words = ["judge", "mine", "--judge", str(judge)]
        refused = answered(b"n\n", words, runs)
        assert "Estimated cost of 2 calls: $2.00 to $20.00" in refused.stderr
        assert "Nothing was run." in refused.stderr
        assert server.stats().requests == 0
        capped = answered(b"n\n", [*words, "--budget", "1.5"], runs)
        assert "$2.00 to $20.00. The budget of $1.50 ends the work" in capped.stderr
        gold = answered(b"n\n", [*words, "--gold"], runs)
        assert "Estimated cost of 2 calls" in gold.stderr
        asked_nothing = harness(*words, env=paying(runs))
        assert asked_nothing.returncode == 0, asked_nothing.stderr
        assert "Estimated cost of 2 calls" in asked_nothing.stderr
        again = answered(b"", words, runs)
        assert (again.returncode, "Estimated cost" in again.stderr) == (0, False), again.stderr
        agreed = answered(b"", [*words, "--gold", "--yes"], runs)
        assert agreed.returncode == 0, agreed.stderr
        assert "Continue?" not in agreed.stderr
