"""Documents per second of lm-eval's tasks: the harness beside lm-eval's own client.

Both evaluate the same local tasks against one mock server, in turn; each evaluation is a process of
its own. lm-eval uses ``local-completions`` with several numbers of concurrent requests, of which
the best counts. "Calls" is the time from the first request to the last answer: lm-eval tokenises
before it and scores after it, whereas the harness scores in between. "All" is the whole evaluation
without imports.

    .venv-exchange/bin/python scripts/bench_lm_eval.py [DOCUMENTS]
"""

from __future__ import annotations

import asyncio
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
from typing import Any

CONCURRENCY = (50, 200, 1000)  # of lm-eval's requests
LATENCY = "0.05"
GENERATE = """task: generate
output_type: generate_until
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 32}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
doc_to_target: "{{answer}}"
"""
CHOOSE = """task: choose
output_type: multiple_choice
doc_to_choice: ["one", "two", "three", "four"]
doc_to_target: 0
metric_list: [{metric: acc}]
"""
COMMON = """dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
"""


def serve(connection: Any) -> None:
    from harness.mock import MockServer

    with MockServer(latency=LATENCY) as server:
        connection.send(server.base_url)
        connection.recv()


def theirs(task: str, folder: Path, url: str, concurrent: int) -> tuple[float, float]:
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
        )
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        begun = time.monotonic()
        simple_evaluate(model, tasks=[task], task_manager=manager, bootstrap_iters=0)
        return model.calls_s, time.monotonic() - begun


def ours(task: str, folder: Path, url: str, concurrent: int) -> tuple[float, float]:
    import lm_eval.evaluator  # noqa: F401 (not counted)

    from harness.config.run_file import RunFile
    from harness.config.settings import Settings
    from harness.run.job import execute, prepare

    run = RunFile.model_validate(
        {
            "task": {"name": "lm_eval", "task": task, "include_path": str(folder)},
            "model": {"backend": "openai_completions", "name": "m", "base_url": url},
            "limits": {"concurrency": concurrent},
        }
    )
    with tempfile.TemporaryDirectory() as runs:
        settings = Settings(runs_dir=Path(runs), cache_dir=Path(runs) / "cache")
        begun = time.monotonic()
        asyncio.run(execute(prepare(run, task, settings)))
        whole = time.monotonic() - begun
        lines = (Path(runs) / task / "attempts.jsonl").read_text().splitlines()
        attempts = [json.loads(line) for line in lines]
    first = min(one["started_at"] for one in attempts)
    return max(one["ended_at"] for one in attempts) - first, whole


def alone(who: Callable[..., tuple[float, float]], *given: Any) -> tuple[float, float]:
    """Evaluate in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(who, *given).result()


def main(documents: int = 2000) -> None:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    server.start()
    url = here.recv()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HF_HOME"] = str(folder / "hf")
        (folder / "tasks").mkdir()
        lines = ({"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(documents))
        (folder / "data.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
        common = COMMON.format(data=folder / "data.json")
        (folder / "tasks/generate.yaml").write_text(GENERATE + common)
        (folder / "tasks/choose.yaml").write_text(CHOOSE + common)
        for task in ("generate", "choose"):
            alone(ours, task, folder / "tasks", url, 10)  # prepares the data
            pairs = [
                tuple(alone(who, task, folder / "tasks", url, n) for who in (ours, theirs))
                for n in CONCURRENCY
            ]
            for part, what in enumerate(("calls", "all")):
                own, other = (min(pair[who][part] for pair in pairs) for who in (0, 1))
                rates = f"harness {documents / own:6.0f}/s, lm-eval {documents / other:6.0f}/s"
                print(
                    f"{task:9} {documents:,} documents, {what:6} {rates}, {other / own:5.1f} times"
                )
    here.send(None)
    server.join()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
