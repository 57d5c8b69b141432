import json

import pytest

from harness.plugins.completions.backend import OpenAICompletionsBackend
from harness.records import Decoding, Message, Origin, Reply, Request, Usage
from tests.backends.answering import answering, transient

REQUEST = Request(
    "davinci-002",
    (Message("user", "Translate."), Message("user", "input: X\noutput:")),
    Decoding(0.0, 16, stop=("\n\n",)),
    0,
    Origin("a", 0, 1),
    seed=7,
)


async def ask(url: str) -> Reply:
    backend = OpenAICompletionsBackend(None, url, secret=str, concurrency=1, timeout_s=5)
    try:
        return await backend.generate(REQUEST)
    finally:
        await backend.aclose()


async def test_the_messages_are_one_prompt_and_the_answer_is_its_continuation() -> None:
    body = {
        "choices": [{"text": " Y", "finish_reason": "length"}],
        "model": "m1",
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    }
    with answering(json.dumps(body)) as (url, received):
        reply = await ask(url)
    head, _, sent = received[0].partition(b"\r\n\r\n")
    assert b"POST /v1/completions " in head
    assert json.loads(sent) == {
        "model": "davinci-002",
        "prompt": "Translate.\n\ninput: X\noutput:",
        "temperature": 0.0,
        "max_tokens": 16,
        "stop": ["\n\n"],
        "seed": 7,
    }
    assert reply == Reply(" Y", "length", Usage(9, 1), "m1")


@pytest.mark.parametrize("body", ["", "{}", '{"choices": []}', '{"choices": [{"text": null}]}'])
async def test_a_body_that_is_no_completion_is_malformed(body: str) -> None:
    with answering(body) as (url, _), transient("malformed"):
        await ask(url)


def test_it_takes_no_conversation() -> None:
    backend = OpenAICompletionsBackend(None, "http://x/v1", secret=str, concurrency=1, timeout_s=5)
    assert "conversation" not in backend.features
