"""One job in the harness, Inspect AI, promptfoo and lm-evaluation-harness, against one server.

The job has 1,000 rows ("What is 100 + 37?"), 50 calls in flight and an exact score. The server runs
on loopback in this process, answers correctly after about 100 ms, and records each call. Every run
has its own empty folder for runs, logs and caches. Tools without a command are left out.

    python scripts/bench_peers.py --inspect PATH --promptfoo PATH --lm-eval PATH
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import logging
import math
import os
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

IN_FLIGHT = 50
MEAN_S = 0.1
SIGMA = 0.5
TOKENS = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
USD_PER_CALL = 25e-6  # at $1 for a million tokens
LIMIT_S = 900.0  # for one command


class Ledger:
    """An OpenAI-compatible server in a thread. It records what it received and answered."""

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.clear()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, daemon=True).start()
        self._ready.wait(10)
        logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # killed clients

    def clear(self) -> None:
        self.received = 0
        self.failed = 0
        self.answers: Counter[str] = Counter()

    @property
    def answered(self) -> int:
        return self.answers.total()

    @property
    def in_flight(self) -> int:
        return self.received - self.failed - self.answered

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"

    async def _chat(self, request: web.Request) -> web.Response:
        # aiohttp finishes a call whose client has gone: a provider bills it, too.
        content = (await request.json())["messages"][-1]["content"]
        prompt = content if isinstance(content, str) else content[0]["text"]
        self.received += 1
        seconds = random.Random(prompt).lognormvariate(math.log(MEAN_S) - SIGMA**2 / 2, SIGMA)
        await asyncio.sleep(seconds)
        if prompt in self.failing:
            self.failed += 1
            return web.json_response({"error": {"message": "Internal error"}}, status=500)
        self.answers[prompt] += 1
        answer = str(sum(map(int, re.findall(r"\d+", prompt))))
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "r", "object": "chat.completion", "created": 0, "model": "gpt-4o-mini"}
        return web.json_response(reply | {"choices": [choice], "usage": TOKENS})


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    seconds: float
    cpu_s: float
    output: str
    in_flight: int  # calls that the server was answering when the command was killed

    def find(self, pattern: str) -> str | None:
        """Return what the last match of a pattern in the output captures."""
        matches: list[str] = re.findall(pattern, self.output)
        return matches[-1] if matches else None


@dataclass(frozen=True)
class Tool:
    """A tool, its files and commands for the job, with options from its documentation."""

    name: str
    files: dict[str, str]
    run: str
    accuracy: str  # a pattern of the printed accuracy
    failures: str  # a pattern of the printed number of failed rows
    resume: list[str] = field(default_factory=list)  # commands after a crash; none: `run`
    durable: str = ""  # makes a run resumable, where it is not by default
    cache: str = ""  # turns the cache on, where it is off by default
    tries: str = ""  # ends the retries of a failing call
    tolerate: str = ""  # continues after a failed row, where this is not the default
    cap: str = ""  # limits the cost
    version: str = "{tool} --version"


HARNESS = Tool(
    name="harness",
    files={
        "addition.yaml": """
task: {path: rows.csv, prompt: "{{ question }}", checks: [numeric_match]}
model: {backend: openai, name: gpt-4o-mini, price: {input: 1, output: 1}}
decoding: {max_tokens: 16}
"""
    },
    run="{tool} run addition.yaml -o model.base_url={url} -o limits.concurrency=50",
    accuracy=r"pass rate +([\d.]+)",
    failures=r"not judged +(\d+)",
    tries="-o limits.attempts=3",
    cap="-o budget.usd={usd}",
)
INSPECT = Tool(
    name="Inspect AI",
    files={
        "prices.json": """
{"openai/gpt-4o-mini": {"input": 1, "output": 1, "input_cache_write": 0, "input_cache_read": 0}}
""",
        "addition.py": """
from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, csv_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@task
def addition():
    rows = csv_dataset("rows.csv", FieldSpec(input="question", target="target", id="id"))
    return Task(dataset=rows, solver=generate(), scorer=match(numeric=True))
""",
    },
    run="{tool} eval addition.py --model openai/gpt-4o-mini -M responses_api=false "
    "--model-base-url {url} --max-connections 50 --display plain",
    accuracy=r"\naccuracy +([\d.]+)",
    failures=r"WARNING: (\d+) of \d+ executed samples",
    resume=["{tool} log recover {log} --overwrite", "{tool} eval-retry {log} --display plain"],
    cache="--cache 1D",
    tries="--max-retries 2",
    tolerate="--no-fail-on-error",
    cap="--cost-limit {usd} --model-cost-config prices.json",
)
PROMPTFOO = Tool(
    name="promptfoo",
    files={
        "promptfooconfig.yaml": """
