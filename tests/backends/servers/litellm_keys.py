"""Keys of LiteLLM's proxy without a database: ``sk-parallel-N`` allows N calls at once."""

from fastapi import Request
from litellm.proxy._types import UserAPIKeyAuth


async def authenticate(request: Request, api_key: str) -> UserAPIKeyAuth:
    limit = api_key.partition("-parallel-")[2]
    return UserAPIKeyAuth(api_key=api_key, max_parallel_requests=int(limit) if limit else None)
