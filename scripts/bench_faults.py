"""Runs under faults, limits, kills and an outage: the server's counts against the promises.

Each run executes `harness run` in a separate process.

    python scripts/bench_faults.py faults       5,000 calls with faults, and without, at one rate
    python scripts/bench_faults.py limits       three minutes at 600 requests and 100,000 tokens
    python scripts/bench_faults.py kills        fifty times kill -9 with faults on
    python scripts/bench_faults.py outage       a server that is down for 20 s in the middle
    python scripts/bench_faults.py storm        300 kills and pauses of every kind of paid work
    python scripts/bench_faults.py cap          a budget of $10 with fifty kills
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from rich.console import Console
from rich.table import Table

from harness.plugins.mock.answers import Answer
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.stats import BodyCount
from harness.plugins.mock.wire import MockRequest
from harness.records import Reply

FAULTS = {
    "429": 0.10,
    "500": 0.03,
    "reset": 0.02,
    "stall": 0.01,
    "invalid_json": 0.01,
    "empty": 0.01,
}
STORM_FAULTS = {
    **{"429": 0.04, "500": 0.04, "503": 0.03, "reset": 0.03, "truncated_body": 0.02},
    **{"invalid_json": 0.02, "empty": 0.01, "html": 0.01},
}
ROOT = Path(__file__).parents[1]
HARNESS = (sys.executable, "-m", "harness")
console = Console()

sys.path.append(str(ROOT))
from tests.plugins.builders.wildifeval.synthetic_chats import answer as build_reply  # noqa: E402
from tests.plugins.builders.wildifeval.synthetic_chats import write_chats  # noqa: E402

DIGITS = "0123456789abcdef"
SPACES = "\t \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u3000"


def marked(text: str, ask: MockRequest) -> str:
    """Add the digest of a request, in spaces, which every reader of an answer ignores."""
    return text + ask.digest.translate(str.maketrans(DIGITS, SPACES))


class Place:
    """A folder with runs and cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "HARNESS_RUNS_DIR": str(folder / "runs"),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "OPENAI_API_KEY": "sk-none",
        }

    def begin(self, url: str, name: str, *options: str) -> subprocess.Popen[str]:
        settings = [f"model.base_url={url}", "task.dataset=builtin", *options]
        words = [word for setting in settings for word in ("-o", setting)]
        return self.start("run", "configs/gpt4_collie.yaml", "--name", name, *words)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*HARNESS, *map(str, words)],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, url: str, name: str, *options: str, most_s: float = 600) -> int:
        """Return the exit code, printing the output of a failed run."""
        process = self.begin(url, name, *options)
        _, said = process.communicate(timeout=most_s)
        if process.returncode not in (0, 1):
            console.print(said)
        return process.returncode

    def attempts(self, name: str) -> list[dict[str, Any]]:
        file = self.folder / "runs" / name / "attempts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]

    def kept(self) -> Counter[str]:
        """Count the replies in the cache, by the digest that their texts are `marked` with."""
        with closing(sqlite3.connect(self.folder / "cache" / "replies.sqlite")) as file:
            rows = file.execute("SELECT reply FROM replies").fetchall()
        texts = [msgspec.msgpack.decode(row[0], type=Reply).text for row in rows]
        return Counter(text[-16:].translate(str.maketrans(SPACES, DIGITS)) for text in texts)

    def seconds_of_calls(self, name: str) -> float:
        lines = self.attempts(name)
        return max(a["ended_at"] for a in lines) - min(a["started_at"] for a in lines)


@contextmanager
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        yield Place(Path(folder))


class Checks:
    """A table of what was found, and whether it holds."""

    def __init__(self, title: str) -> None:
        self.table, self.failed = Table("what", "found", "holds", title=title), False

    def __call__(self, what: str, found: object, holds: bool = True) -> None:
        self.table.add_row(what, str(found), "yes" if holds else "NO")
        self.failed |= not holds


def wait(process: subprocess.Popen[str], true: Callable[[], object]) -> None:
    """Wait until something is true, or the process has ended."""
    while not true() and process.poll() is None:
        time.sleep(0.001)


