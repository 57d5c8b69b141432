"""Runs on llama-cpp-python's server, with a model of random weights."""

from __future__ import annotations

import json
from typing import Any

from harness.calls.reply_cache import ReplyCache
from tests.backends.servers.conftest import SECONDS, Bench, LlamaServer, run_file
from tests.backends.stand_ins import until

UNSAVED = 8  # calls in flight at a kill, and replies that are being saved
SAMPLED = {"temperature": 0.8, "max_tokens": 30}
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "count": {"enum": [1, 2, 3]}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}
CAPITALS = """
import json
from msgspec.structs import replace
from harness.plugin import Task
from harness.records import Instance, Message, Score


class Capitals(Task):
    on_truncated = "fail"
    needed_features = frozenset({"loglikelihoods"})
    needed_samples = 1

    def instances(self):
        for number, country in enumerate(["France", "Italy", "Spain", "Chad"]):
            yield Instance(country, number)

    def fingerprint(self):
        return {}

    def messages(self, instance, shots):
        answers = ("Paris", "Rome", "Madrid", "Lima")
        prompt = Message("user", f"The capital of {instance.id} is ")
        return (prompt, *(Message("assistant", answer) for answer in answers))

    def adapted_request(self, instance, request):
        return replace(request, loglikelihoods=True)

    def score(self, instance, text):
        sums = [total for total, *_ in json.loads(text)]
        right = sums.index(max(sums)) == instance.data
        return {"right": Score(right, right)}

    def feedback(self, instance, text, scores):
        return ""

    def reference(self, instance):
        return None
"""


def tree(llama: LlamaServer, **sections: Any) -> dict[str, Any]:
    model = {"name": "tiny", "base_url": llama.url, "preset": "llama_cpp_python"}
    return run_file(model, **{"decoding": SAMPLED, "samples": 3, **sections})


def test_all_samples_are_answered_and_differ(llama: LlamaServer, bench: Bench) -> None:
    answered = llama.answered()
    bench.run(tree(llama))
    assert set(bench.outcomes()) == {
        (f"r{row}", sample) for row in range(12) for sample in range(3)
    }
    assert set(bench.outcomes().values()) <= {"ok", "truncated"}
    assert llama.answered() - answered == 36
    assert len({attempt["text"] for attempt in bench.attempts()}) == 36


def test_the_seed_repeats_a_run(llama: LlamaServer, bench: Bench) -> None:
    texts = []
    for _ in range(2):
        bench.run(tree(llama, samples=1))
        texts.append({one["instance"]: one["text"] for one in bench.attempts()})
        bench.forget()
    assert texts[0] == texts[1]


def test_a_killed_run_is_continued(llama: LlamaServer, bench: Bench) -> None:
    answered = llama.answered()
    process = bench.begin(tree(llama, samples=12))
    until(lambda: len(bench.attempts()) >= 8, "some attempts")
    process.kill()
    process.communicate()
    assert len(bench.attempts()) < 144
    bench.run(tree(llama, samples=12))
    assert len(bench.outcomes()) == 144
    assert 144 <= llama.answered() - answered <= 144 + UNSAVED


def test_a_server_that_restarts(llama: LlamaServer, bench: Bench) -> None:
    answered = llama.answered()
    process = bench.begin(tree(llama, samples=12))
    until(lambda: len(bench.attempts()) >= 8, "some attempts")
    llama.fail()
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output
    assert len(bench.outcomes()) == 144
    assert set(bench.outcomes().values()) <= {"ok", "truncated"}
    assert 144 <= llama.answered() - answered <= 144 + UNSAVED


def test_a_schema_is_enforced(llama: LlamaServer, bench: Bench) -> None:
    decoding = {"temperature": 0.8, "constraint": {"json_schema": SCHEMA}}
    output = bench.run(tree(llama, decoding=decoding, samples=1))
    values = [json.loads(attempt["text"]) for attempt in bench.attempts()]
    assert len(values) == 12
    assert all(value["colour"] in ("red", "blue") for value in values)
    assert "are not valid" not in output


def test_a_grammar_is_enforced(llama: LlamaServer, bench: Bench) -> None:
    decoding = {"temperature": 0.8, "constraint": {"grammar": 'root ::= "yes" | "no"'}}
    bench.run(tree(llama, decoding=decoding, samples=3))
    assert {attempt["text"] for attempt in bench.attempts()} == {"yes", "no"}


def test_log_probabilities_are_recorded(llama: LlamaServer, bench: Bench) -> None:
    output = bench.run(tree(llama, decoding={**SAMPLED, "logprobs": 2}, samples=1))
    calls = [attempt["call_id"] for attempt in bench.attempts()]
    with ReplyCache(bench.folder / "cache" / "replies.sqlite") as cache:
        replies = [cache.get(call) for call in calls]
    assert all(reply is not None and reply.logprobs for reply in replies)
    assert "log-probabilities" not in output


def test_choices_are_scored_one_by_one(llama: LlamaServer, bench: Bench) -> None:
    (bench.folder / "capitals.py").write_text(CAPITALS)
    answered = llama.answered("/v1/completions")
    model = {"backend": "openai_completions", "name": "tiny", "base_url": llama.url}
    bench.run({"task": {"name": "./capitals.py"}, "model": model, "limits": {"concurrency": 1}})
    assert list(bench.outcomes().values()) == ["ok"] * 4
    for attempt in bench.attempts():
        assert all(total < 0 for total, *_ in json.loads(attempt["text"]))
    assert llama.answered("/v1/completions", 500) == 1
    assert llama.answered("/v1/completions") - answered == 16


def test_another_preset_is_an_error_that_names_the_field(llama: LlamaServer, bench: Bench) -> None:
    content = tree(llama, decoding={"constraint": {"json_schema": SCHEMA}}, samples=1)
    content["model"]["preset"] = "openai"
    content["limits"]["attempts"] = 2
    output = bench.run(content, code=1)
    assert "Input should be 'text' or 'json_object'" in output
    assert set(bench.outcomes().values()) == {"error"}
