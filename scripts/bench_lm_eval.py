"""Documents per second of lm-eval's tasks: the harness beside lm-eval's own client.

Both evaluate the same local tasks against one mock server, in turn; each evaluation is a process of
its own. lm-eval uses ``local-completions`` with several numbers of concurrent requests, of which
the best counts, as it does for the harness. Each is tried with one prompt per HTTP request (the
default of both) and, if the task generates, with several (``prompts_per_request``; lm-eval's
``batch_size``).

Each process first evaluates a few documents, which imports what it needs. "Calls" is the time from
the first request to the last answer: lm-eval tokenises before it and scores after it, whereas the
harness scores, caches and records each answer in between. "All" is the whole evaluation. "CPU" is
that of the client in all. The best of several rounds counts.

    .venv-exchange/bin/python scripts/bench_lm_eval.py [DOCUMENTS [ROUNDS [TASK...]]]
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

CONCURRENCY = (50, 200, 1000)  # of HTTP requests
SEVERAL = 50  # prompts per request
MOST_PROMPTS = 5000  # in flight
LATENCY = "0.05"
GENERATE = """output_type: generate_until
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 32}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
doc_to_target: "{{answer}}"
"""
CHOOSE = """output_type: multiple_choice
doc_to_choice: ["one", "two", "three", "four"]
doc_to_target: 0
metric_list: [{metric: acc}]
"""
COMMON = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
"""


class Measured(NamedTuple):
    """Seconds of an evaluation."""

    calls: float
    all: float
    cpu: float


def serve(connection: Any) -> None:
    from harness.plugins.mock.server import MockServer

    with MockServer(latency=LATENCY) as server:
        connection.send(server.base_url)
        connection.recv()


def theirs(task: str, folder: Path, url: str, concurrent: int, prompts: int) -> Measured:
    logging.disable(logging.WARNING)
    from lm_eval import simple_evaluate
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks import TaskManager

    class Timed(LocalCompletionsAPI):
        calls_s = 0.0

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
            begun = time.monotonic()
            found = super().generate_until(requests, disable_tqdm)
            self.calls_s = time.monotonic() - begun
            return found

        def _loglikelihood_tokens(self, requests: Any, **options: Any) -> Any:
            begun = time.monotonic()
            found = list(super()._loglikelihood_tokens(requests, **options))
            self.calls_s = time.monotonic() - begun
            return found

    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        model = Timed(
            base_url=f"{url}/completions",
            model="m",
            tokenizer_backend="remote",
            tokenized_requests=False,
            num_concurrent=concurrent,
            batch_size=prompts,
        )
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        begun, cpu = time.monotonic(), time.process_time()
        simple_evaluate(model, tasks=[task], task_manager=manager, bootstrap_iters=0)
        return Measured(model.calls_s, time.monotonic() - begun, time.process_time() - cpu)


def ours(task: str, folder: Path, url: str, concurrent: int, prompts: int) -> Measured:
    import openai  # noqa: F401 (not counted)
    import uvloop

    from harness.config.run_file import RunFile
    from harness.config.settings import Settings
    from harness.engine.executor import execute
    from harness.engine.preparation import prepare

    run = RunFile.model_validate(
        {
            "task": {"name": "lm_eval", "task": task, "include_path": str(folder)},
            "model": {
                "backend": "openai_completions",
                "name": "m",
                "base_url": url,
                "prompts_per_request": prompts,
            },
            "limits": {"concurrency": min(concurrent * prompts, MOST_PROMPTS)},
        }
    )
    with tempfile.TemporaryDirectory() as runs:
        settings = Settings(runs_dir=Path(runs), cache_dir=Path(runs) / "cache")
        begun, cpu = time.monotonic(), time.process_time()
        uvloop.run(execute(prepare(run, task, settings)))  # as `harness run` does
        whole, used = time.monotonic() - begun, time.process_time() - cpu
        lines = (Path(runs) / task / "attempts.jsonl").read_text().splitlines()
        attempts = [json.loads(line) for line in lines]
    first = min(one["started_at"] for one in attempts)
    return Measured(max(one["ended_at"] for one in attempts) - first, whole, used)


def alone(who: Callable[..., Measured], task: str, *given: Any) -> Measured:
    """Evaluate in a process of its own, which has evaluated a few documents before."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(who, f"few_{task}", *given).result()
        return pool.submit(who, task, *given).result()


def compare(task: str, folder: Path, url: str, documents: int, rounds: int) -> None:
    """Measure both with one and with several prompts per request, and print the comparison."""
    best: dict[tuple[str, int], Measured] = {}
    for _ in range(rounds):
        for prompts in (1, SEVERAL) if task == "generate" else (1,):
            for concurrent in CONCURRENCY:
                for who in (ours, theirs):
                    found = alone(who, task, folder, url, concurrent, prompts)
                    before = best.setdefault((who.__name__, prompts), found)
                    best[who.__name__, prompts] = Measured(*map(min, before, found))
    print(f"{task}, {documents:,} documents per second (best concurrency), ms of CPU per document")
    for (who, prompts), found in sorted(best.items()):
        rates = f"calls {documents / found.calls:7.0f}/s, all {documents / found.all:6.0f}/s"
        cpu = found.cpu / documents * 1000
        print(f"  {who:6} {prompts:3} prompts per request: {rates}, CPU {cpu:.2f} ms")
    for own, prompts in ((1, 1), (SEVERAL, 1), (SEVERAL, SEVERAL)):
        if {("ours", own), ("theirs", prompts)} <= best.keys():
            pairs = zip(best["theirs", prompts], best["ours", own], strict=True)
            calls, whole, cpu = (other / one for other, one in pairs)
            print(
                f"  harness with {own}, lm-eval with {prompts} prompts per request: "
                f"calls {calls:.1f} times, all {whole:.1f} times, CPU {cpu:.1f} times"
            )


def main(documents: int = 2000, rounds: int = 2, *tasks: str) -> None:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    server.start()
    url = here.recv()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HF_HOME"] = str(folder / "hf")
        (folder / "tasks").mkdir()
        known = {"generate": GENERATE, "choose": CHOOSE}
        for before, count in (("few_", 20), ("", documents)):
            data = folder / f"{before}data.json"
            lines = ({"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(count))
            data.write_text("".join(json.dumps(one) + "\n" for one in lines))
            for task, text in known.items():
                file = folder / f"tasks/{before}{task}.yaml"
                file.write_text(text + COMMON.format(name=before + task, data=data))
        for task in tasks or known:
            alone(ours, task, folder / "tasks", url, 10, 1)  # prepares the data
            compare(task, folder / "tasks", url, documents, rounds)
    here.send(None)
    server.join()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
