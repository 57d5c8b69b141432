"""`harness mock`: a provider on the loopback interface to rehearse with."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import ConfigError


def _tokens(which: str) -> Any:
    return typer.Option(help=f"{which} per model in any 60 seconds.", min=1)


def mock(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)
    ] = 8077,
    latency: Annotated[
        str,
        typer.Option(
            help="Time to answer: SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA.",
        ),
    ] = "0",
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PROBABILITY",
            help="Make a share of requests fail; repeatable. Names: 400, 429, 500, 503, 529, "
            "reset, stall, stall_body, trickle (a byte a second), truncated_body, invalid_json, "
            "empty, reasoning_only, refusal, content_filter, and those of a hostile server "
            "(docs/mock.md). A retried request is drawn again.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of faults and latencies.")] = 0,
    answers: Annotated[
        Path | None,
        typer.Option(
            help='JSONL of {"prompt": …, "text": …}; prompt is the last user message or the whole '
            "list of messages. Any other prompt gets a 400. Without it, made-up sentences.",
        ),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The only valid key; any other gets a 401.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A known model; repeatable. Any other gets a 404."),
    ] = None,
    rpm: Annotated[
        int | None, typer.Option(help="Requests per model in any 60 seconds.", min=1)
    ] = None,
    tpm: Annotated[int | None, _tokens("Tokens")] = None,
    input_tpm: Annotated[int | None, _tokens("Input tokens")] = None,
    output_tpm: Annotated[int | None, _tokens("Output tokens")] = None,
    retry_after: Annotated[
        float,
        typer.Option(
            help="Retry-After header of a simulated 429, in seconds; 0 sends none.", min=0
        ),
    ] = 1.0,
    reasoning: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="Return reasoning as: think (<think>…</think> in the text), "
            "field (reasoning_content and reasoning of a chat message) or blocks (Anthropic's).",
        ),
    ] = None,
    refuse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARAMETER",
            help="A parameter that the model rejects with a 400; repeatable.",
        ),
    ] = None,
) -> None:
    """Serve a simulated provider on this machine: OpenAI chat and completions, Anthropic messages.

    Prints its base URL once it listens: use it as model.base_url in a run file (without /v1 for
    the backend anthropic). GET /stats returns counters and peak_per_minute, the most requests in
    any 60 seconds; POST /faults changes faults, latency and limits. Ctrl-C ends it.
    """
    # Imported here: uvicorn is slow to import, and --help needs none of it.
    from harness.mock import MockError, MockServer
    from harness.mock.faults import parse_shares

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        server = MockServer(
            host=host,
            port=port,
            latency=latency,
            faults=parse_shares(fault or []),
            seed=seed,
            answers=answers,
            api_key=api_key,
            models=model or (),
            requests_per_minute=rpm,
            tokens_per_minute=tpm,
            input_tokens_per_minute=input_tpm,
            output_tokens_per_minute=output_tpm,
            retry_after=retry_after or None,
            reasoning=reasoning,
            refuse=refuse or (),
        )
        with server:
            typer.echo(server.base_url)
            ended.wait()
    except MockError as error:
        raise ConfigError(str(error)) from None