def faults() -> Checks:
    """5,070 calls at 6,000 requests a minute, with faults and without."""
    check, rates = Checks("5,070 calls, 6,000 rpm, 50 ms"), {}
    options = ("samples=39", "limits.rpm=6000", "limits.concurrency=100", "limits.timeout_s=5")
    for name, mix in (("well", {}), ("faulty", FAULTS)):
        of_server = {"latency": 0.05, "faults": mix, "requests_per_minute": 6000}
        with place() as here, MockServer(**of_server) as server:
            code = here.run(server.base_url, name, *options)
            stats, lines = server.stats(), here.attempts(name)
            rates[name] = len(lines) / here.seconds_of_calls(name)
            twice = [body for body in server.bodies().values() if body.answered > 1]
            outcomes = dict(Counter(line["outcome"] for line in lines))
            keys = {(line["instance"], line["sample"], line["round"]) for line in lines}
            check(f"{name}: ends by itself, exit code", code, code in (0, 1))
            check(f"{name}: attempts by outcome", outcomes, len(lines) == 5070)
            check(f"{name}: keys twice", len(lines) - len(keys), len(lines) == len(keys))
            check(f"{name}: calls made again after a usable answer", len(twice), not twice)
            check(f"{name}: requests, by status", f"{stats.requests}, {stats.by_status}")
    ratio = rates["faulty"] / rates["well"]
    check("attempts/s with faults to without", f"{ratio:.2f}", ratio >= 0.5)
    return check


def limits() -> Checks:
    """Three minutes at two limits: first the tokens are the bottleneck, then the requests."""
    check = Checks("600 requests and 100,000 tokens a minute, 3 minutes")
    # The server's answers have some 60 tokens: of 100,000 a minute they would leave a third.
    for name, tokens in (("requests bind", 100_000), ("tokens bind", 40_000)):
        binding = name.split()[0]  # the limit that the run comes up against
        with place() as here, MockServer(latency="uniform:0.2:1.5") as server:
            options = ("samples=20", "limits.rpm=600", f"limits.tpm={tokens}")
            seen: list[tuple[float, int, int]] = []
            process = here.begin(server.base_url, name.replace(" ", "_"), *options)
            began = time.monotonic()
            while time.monotonic() - began < 185:
                time.sleep(1)
                stats = server.stats()
                used = stats.prompt_tokens + stats.completion_tokens
                seen.append((time.monotonic(), stats.requests, used))
            peak = server.stats().peak_per_minute
            process.terminate()
            process.communicate(timeout=60)
            most = {"requests": 600, "tokens": tokens}
            for unit in most:
                found = getattr(peak, unit)
                check(f"{name}: most {unit} in 60 s", found, found <= most[unit])
            first = next(i for i, row in enumerate(seen) if row[1])
            at = seen[first][0]
            span = next(row for row in reversed(seen) if row[0] - at <= 180)
            minutes = (span[0] - at) / 60
            share = ((span[1], span[2])[binding == "tokens"]) / most[binding] / minutes
            check(f"{name}: share of it used", f"{share:.3f}", share >= 0.9)
    return check


def outage() -> Checks:
    """A server that goes down in the middle of a run, and comes back after 20 s."""
    check = Checks("a server that is down for 20 s")
    with place() as here:
        with MockServer(latency=0.05) as server:
            port = urlsplit(server.base_url).port or 0
            process = here.begin(server.base_url, "outage", "samples=20", "limits.concurrency=20")
            said = collect(process)
            wait(process, lambda: server.stats().requests >= 300)
            before = server.stats().requests
        time.sleep(20)
        with MockServer(latency=0.05, port=port) as server:
            process.wait(timeout=120)
            after = server.stats().requests
        outcomes = dict(Counter(line["outcome"] for line in here.attempts("outage")))
        check("exit code", process.returncode, process.returncode == 0)
        check("outcomes", outcomes, outcomes == {"ok": 2600})
        check("requests before and after", f"{before} + {after}", before + after <= 2600 + 40)
        paused = [line for line in said() if "paused" in line]
        check("said", paused[:1], bool(paused))
    return check


def collect(process: subprocess.Popen[str]) -> Callable[[], list[str]]:
    """Read a process's stderr as it arrives."""
    lines: list[str] = []
    assert process.stderr is not None
    stream = process.stderr
    thread = threading.Thread(target=lambda: lines.extend(stream), daemon=True)
    thread.start()

    def said() -> list[str]:
        thread.join(timeout=10)
        return lines

    return said


CONCURRENCY, VOTES, CALLS = 20, 3, 700
KINDS = {"plain": 5, "rounds": 2, "judges": 8, "votes": 3, "variants": 3, "judge": 10, "build": 0}
"""Kinds of paid work, with the samples that make about so many `CALLS`."""
SIGNALS: dict[str, tuple[signal.Signals, ...]] = {
    "KILL": (signal.SIGKILL,),
    "TERM": (signal.SIGTERM,),
    "INT twice": (signal.SIGINT, signal.SIGINT),
    "HUP": (signal.SIGHUP,),
    "pause": (signal.SIGSTOP, signal.SIGCONT),
    "nothing": (),
}
ABRUPT = ("KILL", "INT twice")
"""After the other signals the calls in flight are finished."""
PAUSED_S = 3.5
"""Longer than the time limit of a call, in a process that is to be paused."""
LATE_S = 10.0
"""Replies to calls that are older were lost before the kill."""
INTERRUPTED = 130


