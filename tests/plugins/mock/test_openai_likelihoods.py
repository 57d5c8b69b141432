from itertools import accumulate

import httpx2
import openai
import pytest

from harness.plugins.mock.openai import END, Vocabulary, tokenise
from harness.plugins.mock.server import MockServer

TEXTS = ["Is 7 prime? Yes", "Is 7 prime? Surely, naïve Zoë.", f"{END}Yes"]
ECHO = {"max_tokens": 1, "logprobs": 1, "echo": True}


async def echoed(server: MockServer, prompt: str | list[str]) -> openai.types.Completion:
    client = openai.AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=0)
    async with client:
        return await client.completions.create(model="m", prompt=prompt, **ECHO)  # type: ignore[call-overload,no-any-return]


async def test_texts_are_echoed_with_the_log_probabilities_of_their_tokens() -> None:
    with MockServer() as server:
        reply = await echoed(server, TEXTS)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    for text, choice in zip(TEXTS, reply.choices, strict=True):
        found = choice.logprobs
        assert found is not None
        assert found.tokens is not None
        assert found.tokens[:-1] == tokenise(text)
        assert choice.text == "".join(found.tokens)
        lengths = map(len, found.tokens[:-1])
        assert found.text_offset == list(accumulate(lengths, initial=0))
        assert found.token_logprobs is not None
        assert found.top_logprobs is not None
        assert found.token_logprobs[0] is found.top_logprobs[0] is None
        rest = zip(found.tokens[1:], found.token_logprobs[1:], found.top_logprobs[1:], strict=True)
        for token, logprob, top in rest:
            assert top[token] == logprob <= max(top.values()) <= 0
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 3


async def test_a_text_has_the_same_numbers_whatever_it_is_sent_with() -> None:
    with MockServer() as server:
        together, alone = await echoed(server, TEXTS), await echoed(server, TEXTS[1])
    assert together.choices[1].logprobs == alone.choices[0].logprobs
    first, second = (choice.logprobs for choice in together.choices[:2])
    assert first is not None
    assert second is not None
    assert first.token_logprobs is not None
    assert second.token_logprobs is not None
    shared = len(tokenise("Is 7 prime?"))
    assert first.token_logprobs[:shared] == second.token_logprobs[:shared]
    assert first.token_logprobs[shared] != second.token_logprobs[shared]


@pytest.mark.parametrize("text", ["", "a  b\n\nc", "naïve Zoë, 你好—{}", END + END + " x"])
def test_tokens_are_the_text(text: str) -> None:
    assert "".join(tokenise(text)) == text
    vocabulary = Vocabulary()
    numbers = vocabulary.encode("before " + text)
    assert vocabulary.decode(numbers) == "before " + text
    assert vocabulary.encode("before " + text) == numbers


async def test_the_tokenizer_has_the_endpoints_of_vllm() -> None:
    with MockServer() as server:
        async with httpx2.AsyncClient(base_url=server.url, verify=False) as client:
            asked = {"prompt": TEXTS[1], "add_special_tokens": False}
            tokens = (await client.post("/tokenize", json=asked)).json()["tokens"]
            text = (await client.post("/detokenize", json={"tokens": tokens})).json()["prompt"]
            info = (await client.get("/tokenizer_info")).json()
    assert (text, info["eos_token"]) == (TEXTS[1], END)
