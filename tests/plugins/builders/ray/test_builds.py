"""Builds on a Ray cluster write the bytes of a build in one process."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.backends.ray.conftest import RayCluster
from tests.backends.stand_ins import until
from tests.plugins.builders.collie.corpus import write_corpus, write_words
from tests.plugins.builders.warc import write_warc

COLLIE = ("instances.jsonl", "audit.jsonl", "report.md", "manifest.json")
WILDIFEVAL = ("tasks.jsonl", "report.md", "manifest.json")


class Builds:
    """Builds in a folder, by processes of their own."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        dirs = {f"HARNESS_{one}_DIR": str(folder / one.lower()) for one in ("DATA", "CACHE")}
        self._environment = {**os.environ, **dirs, "RAY_ADDRESS": address}

    def begun(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "build", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self._environment,
        )

    def said(self, *arguments: str, code: int = 0) -> str:
        process = self.begun(*arguments)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == code, said
        return said

    def content(self, build: str, files: tuple[str, ...]) -> dict[str, bytes]:
        return {name: (self.folder / build / name).read_bytes() for name in files}

    def results(self, build: str) -> int:
        """The number of results that an unfinished build has saved."""
        return len([*self.folder.glob(f".{build}.stages/rows-*.json")])


@pytest.fixture
def builds(tmp_path: Path, machines: RayCluster) -> Builds:
    return Builds(tmp_path, machines.address)


def texts(folder: Path, n: int, characters: int = 3_000) -> list[str]:
    return [path.read_text() for path in sorted(write_corpus(folder, n, characters).iterdir())]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write_rows(folder: Path, files: int, documents: int = 8) -> Path:
    """A folder of JSONL files, each with rows that cannot be read."""
    folder.mkdir()
    some = texts(folder.with_name("texts"), files * documents)
    for number in range(files):
        rows: list[dict[str, Any]] = [{"text": text} for text in some[number::files]]
        bad = b'not JSON\n{"body": "no text"}\n{"text": "caf\xe9"}\n'
        (folder / f"{number:02}.jsonl").write_bytes(bad + lines(rows))
    return folder


