"""A Ray Serve application with OpenAI's protocol: serve_app.py PORT UPSTREAM.

It passes requests on to another server. Its model ``greedy`` ignores the parameters of sampling,
log-probabilities and schemas, as some local servers do.
"""

import os
import signal
import sys
from typing import Any

import aiohttp
import ray
from fastapi import FastAPI, Request, Response
from ray import serve

IGNORED = ("temperature", "seed", "logprobs", "top_logprobs", "response_format")
app = FastAPI()


@serve.deployment(max_ongoing_requests=3, max_queued_requests=3)
@serve.ingress(app)
class Chat:
    """The model: a process that Serve starts again when it dies."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    @app.get("/process")
    def process(self) -> int:
        return os.getpid()

    @app.post("/v1/chat/completions")
    async def complete(self, request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        if body["model"] == "greedy":
            body = {name: value for name, value in body.items() if name not in IGNORED}
        url = f"{self._upstream}/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as reply:
            return Response(await reply.read(), reply.status, media_type=reply.content_type)


if __name__ == "__main__":
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80_000_000,
        _node_ip_address="127.0.0.1",
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Chat.bind(sys.argv[2]))
    signal.sigwait([signal.SIGTERM])