class Work:
    """One kind of paid work: its command and its model.

    Each time it is finished, it begins again with another seed.

    Attributes:
        received: When a body came last, by its digest.
        needed: How many replies to it are paid for: the votes of a judge have one body.
    """

    def __init__(self, kind: str, here: Place, timeout_s: float) -> None:
        self.kind, self.here, self.number = kind, here, 0
        self.judged = kind in ("judges", "votes", "judge")
        self.limits = {"concurrency": CONCURRENCY, "timeout_s": timeout_s}
        self.received: dict[str, float] = {}
        self.needed = Counter[str]()
        if kind == "build":
            write_chats(here.folder / "chats.jsonl")

    def reply(self, ask: MockRequest, index: int) -> str | Answer:
        """Return a verdict for a judge, the requested form for a build, else a text."""
        self.received[ask.digest] = time.monotonic()
        self.needed[ask.digest] = VOTES if (self.kind, ask.model) == ("votes", "judge") else 1
        made = build_reply(ask, index) if ask.model == "builder" else f"It is {ask.digest}: a-b-c."
        if ask.model == "judge":
            made = "yes" if int(ask.digest, 16) % 3 else "no"
        if isinstance(made, Answer):
            return Answer(marked(made.text, ask), made.logprobs)
        return marked(made, ask)

    def begin(self, url: str) -> subprocess.Popen[str]:
        folder, name = self.here.folder, f"run{self.number}"
        model = {"backend": "openai", "name": "model", "base_url": url}
        content: dict[str, Any] = {"model": model, "limits": self.limits, "seed": self.number}
        if self.kind == "build":
            model |= {"preset": "vllm", "name": "builder"}
            content |= {"filter.keep": 0.25, "domains.batch": 50}
            words = [word for key, of in content.items() for word in ("-o", f"{key}={of}")]
            chats, out = folder / "chats.jsonl", folder / "runs" / name
            return self.here.start("build", "wildifeval", "--from", chats, "--out", out, *words)
        votes = VOTES if self.kind == "votes" else 1
        judge = {"name": "yes_no", "model": {**model, "name": "judge"}, "votes": votes}
        content |= {
            "task": {"name": "wildifeval" if self.judged else "collie", "dataset": "builtin"},
            "decoding": {"max_tokens": 60, "temperature": 1},
            "samples": KINDS[self.kind],
            "rounds": {"max": 3 if self.kind == "rounds" else 1},
            "judges": [judge] if self.kind in ("judges", "votes") else [],
        }
        if self.kind == "variants":
            content["variants"] = {"hot": {}, "cold": {"decoding.temperature": 0.5}}
        for file, section in ((name, content), ("judge", judge)):
            (folder / f"{file}.yaml").write_text(json.dumps(section))
        run = ("run", folder / f"{name}.yaml")
        if self.kind != "judge":
            return self.here.start(*run)
        if not (folder / "runs" / name).exists():
            self.here.start(*run).communicate()
        return self.here.start("judge", name, "--judge", folder / "judge.yaml")


@dataclass
class Counts:
    """What was found in one kind of work under one signal.

    Attributes:
        sent, met: Signals; those that met calls in flight of a process that they ended or paused.
        in_flight: Calls that the server had received when a signal was sent, and that were not
            answered yet, or whose replies were not committed.
        twice: Replies that were never committed, and so are paid for again.
        cut_off: Calls that were not answered, which a provider may bill too.
        broken: What was promised and does not hold.
    """

    sent: int = 0
    met: int = 0
    in_flight: int = 0
    twice: int = 0
    cut_off: int = 0
    broken: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        found = f"{self.in_flight} in flight, {self.twice} paid twice, {self.cut_off} cut off"
        return ", ".join([found, *(f"{what}: {n}" for what, n in self.broken.items() if n)])


class Moment(NamedTuple):
    """What the server knew when a signal had just been sent."""

    at: float
    open: int
    bodies: dict[str, BodyCount]


