"""What the other parts need of a local model, by both backends: one run file, one loading each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from harness.calls.reply_cache import ReplyCache
from tests.plugins.vllm.real.conftest import Bench

pytestmark = pytest.mark.timeout(900)

ROWS, LEAST_ENDED = 200, 190

REGEX = "[a-f]{3,8}(-[0-9]{2}){1,3}"
CHOICES = ["the red one", "the green one", "neither of them", "I cannot say"]
SCHEMA = {
    "type": "object",
    "properties": {
        # Not maxLength: xgrammar 0.2 lets such a string hold control characters, which is no JSON.
        "name": {"type": "string", "pattern": "^[a-z]{1,8}$"},
        "colour": {"enum": ["red", "green", "blue"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "sure": {"type": "boolean"},
    },
    "required": ["name", "colour", "count", "sure"],
    "additionalProperties": False,
}
GRAMMAR = 'root ::= "the " ("sea" | "sky") " is " colour ("!" | ".")\ncolour ::= "blue" | "grey"'

CONSTRAINTS: dict[str, Any] = {
    "regex": REGEX,
    "choices": CHOICES,
    "json_schema": SCHEMA,
    "grammar": GRAMMAR,
}


def is_valid(text: str) -> bool:
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


KEEPS: dict[str, Callable[[str], bool]] = {
    "regex": lambda text: bool(re.fullmatch(REGEX, text)),
    "choices": CHOICES.__contains__,
    "json_schema": is_valid,
    "grammar": lambda text: bool(re.fullmatch(r"the (sea|sky) is (blue|grey)[!.]", text)),
}


@pytest.fixture(scope="module")
def done(bench: Bench) -> Bench:
    """The run file, run once."""
    rows, twins = bench.folder / "rows.jsonl", bench.folder / "twins.jsonl"
    about = (
        "Name one thing that is by the sea, and say of what colour it is, and how many there are. "
    )
    rows.write_text(
        "".join(
            json.dumps({"id": f"r{n}", "prompt": f"{about}{n}", "target": "[aeiou]"}) + "\n"
            for n in range(ROWS)
        )
    )
    twins.write_text(
        "".join(
            json.dumps({"id": f"t{n}", "prompt": about, "target": "x"}) + "\n" for n in range(64)
        )
    )
    held = {
        kind: {"decoding.constraint": {kind: value}, "decoding.max_tokens": 300}
        for kind, value in CONSTRAINTS.items()
    }
    few = {"limit": 16}
    greedy = {**few, "decoding.temperature": 0}
    bench.run(
        {
            "task": {
                "name": "jsonl",
                "path": str(rows),
                "prompt": "{{ prompt }}",
                "checks": [{"regex_match": {"pattern": "[e]"}}],
            },
            "model": bench.model,
            "decoding": {"temperature": 1.0, "max_tokens": 30, "extra": {"top_k": 250}},
            "variants": {
                **held,
                "free": {},
                "pass_at_k": {**few, "samples": 8},
                "rounds": {**few, "rounds.max": 3},
                "twins": {"samples": 8, "task.path": str(twins)},
                "stop": {**few, "decoding.stop": list("aeo ")},
                "logprobs": {**few, "decoding.logprobs": 5, "decoding.prompt_logprobs": True},
                "greedy": greedy,
                # Last: it is another server.
                "adapted": {**greedy, "model.lora": str(Path(bench.model["path"], "lora8"))},
            },
        }
    )
    return bench


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_a_constraint_is_kept_and_without_it_is_not(
    kind: str, done: Bench, figures: list[str]
) -> None:
    held, free = done.attempts(kind), done.attempts("free")
    assert len(held) == len(free) == ROWS
    ended = [attempt for attempt in held if attempt["finish_reason"] == "stop"]
    figures.append(
        f"{done.backend}: {kind}: {len(ended)} of {ROWS} ended by themselves, "
        f"{sum(KEEPS[kind](one['text']) for one in ended)} of them keep it; "
        f"{sum(KEEPS[kind](one['text']) for one in free)} of {ROWS} free ones do"
    )
    assert len(ended) >= LEAST_ENDED
    assert all(KEEPS[kind](attempt["text"]) for attempt in ended)
    assert all(
        attempt["outcome"] == "truncated" and attempt["finish_reason"] == "length"
        for attempt in held
        if attempt not in ended
    )
    assert not any(KEEPS[kind](attempt["text"]) for attempt in free), "or it need not be applied"


def test_instances_of_one_prompt_have_samples_of_their_own(done: Bench, figures: list[str]) -> None:
    attempts = done.attempts("twins")
    assert len(attempts) == 512
    assert len({attempt["request"]["messages_hash"] for attempt in attempts}) == 1
    assert len({attempt["request"]["seed"] for attempt in attempts}) == 512
    assert len({attempt["call_id"] for attempt in attempts}) == 512
    different = len({attempt["text"] for attempt in attempts})
    figures.append(f"{done.backend}: 512 samples of one prompt: {different} different texts")
    assert different > 500


def test_a_prefix_that_samples_share_is_computed_once(done: Bench, figures: list[str]) -> None:
    usage = done.metrics("twins")["usage"]
    share = usage["cached_input_tokens"] / usage["input_tokens"]
    figures.append(f"{done.backend}: {share:.0%} of the prompt tokens of those were cached")
    assert share > 0.5


def test_pass_at_k(done: Bench) -> None:
    metrics = done.metrics("pass_at_k")
    assert metrics["n_attempts"] == 128
    rates = [metrics["pass_at_k"][str(k)] for k in (1, 2, 4, 8)]
    assert rates == sorted(rates)
    attempts = done.attempts("pass_at_k")
    assert metrics["outcomes"]["error"] == 0
    assert all(attempt["usage"]["output_tokens"] > 0 for attempt in attempts)
    assert len({attempt["text"] for attempt in attempts}) > 120


def test_rounds_of_feedback_are_one_conversation(done: Bench) -> None:
    attempts = done.attempts("rounds")
    assert {attempt["round"] for attempt in attempts} == {1, 2, 3}
    by_name = {(one["instance"], one["round"]): one for one in attempts}
    for (instance, number), later in by_name.items():
        if number > 1:
            before = by_name[instance, number - 1]
            grew = later["usage"]["input_tokens"] - before["usage"]["input_tokens"]
            assert before["feedback"]
            # The answer of before and its feedback, each letter a token or less.
            assert 0 < grew <= len((before["text"] + before["feedback"]).encode()) + 4


def test_stop_strings_end_an_answer_and_are_no_part_of_it(done: Bench) -> None:
    attempts = done.attempts("stop")
    assert sum(attempt["finish_reason"] == "stop" for attempt in attempts) >= 8
    assert not any(set(attempt["text"]) & set("aeo ") for attempt in attempts)


def test_log_probabilities_are_of_the_model(done: Bench) -> None:
    replies = kept_replies(done, "logprobs")
    assert len(replies) == 16
    for reply in replies:
        first, *others = reply["prompt_logprobs"]
        assert first is None
        assert len(others) == reply["usage"]["input_tokens"] - 1
        assert all(-20 < logprob < 0 for _, logprob in others)
        assert "by the sea" in "".join(token for token, _ in others)
        for position in reply["logprobs"]:
            assert 5 <= len(position) <= 6
            values = [logprob for _, logprob in position]
            assert values == sorted(values, reverse=True)


def test_an_adapter_is_applied(done: Bench) -> None:
    greedy, adapted = (
        {attempt["instance"]: attempt["text"] for attempt in done.attempts(variant)}
        for variant in ("greedy", "adapted")
    )
    assert greedy.keys() == adapted.keys()
    assert sum(greedy[instance] != adapted[instance] for instance in greedy) == 16


def kept_replies(bench: Bench, variant: str) -> list[Any]:
    """The cached replies of a variant's attempts."""
    calls = [attempt["call_id"] for attempt in bench.attempts(variant)]
    with ReplyCache(Path(bench.env["HARNESS_CACHE_DIR"]) / "replies.sqlite") as replies:
        return [msgspec.to_builtins(replies.get(call)) for call in calls]