prompts: ["{{question}}"]
providers: ["openai:chat:gpt-4o-mini"]
tests: file://rows.csv
defaultTest: {assert: [{type: equals, value: "{{target}}"}]}
"""
    },
    run="{tool} eval -j 50 --no-table --no-progress-bar",
    accuracy=r"passed \(([\d.]+%)\)",
    failures=r"(\d+) errors",
    resume=["{tool} eval -j 50 --no-table --no-progress-bar --resume"],
)
LM_EVAL = Tool(
    name="lm-eval",
    files={
        "addition.yaml": """
task: addition
dataset_path: csv
dataset_kwargs: {data_files: {test: rows.csv}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{target}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 16}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
    },
    run="{tool} run --model local-chat-completions --model_args "
    "model=gpt-4o-mini,base_url={url}/chat/completions,num_concurrent=50,max_retries=3,"
    "tokenized_requests=False --include_path . --tasks addition --apply_chat_template",
    accuracy=r"exact_match *\|[^|]*\| *([\d.]+)",
    failures=r"(\d+) (?:errors|failed)",
    durable="--use_cache replies",
    cache="--use_cache replies",
    version="{python} -c 'from importlib.metadata import version as v; print(v(\"lm_eval\"))'",
)


def environment(folder: Path, url: str) -> dict[str, str]:
    """Settings under which a tool writes into the folder only, and reports to nobody."""
    variables = {"PATH": os.environ["PATH"], "NO_COLOR": "1"}
    variables |= {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": url}
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        variables[name] = str(folder / "home")
    for name in ("HARNESS_RUNS_DIR", "HARNESS_CACHE_DIR", "PROMPTFOO_CONFIG_DIR"):
        variables[name] = str(folder / name.lower())
    for name in ("DO_NOT_TRACK", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        variables[name] = "1"
    for name in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION"):
        variables[f"PROMPTFOO_DISABLE_{name}"] = "1"
    return variables


class Bench:
    """Measures the cells of the table. `commands` has the command of each tool."""

    def __init__(self, rows: int, commands: dict[str, str]) -> None:
        self.rows = []
        for number in range(rows):
            left = 100 + number
            right = 37 + number * 7 % 900
            self.rows.append((f"r{number}", f"What is {left} + {right}?", left + right))
        self.commands = commands
        self.ledger = Ledger()

    @contextlib.contextmanager
    def folder(self, tool: Tool) -> Iterator[Path]:
        """A folder with the files of the job only, and a ledger without entries."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name).resolve()
            (folder / "home").mkdir()
            with (folder / "rows.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("id", "question", "target"), *self.rows])
            for file_name, text in tool.files.items():
                (folder / file_name).write_text(text)
            self.ledger.clear()
            yield folder

    def execute(self, tool: Tool, folder: Path, template: str, kill_at: int | None = None) -> Done:
        """Run a command to its end, or kill its processes after a number of answers.

        Raises:
            TimeoutError: If it runs for too long. It is killed.
        """
        command = self.commands[tool.name]
        words = {
            "tool": command,
            "python": Path(command).with_name("python"),
            "url": self.ledger.url,
            "log": next(folder.glob("logs/*.eval"), ""),
            "usd": len(self.rows) * USD_PER_CALL / 2,
        }
        started = time.monotonic()
        with (folder / "output").open("w+") as output:
            process = subprocess.Popen(
                shlex.split(template.format(**words)),
                cwd=folder,
                env=environment(folder, self.ledger.url),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            pid = in_flight = 0
            late = False
            while not pid:
                late = time.monotonic() - started > LIMIT_S
                wait = os.WNOHANG
                if late or (kill_at is not None and self.ledger.answered >= kill_at):
                    in_flight = self.ledger.in_flight
                    os.killpg(process.pid, signal.SIGKILL)
                    wait = 0
                pid, status, usage = os.wait4(process.pid, wait)
                time.sleep(0.002)
            process.returncode = os.waitstatus_to_exitcode(status)
            if late:
                raise TimeoutError(f"{tool.name} took over {LIMIT_S} s: {template}")
            seconds = time.monotonic() - started
            output.seek(0)
            return Done(seconds, usage.ru_utime + usage.ru_stime, output.read(), in_flight)

    def finish(self, tool: Tool, folder: Path, template: str) -> Done:
        """Run a command that must score all rows as correct."""
        done = self.execute(tool, folder, template)
        if printed(tool, done) != "1.00":
            raise SystemExit(f"{tool.name} has no accuracy of 1:\n{done.output[-3000:]}")
        return done

    def timed(self, tools: list[Tool], repeats: int) -> dict[str, tuple[float, float]]:
        """Return each tool's median of elapsed and of CPU seconds. The tools take turns."""
        runs: dict[str, list[Done]] = {tool.name: [] for tool in tools}
        for _ in range(repeats):
            for tool in tools:
                with self.folder(tool) as folder:
                    runs[tool.name].append(self.finish(tool, folder, tool.run))
        medians = {}
        for name, results in runs.items():
            seconds = statistics.median(done.seconds for done in results)
            medians[name] = (seconds, statistics.median(done.cpu_s for done in results))
        return medians

    def again(self, tool: Tool) -> str:
        """Run the same command twice, and return the calls of the second one."""
        with self.folder(tool) as folder:
            command = f"{tool.run} {tool.cache}"
            self.finish(tool, folder, command)
            self.ledger.clear()
            self.finish(tool, folder, command)
            return f"{self.ledger.received:,}" + noted(tool.cache)

    def killed(self, tool: Tool) -> str:
        """Kill the job half-way, and resume it: return how many calls were answered in all."""
        with self.folder(tool) as folder:
            command = f"{tool.run} {tool.durable}"
            killed = self.execute(tool, folder, command, kill_at=len(self.rows) // 2)
            time.sleep(2)  # the server finishes the calls in flight
            for template in tool.resume or [command]:
                done = self.execute(tool, folder, template)
            finished = "" if printed(tool, done) == "1.00" else ", not finished"
            return f"{self.ledger.answered:,} ({killed.in_flight} in flight){finished}"

    def failing(self, tool: Tool, options: str = "") -> str:
        """5% of the calls always fail: return the printed accuracy and count of failures."""
        self.ledger.failing = {question for _, question, _ in self.rows[7::20]}
        with self.folder(tool) as folder:
            done = self.execute(tool, folder, f"{tool.run} {tool.tries} {options}")
        self.ledger.failing = set()
        accuracy = printed(tool, done)
        if accuracy is None:
            return "ends" + noted(options)
        failures = done.find(tool.failures)
        count = f"{failures} failed" if failures else "no count"
        return f"{accuracy}, {count}" + noted(options)

    def capped(self, tool: Tool) -> str:
        """Return how many calls were answered within a budget of half of the job's price."""
        if not tool.cap:
            return "no cap"
        with self.folder(tool) as folder:
            self.execute(tool, folder, f"{tool.run} {tool.cap}")
            return f"{self.ledger.answered:,}"

    def column(
        self, tool: Tool, medians: tuple[float, float], reference: tuple[float, float]
    ) -> list[str]:
        """Return the cells of a tool."""
        with self.folder(tool) as folder:
            version = self.execute(tool, folder, tool.version).output.split()[-1]
        cells = [f"{tool.name} {version}"]
        for value, base in zip(medians, reference, strict=True):
            cells.append(f"{value:.1f} ({value / base:.1f})")
        failing = self.failing(tool)
        if tool.tolerate:
            failing += "; " + self.failing(tool, tool.tolerate)
        cells += [self.again(tool), self.killed(tool), failing, self.capped(tool)]
        print(" | ".join(cells), file=sys.stderr, flush=True)
        return cells


def printed(tool: Tool, done: Done) -> str | None:
    """Return the accuracy that a tool has printed, as a share."""
    accuracy = done.find(tool.accuracy)
    if accuracy is None:
        return None
    share = float(accuracy.rstrip("%"))
    if accuracy.endswith("%"):
        share /= 100
    return f"{share:.2f}"


def noted(options: str) -> str:
    return f" with `{options}`" if options else ""


LABELS = (
    "seconds (ratio)",
    "CPU seconds (ratio)",
    "calls, same command again",
    "answers paid for, `kill -9` half-way and resumed",
    "accuracy printed, 5% of calls fail",
    "calls with a budget of half the price",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3, help="of the timed job (default: 3)")
    parser.add_argument("--inspect", metavar="COMMAND", help="such as /path/bin/inspect")
    parser.add_argument("--promptfoo", metavar="COMMAND", help="such as /path/bin/promptfoo")
    parser.add_argument("--lm-eval", metavar="COMMAND", help="such as /path/bin/lm_eval")
    options = parser.parse_args()
    commands = {
        HARNESS.name: f"{sys.executable} -m harness",
        INSPECT.name: options.inspect,
        PROMPTFOO.name: options.promptfoo,
        LM_EVAL.name: options.lm_eval,
    }
    tools = [tool for tool in (HARNESS, INSPECT, PROMPTFOO, LM_EVAL) if commands[tool.name]]
    bench = Bench(options.rows, commands)
    medians = bench.timed(tools, options.repeats)
    columns = [bench.column(tool, medians[tool.name], medians["harness"]) for tool in tools]
    for number, label in enumerate((f"{options.rows:,} rows", *LABELS)):
        print(f"| {label} |", " | ".join(cells[number] for cells in columns), "|")
        if number == 0:
            print("|---" * (len(tools) + 1) + "|")


if __name__ == "__main__":
    main()
