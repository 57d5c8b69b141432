"""What Anthropic's API shares with the other APIs over HTTP."""

from __future__ import annotations

import json

from harness.plugins.anthropic.backend import AnthropicBackend
from harness.ports import CONSTRAINTS
from tests.backends.answering import answering
from tests.backends.test_bodies import EACH, OPTIONS, SCHEMA, held_to, sent_in
from tests.backends.test_http import check_query


async def test_the_schema_is_sent() -> None:
    body = json.dumps(
        {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "model": "m"}
    )
    with answering(body) as (url, received):
        backend = AnthropicBackend(base_url=url.removesuffix("/v1"), **OPTIONS)
        await backend.generate(held_to(EACH["json_schema"]))
        await backend.aclose()
    output_config = sent_in(received)["output_config"]
    assert output_config == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert backend.features & CONSTRAINTS == {"json_schema"}
    older = AnthropicBackend("2023-06-01", **OPTIONS)
    assert not older.features & CONSTRAINTS


async def test_the_query_of_a_base_url_is_sent_with_each_request() -> None:
    await check_query(AnthropicBackend)
