"""`harness mock`: a simulated provider on the loopback interface, for rehearsals."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Limit
from harness.errors import ConfigError


def mock(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8077,
    latency: str = "0",
    fault: Annotated[list[str] | None, typer.Option(metavar="NAME=PROBABILITY")] = None,
    fault_on: Annotated[list[str] | None, typer.Option(metavar="TEXT")] = None,
    seed: int = 0,
    answers: Path | None = None,
    api_key: str | None = None,
    model: list[str] | None = None,
    rpm: Limit = None,
    tpm: Limit = None,
    input_tpm: Limit = None,
    output_tpm: Limit = None,
    max_parallel: Limit = None,
    retry_after: Annotated[float, typer.Option(min=0)] = 1.0,
    reasoning: Annotated[str | None, typer.Option(metavar="FORM")] = None,
    refuse: Annotated[list[str] | None, typer.Option(metavar="PARAMETER")] = None,
    batch_latency: str = "0",
    batch_fault: Annotated[list[str] | None, typer.Option(metavar="NAME=PROBABILITY")] = None,
    enqueued_tokens: Limit = None,
) -> None:
    """Serve a simulated provider on this machine: calls and batches of OpenAI and others.

    Prints its base URL when it is ready: use this URL as model.base_url in a run file (without /v1
    for the backend anthropic). GET /stats returns counters and peak_per_minute, the maximum
    requests and tokens in any 60 seconds. POST /faults changes faults, latency and limits. Ctrl-C
    ends the server.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 uses any free port.
        latency: Time to answer in seconds: SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA.
        fault: Make a share of requests fail; repeatable. Names: HTTP statuses such as 429 and 500,
            reset, stall, truncated_body, error_body, no_credit, finish:REASON, empty, refusal, and
            many more (harness docs mock). A retried request may succeed.
        fault_on: Let only prompts that contain this text fail; repeatable.
        seed: Seed of faults and latencies.
        answers: JSONL of {"prompt": …, "text": …}; prompt is the last user message or the whole
            list of messages. Any other prompt gets a 400. Default: made-up sentences.
        api_key: The only valid key; any other gets a 401.
        model: A known model; repeatable. Any other gets a 404.
        rpm: Maximum requests per model in any 60 seconds.
        tpm: Maximum tokens per model in any 60 seconds.
        input_tpm: Maximum input tokens per model in any 60 seconds.
        output_tpm: Maximum output tokens per model in any 60 seconds.
        max_parallel: Maximum requests per model at any moment. Any other gets a 429 at once.
        retry_after: Retry-After header of a 429 by --fault or --max-parallel, in seconds; 0 sends
            none.
        reasoning: Return reasoning as: think (<think>…</think> in the text), field
            (reasoning_content and reasoning of a chat message) or blocks (Anthropic's).
        refuse: A parameter that the model rejects with a 400, or schema:KEYWORD for schemas
            (decoding.constraint) with this keyword; repeatable.
        batch_latency: Time until a batch has ended, like --latency.
        batch_fault: Make a share of batches fail; repeatable. Names: lost_id, unlisted, late,
            poll_500, expired, duplicated, damaged, foreign, gzip_bomb (harness docs mock). --fault
            fails single requests of a batch.
        enqueued_tokens: Maximum input tokens in OpenAI's unfinished batches.
    """
    # Imported here: uvicorn is slow to import, and --help needs none of it.
    from harness.plugins.mock.faults import parse_shares
    from harness.plugins.mock.server import MockServer
    from harness.plugins.mock.wire import MockError

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        server = MockServer(
            host=host,
            port=port,
            latency=latency,
            faults=parse_shares(fault or []),
            fault_on=fault_on or (),
            seed=seed,
            answers=answers,
            api_key=api_key,
            models=model or (),
            requests_per_minute=rpm,
            tokens_per_minute=tpm,
            input_tokens_per_minute=input_tpm,
            output_tokens_per_minute=output_tpm,
            parallel_requests=max_parallel,
            retry_after=retry_after or None,
            reasoning=reasoning,
            refuse=refuse or (),
            batch_faults=parse_shares(batch_fault or []),
            batch_latency=batch_latency,
            enqueued_tokens=enqueued_tokens,
        )
        with server:
            typer.echo(server.base_url)
            ended.wait()
    except MockError as error:
        raise ConfigError(str(error)) from None