def test_collie_from_all_formats(builds: Builds) -> None:
    import pyarrow
    from pyarrow import ipc

    folder = builds.folder
    write_rows(folder / "rows", 3)
    some = texts(folder / "plain", 40)
    (folder / "packed").mkdir()
    (folder / "packed" / "a.json.gz").write_bytes(gzip.compress(lines([{"text": some[0]}])))
    (folder / "tables").mkdir()
    for name, part in (("a", some[:20]), ("b", some[20:])):
        table = pyarrow.table({"text": part, "n": list(range(len(part)))})
        duckdb.sql(f"COPY (FROM \"table\") TO '{folder / 'tables' / name}.parquet'")
    with ipc.new_stream(str(folder / "saved.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    write_warc(folder / "crawl.warc.wet.gz", some[:12])
    write_words(folder / "words.txt", n=500)
    sources = [
        *("rows", "packed", "tables", "saved.arrow", "crawl.warc.wet.gz"),
        *("plain", "words=words.txt"),
    ]
    command = ["collie", *(f"--source={source}" for source in sources), "--targets=12"]
    command.append("--documents=15")
    builds.said(*command, "--output=one", "--jobs=1")
    said = builds.said(*command, "--output=two", "--engine=ray")
    assert "instances in" in said
    assert builds.content("one", COLLIE) == builds.content("two", COLLIE)
    facts = json.loads((folder / "two" / "manifest.json").read_bytes())
    chosen = [(one["available"], one["chosen"]) for one in facts["sources"]]
    assert chosen == [(33, 15), (1, 1), (40, 15), (20, 15), (12, 12), (40, 15), (1, 1)]


@pytest.mark.parametrize("fault", ["process", "node", "build"])
def test_collie_while_something_is_killed(fault: str, builds: Builds, machines: RayCluster) -> None:
    write_rows(builds.folder / "rows", 24)
    command = ["collie", "--source=rows", "--documents=1000", "--targets=10"]
    builds.said(*command, "--output=one", "--jobs=1")
    command += ["--output=two", "--engine=ray"]
    process = builds.begun(*command)
    until(lambda: builds.results("two") >= 2 or process.poll() is not None, "results")
    assert process.poll() is None
    if fault == "process":
        os.kill(working(machines)[0], signal.SIGKILL)
    elif fault == "node":
        machines.kill(machines.nodes[0])
        machines.add(1)
    else:
        process.kill()
    said, _ = process.communicate(timeout=300)
    if fault == "build":
        assert not (builds.folder / "two").exists()
        said = builds.said(*command)
        assert "stages of an earlier build" in said
    assert "instances in" in said
    assert builds.content("one", COLLIE) == builds.content("two", COLLIE)


def working(machines: RayCluster) -> list[int]:
    """The processes of a cluster's nodes that work on a piece, once there is one."""

    def found() -> Iterator[int]:
        parents = {node.all_processes["raylet"][0].process.pid for node in machines.nodes}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                _, _, rest = path.read_text().rpartition(")")
                command = (path.parent / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if int(rest.split()[1]) in parents and command.startswith(b"ray::Map"):
                yield int(path.parent.name)

    until(lambda: any(found()), "a process works")
    return [*found()]


def chats(folder: Path, files: int) -> Path:
    """Logs with repeated ids and messages, and with lines that are not chats."""
    folder.mkdir()
    for number in range(files):
        rows: list[dict[str, Any]] = [
            {"id": n % 50, "prompt": f"Write a letter about day {n % 70} of {number % 3}."}
            for n in range(120)
        ]
        rows += [{"prompt": "Escribe un poema de cuatro versos sobre la luna y el mar."}]
        rows += [{"id": "x"}, {"prompt": "Write code that sorts names."}, {"messages": "no"}]
        (folder / f"{number:02}.jsonl").write_bytes(b'{"id": \n"[["\n' + lines(rows))
    return folder


@pytest.mark.parametrize("killed", [False, True])
def test_wildifeval_from_a_folder_of_logs(
    killed: bool, builds: Builds, machines: RayCluster
) -> None:
    chats(builds.folder / "logs", 12)
    duckdb.sql(
        "COPY (SELECT 'p' || i AS conversation_id, "
        "[{role: 'user', content: 'Write a song about ' || i}] AS conversation "
        f"FROM range(300) t(i)) TO '{builds.folder / 'more.parquet'}'"
    )
    (builds.folder / "curation.yaml").write_text(
        "model: {backend: simulated, accuracy: 1}\nfilter: {keep: 1}\n"
    )
    command = ["wildifeval", "--from=logs", "--from=more.parquet", "--config=curation.yaml"]
    builds.said(*command, "--output=one")
    process = builds.begun(*command, "--output=two", "--engine=ray")
    if killed:
        os.kill(working(machines)[0], signal.SIGKILL)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert builds.content("one", WILDIFEVAL) == builds.content("two", WILDIFEVAL)
    facts = json.loads((builds.folder / "two" / "manifest.json").read_bytes())
    assert len(facts["sources"]) == 13
    assert facts["steps"][0]["removed"]["unreadable"] == 12 * 4


def damaged(folder: Path) -> list[str]:
    (folder / "rows" / "00.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 99)[:-9])
    return ["--source=rows"]


def slow(folder: Path) -> list[str]:
    row = {"text": "a" * 5_000 + "!"}
    (folder / "rows" / "07.jsonl").write_bytes(lines([row]))
    (folder / "rows.yaml").write_text(
        "{name: rows, preset: jsonl, load: {name: jsonl, path: rows}, "
        "filters: [{name: pattern, pattern: '(a|a?)+$'}], levels: [paragraph]}"
    )
    return ["--source=rows.yaml", "--structures=para05"]


@pytest.mark.parametrize("fault", [damaged, slow])
def test_a_corpus_that_ends_a_build_has_the_error_of_one_process(
    fault: Callable[[Path], list[str]], builds: Builds
) -> None:
    write_rows(builds.folder / "rows", 3, documents=2)
    command = ["collie", *fault(builds.folder), "--output=mine"]
    one = builds.said(*command, "--jobs=1", code=1)
    assert builds.said(*command, "--engine=ray", code=1).splitlines()[-1] == one.splitlines()[-1]
    assert "Traceback" not in one


POOL = """
import os
from harness.plugins.builders.pools import RayDataPool
from harness.errors import HarnessError

pool = RayDataPool(None)
assert list(pool.in_order(abs, range(-40, 0))) == list(range(40, 0, -1))
try:
    list(pool.in_order(os._exit, [1]))
except HarnessError as error:
    print(error.message)
"""


def test_a_piece_that_kills_its_processes_ends_the_work(builds: Builds) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", POOL],
        capture_output=True,
        text=True,
        check=True,
        env=builds._environment,
    )
    assert "The Ray cluster has failed" in ended.stdout
