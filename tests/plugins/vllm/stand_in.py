"""A program in the place of vLLM's server: the loopback provider behind vLLM's command line.

    HARNESS_VLLM_COMMAND="python tests/plugins/vllm/stand_in.py"

What else it does is said by arguments that vLLM does not have (a run file's ``engine:`` gives
them): `journal` is a file to which it adds a line for its start (with its arguments), for each
request, for the child that it leaves behind, and for its death.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from harness.plugins.mock.answers import Answer, invented
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--lora-modules", default="")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--dies-at", type=int, help="request of each life that kills it")
    parser.add_argument("--lives", type=int, default=1, help="so many lives end so")
    parser.add_argument("--dies-of", help="prompts with this text kill it, in every life")
    parser.add_argument("--no-start", action="store_true", help="it says why, and ends")
    parser.add_argument("--never-again", action="store_true", help="no-start, but the first time")
    parser.add_argument("--port-taken", action="store_true", help="no-start, the first time")
    parser.add_argument("--stays-silent", action="store_true", help="it never listens")
    parser.add_argument("--leaves-a-child", action="store_true")
    parser.add_argument("--answer", default="")
    parser.add_argument("--fault", help="every answer is this one of the mock server's faults")
    given, _ = parser.parse_known_args()

    def tell(**line: Any) -> None:
        if given.journal:
            with given.journal.open("a") as journal:
                journal.write(json.dumps({"pid": os.getpid(), **line}) + "\n")

    lives = 0
    if given.journal and given.journal.exists():
        lives = given.journal.read_text().count('"starts"')
    tell(
        starts=sys.argv[1:],
        gpus=os.environ.get("CUDA_VISIBLE_DEVICES"),
        port=given.port,
        at=time.monotonic(),
    )
    if given.no_start or (given.never_again and lives):
        print("RuntimeError: out of memory, says the stand-in", file=sys.stderr)
        sys.exit(1)
    if given.port_taken and not lives:
        print("OSError: [Errno 98] Address already in use", file=sys.stderr)
        sys.exit(1)
    if given.leaves_a_child:
        tell(child=subprocess.Popen(["sleep", "600"]).pid)
    if given.stays_silent:
        time.sleep(600)

    seen = 0

    def die() -> None:
        tell(dies=True, in_flight=server.stats().in_flight)
        os.kill(os.getpid(), signal.SIGKILL)

    def answer(ask: MockRequest, index: int) -> str | Answer:
        nonlocal seen
        seen += 1
        tell(asked=ask.digest, at=time.monotonic())
        if seen == given.dies_at and lives < given.lives:
            die()
        if given.dies_of and given.dies_of in ask.prompt:
            die()
        return given.answer or invented(ask, index)

    names = [given.served_model_name, given.lora_modules.partition("=")[0]]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server = MockServer(
        host=given.host,
        port=given.port,
        latency=given.latency,
        api_key=os.environ.get("VLLM_API_KEY"),
        answers=answer,
        faults={given.fault: 1.0} if given.fault else {},
        models=[name for name in names if name],
    )
    with server:
        print("listening", flush=True)
        ended.wait()
    tell(ends=True)


if __name__ == "__main__":
    main()
