from dataclasses import replace as changed

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.calls.keys import call_key, provider_seed
from harness.records import Decoding, Message, Origin, Request, messages_hash

REQUEST = Request(
    "m", (Message("user", "Hi"),), Decoding(temperature=0.7), 0, Origin("a", 0, 1), seed=7
)
KEY = call_key("openai", "http://x", REQUEST)


def test_a_key_is_the_same_in_every_process() -> None:
    assert KEY == "541b4d113e39aa43fb781144ced95b6d"


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, model="n"),
        replace(REQUEST, messages=(Message("user", "Hi "),)),
        replace(REQUEST, messages=(Message("system", "Hi"),)),
        replace(REQUEST, decoding=changed(REQUEST.decoding, temperature=0.8)),
        replace(REQUEST, decoding=changed(REQUEST.decoding, max_tokens=1)),
        replace(REQUEST, decoding=changed(REQUEST.decoding, stop=("\n",))),
        replace(REQUEST, sample=1),
        replace(REQUEST, seed=8),
        replace(REQUEST, seed=None),
        replace(REQUEST, unsent_seed=1),
    ],
)
def test_whatever_changes_the_answer_changes_the_key(other: Request) -> None:
    assert call_key("openai", "http://x", other) != KEY


def test_the_default_seed_of_a_provider_without_seeds_is_not_part_of_the_key() -> None:
    assert call_key("openai", "http://x", replace(REQUEST, unsent_seed=0)) == KEY


def test_backend_and_endpoint_are_part_of_the_key() -> None:
    assert call_key("anthropic", "http://x", REQUEST) != KEY
    assert call_key("openai", "http://y", REQUEST) != KEY


def test_the_origin_is_not_part_of_the_key_unless_the_backend_answers_instances() -> None:
    other = replace(REQUEST, origin=Origin("b", 0, 1))
    assert call_key("openai", "http://x", other) == KEY
    keys = {call_key("replay", "", r, by_instance=True) for r in (REQUEST, other)}
    assert len(keys) == 2


@given(st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_where_one_message_ends_and_the_next_begins_counts(texts: list[str]) -> None:
    one = [Message("user", texts[0] + texts[1])]
    two = [Message("user", texts[0]), Message("user", texts[1])]
    assert messages_hash(one) != messages_hash(two)


def test_the_provider_seed_depends_on_run_seed_prompt_and_sample() -> None:
    seeds = {provider_seed(s, p, k) for s in (0, 1) for p in ("a", "b") for k in (0, 1)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_an_instances_own_seeds_never_coincide_and_fit_any_json() -> None:
    seeds = {
        provider_seed(0, "prompt", sample, instance_id=f"i{number}")
        for number in range(64)
        for sample in range(8)
    }
    assert len(seeds) == 512
    assert all(0 <= seed < 2**53 for seed in seeds)
    assert len({seed % 2**32 for seed in seeds}) == 512, "PyTorch's CPU generator takes 32 bits"
    assert provider_seed(0, "prompt", 1, instance_id="a") != provider_seed(0, "prompt", 1)


def test_a_version_and_a_run_separate_keys_and_without_them_keys_are_as_before() -> None:
    assert call_key("openai", "http://x", REQUEST, version=None, run_id="") == KEY
    assert call_key("openai", "http://x", REQUEST, key_part="", by_instance=False) == KEY
    options: list[dict[str, str]] = [
        {"version": "a"},
        {"version": "b"},
        {"run_id": "a"},
        {"run_id": "b"},
        {"run_id": "a", "version": "a"},
        {"key_part": "a"},
    ]
    keys = {call_key("openai", "http://x", REQUEST, **one) for one in options}
    assert len(keys | {KEY}) == len(options) + 1