class Ledger:
    """The replies of a server, and those that the cache has committed, session by session."""

    def __init__(self, work: Work, server: MockServer) -> None:
        self.work, self.server, self.counts = work, server, Counts()
        self.bodies: dict[str, BodyCount] = {}
        self.kept, self.abandoned = Counter[str](), 0

    def moment(self) -> Moment:
        in_flight = self.server.stats().in_flight  # first: what is answered next is not missed
        return Moment(time.monotonic(), in_flight, self.server.bodies())

    def close(self, signalled: Moment | None) -> None:
        """Count a session that has ended, with all of its calls unless it was ``signalled``."""
        while self.server.stats().in_flight:
            time.sleep(0.01)
        bodies, kept, stats = self.server.bodies(), self.work.here.kept(), self.server.stats()
        abandoned = stats.abandoned - stats.by_fault.get("stall", 0)
        before, broken, most = _answered(self.bodies), self.counts.broken, 0
        paid, saved = _answered(bodies) - before, kept - self.kept
        lost = paid - saved
        if signalled is None:
            broken["abandoned"] += abandoned - self.abandoned
        else:
            self.counts.cut_off += abandoned - self.abandoned
            most = signalled.open + (_answered(signalled.bodies) - before - saved).total()
            late = signalled.at - LATE_S
            broken["lost before the kill"] += sum(self.work.received[one] < late for one in lost)
        done = [one for one, n in self.kept.items() if n >= self.work.needed[one]]
        broken["asked for again after the commit"] += sum(
            bodies[one].requests > self.bodies[one].requests for one in done
        )
        broken["paid twice in a session"] += (paid - (self.work.needed - self.kept)).total()
        broken["committed and gone"] += (self.kept - kept).total()
        broken["paid twice and not in flight"] += max(0, lost.total() - most)
        self.counts.in_flight += most
        self.counts.twice += lost.total()
        self.bodies, self.kept, self.abandoned = bodies, kept, abandoned


def _answered(bodies: Mapping[str, BodyCount]) -> Counter[str]:
    return Counter({digest: body.answered for digest, body in bodies.items()})


