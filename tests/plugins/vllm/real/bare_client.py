"""What a script of one's own would do: the official SDK, some calls at a time, and nothing else.

    python bare_client.py BASE_URL PROMPTS CONCURRENCY MAX_TOKENS

Prints seconds and tokens.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from openai import AsyncOpenAI, DefaultAioHttpClient


async def ask_all(url: str, prompts: list[str], concurrency: int, max_tokens: int) -> None:
    async with AsyncOpenAI(
        base_url=url, api_key="none", max_retries=0, http_client=DefaultAioHttpClient()
    ) as client:
        numbered = iter(enumerate(prompts))
        tokens = 0

        async def work() -> None:
            nonlocal tokens
            for seed, prompt in numbered:
                reply = await client.chat.completions.create(
                    model="tiny",
                    messages=[{"role": "user", "content": prompt}],
                    max_tokens=max_tokens,
                    temperature=1.0,
                    seed=seed,
                )
                assert reply.usage
                tokens += reply.usage.completion_tokens

        begin = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        print(time.perf_counter() - begin, tokens)


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[2]).read_text())
    asyncio.run(ask_all(sys.argv[1], asked, int(sys.argv[3]), int(sys.argv[4])))