def storm(kills: int = 300) -> Checks:
    """Kills and pauses of every kind of paid work, with a fifth of the requests failing."""
    check = Checks(f"{kills} kills and pauses, faults {sum(STORM_FAULTS.values()):.0%}")
    each, began = -(-kills // (len(KINDS) * (len(SIGNALS) - 1))), time.monotonic()
    cells, sent, met = list(itertools.product(KINDS, SIGNALS)), 0, 0
    for number, (kind, name) in enumerate(cells, start=1):
        counts = ordeal(kind, name, each if SIGNALS[name] else 0, STORM_FAULTS)
        sent, met, holds = sent + counts.sent, met + counts.met, not counts.broken.total()
        check(f"{kind}, {counts.met} x {name}", counts, holds)
        done = f"{number}/{len(cells)}, {time.monotonic() - began:.0f} s"
        console.print(f"{done}: {kind}, {counts.met} x {name}: {counts}{'' if holds else '  NO'}")
    check("signals that met calls in flight, of all", f"{met} of {sent}", met >= kills)
    return check


def kills() -> Checks:
    """Fifty kills at random moments, with calls that stall; `harness show` works after each."""
    check, counts = Checks("50 x kill -9, faults on"), ordeal("plain", "KILL", 50, FAULTS, "show")
    check(f"{counts.met} kills that met calls in flight", counts, not counts.broken.total())
    return check


def ordeal(
    kind: str, name: str, times: int, mix: Mapping[str, float], then: str | None = None
) -> Counts:
    """Kill or pause one kind of work so many times, then let it end.

    ``then`` is a command about the run that must succeed after each kill.
    """
    chance, signals = random.Random(f"{kind}/{name}"), SIGNALS[name]
    with place() as here:
        short = name == "pause" or "stall" in mix
        work = Work(kind, here, PAUSED_S - 0.5 if short else 60)
        latency = 0.4 if name == "INT twice" else 0.1  # else the first one leaves nothing in flight
        of_server = {"latency": latency, "faults": mix, "answers": work.reply, "retry_after": 0.1}
        with MockServer(**of_server) as server:
            ledger = Ledger(work, server)
            counts = ledger.counts

            def end(process: subprocess.Popen[str], signalled: Moment | None = None) -> None:
                """Wait until a process ends; what is finished begins again with another seed."""
                said = process.communicate(timeout=600)[1]
                ledger.close(signalled)
                run = f"run{work.number}"
                work.number += process.returncode == 0
                if process.returncode not in (0, 1, INTERRUPTED, *(-one for one in signals)):
                    console.print(said)
                    counts.broken[f"exit code {process.returncode}"] += 1
                if then is not None:
                    command = here.start(then, run)
                    command.communicate()
                    counts.broken[f"harness {then} failed"] += command.returncode != 0

            process = work.begin(server.base_url)
            while counts.met < times and counts.sent < 3 * times:
                target = server.stats().requests + chance.randrange(CALLS // times)
                wait(process, lambda: server.stats().requests >= target)  # noqa: B023
                time.sleep(chance.random() / 10)
                wait(process, lambda: server.stats().in_flight)
                met, signalled = False, None
                if process.poll() is None:
                    for number in signals:
                        met = met if number == signal.SIGCONT else server.stats().in_flight > 0
                        process.send_signal(number)
                        signalled, seen = ledger.moment(), 0
                        time.sleep(PAUSED_S if number == signal.SIGSTOP else 0)
                        # The second one comes when the first one is obeyed: no call is sent.
                        while number == signal.SIGINT and seen < (seen := server.stats().requests):
                            time.sleep(0.1)
                    counts.sent += 1
                    if name == "pause":
                        counts.met += met
                        continue
                end(process, signalled if name in ABRUPT else None)
                counts.met += met and process.returncode not in (0, 1)
                process = work.begin(server.base_url)
            end(process)
            while process.returncode == 1:  # calls that failed at every try
                end(process := work.begin(server.base_url))
        _check_lines(work, counts)
    return counts


def _check_lines(work: Work, counts: Counts) -> None:
    """Count what is torn, doubled or missing in the files of finished runs."""
    answers, judged = set[tuple[Any, ...]](), set[tuple[Any, ...]]()
    for file in (work.here.folder / "runs").rglob("*.jsonl"):
        seen = set[tuple[Any, ...]]()
        for line in file.read_bytes().splitlines(keepends=True):
            try:
                row = json.loads(line if line.endswith(b"\n") else b"torn")
            except ValueError:
                counts.broken["lines torn"] += 1
                continue
            key = (file.parent, *(row.get(of) for of in ("id", "instance", "sample", "round")))
            if row.get("outcome") == "error":  # it is made again
                continue
            counts.broken["lines doubled"] += key in seen
            seen.add(key)
            if file.name == "judgements.jsonl":
                judged.add(key)
            elif row.get("outcome") == "ok":
                answers.add(key)
        if file.name == "attempts.jsonl":
            samples = KINDS[work.kind] * (16 if work.judged else 130)
            counts.broken["samples missing"] += samples - sum(key[-1] == 1 for key in seen)
    counts.broken["answers not judged"] += len(answers ^ judged) if work.judged else 0


def cap() -> Checks:
    """A budget of $10, kept over fifty kills with 40 calls in flight."""
    check, chance, met = Checks("$10, 50 x kill -9 with 40 in flight"), random.Random(0), 0
    price, bill = {"input": 1.0, "output": 15.0}, list[float]()

    def reply(ask: MockRequest, _: int) -> str:
        """Bill the longest answer, of 100 tokens, even if nobody fetches it."""
        bill.append((ask.prompt_tokens * price["input"] + 100 * price["output"]) / 1e6)
        return ask.digest.ljust(400, ".")

    with place() as here, MockServer(latency=1.0, answers=reply) as server:
        options = (
            *("samples=200", "limits.concurrency=40", "decoding.max_tokens=100"),
            *(f"model.price={json.dumps(price)}", "budget.usd=10"),
        )
        for number in range(1, 51):
            process = here.begin(server.base_url, "capped", *options)
            wait(process, lambda: server.stats().in_flight >= 40)
            time.sleep(chance.random())
            wait(process, lambda: server.stats().in_flight >= 40)
            in_flight = server.stats().in_flight
            process.kill()
            process.communicate()
            met += process.returncode == -signal.SIGKILL and in_flight >= 40
            console.print(f"{number}/50: {met} met 40 calls in flight, ${sum(bill):.2f} billed")
        killed = sum(bill)
        code = here.run(server.base_url, "capped", *options)
        check("kills that met 40 calls in flight", met, met == 50)
        check("the server bills", f"${killed:.2f}, then ${sum(bill):.2f}", sum(bill) <= 10)
        check("exit code at the end", code, code == 3)
    return check


PARTS = {
    **{"faults": faults, "limits": limits, "kills": kills, "outage": outage},
    **{"storm": storm, "cap": cap},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=PARTS, nargs="+")
    parser.add_argument("--kills", type=int, default=300, help="of the storm")
    given, failed = parser.parse_args(), False
    signal.signal(signal.SIGHUP, lambda *_: None)  # under nohup, else the runs ignore it too
    for part in given.part:
        check = storm(given.kills) if part == "storm" else PARTS[part]()
        console.print(check.table)
        failed |= check.failed
    sys.exit(failed)


if __name__ == "__main__":
    main()
