"""`harness export` and `harness import`, as a user types them."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.command import COMMAND, QUICK, harness, mistake
from tests.cli.test_manage import copied, cut
from tests.unsealed import unseal

RECORDED = Path(__file__).parent / "recorded"


def on(runs: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    for name, option in (("q", "samples=2"), ("taught", "rounds.max=3")):
        told = ("run", "configs/quickstart.yaml", "--limit", "13", "--name", name, "-o", option)
        assert harness(*told, env=on(runs)).returncode == 0
    return runs


def done(runs: Path, *arguments: str | Path) -> str:
    ended = harness(*arguments, env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def compared(runs: Path, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(runs, "compare", *names, "--format", "json"))
    return found["others"][0]["overall"]  # type: ignore[no-any-return]


def test_tables(quick: Path, tmp_path: Path) -> None:
    done(quick, "export", "q", "taught", "-o", tmp_path / "a.parquet")
    said = done(quick, "export", "q", "taught", "--format", "csv", "-o", "-")
    rows = list(csv.DictReader(io.StringIO(said, newline=""), strict=True))
    question = "SELECT run, count(*), avg(passed::INT) FROM read_parquet(?) GROUP BY 1 ORDER BY 1"
    found = duckdb.connect().execute(question, [str(tmp_path / "a.parquet")]).fetchall()
    assert len(rows) == sum(n for _, n, _ in found)
    assert [name for name, _, _ in found] == ["q", "taught"]
    assert {row["simulated"] for row in rows} == {"true"}
    for name, n, mean in found:  # a row per sample: the column's mean is the run's pass rate
        metrics = json.loads((quick / name / "metrics.json").read_text())
        assert (n, mean) == (metrics["n_samples"], pytest.approx(metrics["overall"]["pass_rate"]))
    tried = done(quick, "export", "taught", "--attempts", "--format", "csv", "-o", "-")
    every = list(csv.DictReader(io.StringIO(tried, newline=""), strict=True))
    last = [row for row in every if row.pop("is_last") == "true"]
    assert len(every) == metrics["n_attempts"] > len(last)
    assert [row["text"] for row in last] == [row["text"] for row in rows if row["run"] == "taught"]
    done(quick, "export", "q", "taught", "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes().decode() == said


def test_a_terminal_gets_no_control_characters_and_a_file_the_exact_text(
    quick: Path, tmp_path: Path
) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\rgone\u202e"
    shutil.copytree(quick / "q", tmp_path / "q")
    unseal(tmp_path / "q")
    attempts = tmp_path / "q" / "attempts.jsonl"
    first, *others = attempts.read_text().splitlines()
    attempts.write_text(
        "\n".join([json.dumps(json.loads(first) | {"text": hostile}), *others]) + "\n"
    )
    master, terminal = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as screen:
        with os.fdopen(terminal, "wb", buffering=0) as stdout:
            told = [*COMMAND, "export", "q", "--format", "csv", "-o", "-"]
            shown = b""
            with subprocess.Popen(told, stdout=stdout, env=on(tmp_path)) as process:
                stdout.close()
                with contextlib.suppress(OSError):  # Linux says so when the other end is closed
                    while part := screen.read(1 << 16):
                        shown += part
        assert process.returncode == 0
    lines = shown.replace(b"\r\n", b"\n").decode()
    assert all(line.isprintable() for line in lines.replace("\t", "").split("\n"))
    assert r"\x1b]0;title\x07\x1b[2J\rgone\u202e" in lines
    done(tmp_path, "export", "q", "-o", tmp_path / "q.csv")
    assert hostile in (tmp_path / "q.csv").read_bytes().decode()


@pytest.mark.skipif(
    find_spec("inspect_ai") is None, reason="needs inspect-ai: scripts/test-exchange"
)
@pytest.mark.parametrize("ending", ["eval", "json"])
def test_a_round_trip_differs_in_nothing(ending: str, quick: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(quick, runs)
    done(runs, "export", "taught", "-o", tmp_path / f"a.{ending}")
    done(runs, "import", tmp_path / f"a.{ending}", "--name", "again")
    found = compared(runs, "taught", "again")
    assert (found["n"], found["better"], found["worse"], found["difference"]) == (13, 0, 0, 0.0)
    assert "SIMULATED" in done(runs, "show", "again")
    assert "again" in done(runs, "ls")
    done(runs, "export", "again", "-o", tmp_path / f"b.{ending}")
    assert done(runs, "score", "again")


def test_two_models_of_lm_eval(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (recorded,) = RECORDED.glob("samples_tiny_sums_*.jsonl")
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    for model, right in (("one", 0.0), ("two", 1.0)):
        (tmp_path / model).mkdir()
        text = "".join(json.dumps(line | {"exact_match": right}) + "\n" for line in lines)
        (tmp_path / model / recorded.name).write_text(text)
        done(runs, "import", tmp_path / model / recorded.name, "--name", model)
    found = compared(runs, "one", "two")
    assert (found["n"], found["better"], found["difference"]) == (4, 4, 1.0)
    # part of the same data may be compared; other data may not
    (tmp_path / "part.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    done(runs, "import", tmp_path / "part.jsonl", "--task", "tiny_sums")
    assert compared(runs, "one", "part")["n"] == 2
    other = json.dumps(lines[0] | {"doc_hash": "0"}) + "\n"
    (tmp_path / "other.jsonl").write_text(other)
    done(runs, "import", tmp_path / "other.jsonl", "--task", "tiny_sums")
    said = mistake(harness("compare", "one", "other", env=on(runs)))
    assert "different data sets (instance_sha256/0)" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", "none", "-o", "a.csv"), "There is no run 'none'"),
        (("export", "q", "-o", "a.xml"), "its suffix does not name a format"),
        (("export", "q", "-o", "-", "--format", "parquet"), "cannot be written to stdout"),
        (("export", "q", "-o", "a.eval", "--attempts"), "--attempts has no effect on inspect"),
        (("export", "q", "--format", "csv"), "The output file is missing"),
        (("export", "q", "-o", "a.csv", "--field", "a=b"), "--field: csv has no fields to set"),
        (("export", "q", "-o", "a.yaml", "--field", "a"), "--field a: not KEY=VALUE"),
        (("export", "q", "q", "-o", "a.csv"), "named twice"),
        (("export", "q", "taught", "-o", "a.eval"), "holds one run per file"),
        (("export", "q", "-o", "a.log", "--format", "inspect"), "ends with .eval or .json"),
        (("export", "q", "-o", "none/a.csv"), "there is no folder none"),
        (("export", "q", "-o", "none/a.parquet"), "there is no folder none"),
        (("export", "q", "-o", ".", "--format", "csv"), "is a folder"),
        (("export", "q", "-o", "q/attempts.jsonl", "--format", "csv"), "run's own file"),
        (("export", "q", "-o", "/dev/full", "--format", "csv"), "not a regular file"),
        (("import", "none.eval"), "There is no file none.eval"),
        (("import", "q/manifest.json"), "neither an Inspect log nor lm-eval's samples"),
        (("import", "q/attempts.jsonl", "--format", "lm-eval"), "line 1: not a sample of lm-eval"),
        (("import", "q/manifest.json", "--name", "q"), "There is a run 'q' already"),
        (("import", "q/manifest.json", "--name", "../q"), "cannot name a run"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], said: str, quick: Path) -> None:
    before = sorted(quick.rglob("*"))
    content = (quick / "q" / "attempts.jsonl").read_bytes()
    assert said in mistake(harness(*arguments, env=on(quick), cwd=quick))
    assert sorted(quick.rglob("*")) == before
    assert (quick / "q" / "attempts.jsonl").read_bytes() == content


def test_the_fields_of_the_users_rows_are_columns(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "q": "Say a.", "target": "a", "level": 1, "tags": ["x"], "kind": "k"},
        {"id": "b", "q": "Say b\nor c.", "target": "b", "level": 2.5, "kind": "l", "hard": True},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    check = tmp_path / "own.py"
    check.write_text("def own(text):\n    return text == 'a'\n")
    file, runs = tmp_path / "mine.yaml", tmp_path / "runs"
    file.write_text(
        "{task: {name: jsonl, path: rows.jsonl, prompt: '{{ q }}', groups: [kind], checks: own.py},"
        " model: {backend: simulated, accuracy: 1}, variants: {one: {}, two: {samples: 2}}}"
    )
    done(runs, "run", file)
    check.unlink()  # exporting a run does not execute it
    one = tmp_path / "one.parquet"
    done(runs, "export", "mine", "--output", one)
    found = duckdb.sql(f"SELECT * FROM '{one}' WHERE run = 'mine.one' ORDER BY instance")
    columns = [name for name in found.columns if name.startswith(("field_", "group_"))]
    assert columns == [
        "group_kind",
        *(f"field_{n}" for n in ("q", "target", "level", "tags", "hard")),
    ]
    assert duckdb.sql("SELECT field_level, field_tags, field_hard FROM found").fetchall() == [
        (1.0, '["x"]', None),
        (2.5, None, True),
    ]
    text = done(runs, "show", "mine", "--side-by-side", "--format", "csv")
    told = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["instance"], row["sample"], row["field_level"]) for row in told] == [
        *(("a", "0", "1"), ("a", "1", "1"), ("b", "0", "2.5"), ("b", "1", "2.5")),
    ]
    lines = (runs / "mine.two" / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (runs / "mine.two" / "attempts.jsonl").write_bytes(b"".join(reversed(lines)))
    for listing in ("--side-by-side", "--failed --format csv", "--side-by-side --format csv"):
        shown = done(runs, "show", "mine.two", *listing.split())
        assert re.findall("Say [ab]", shown) == sorted(re.findall("Say [ab]", shown))
    exported = done(runs, "export", "mine.two", "--output", "-")
    assert [row["instance"] for row in csv.DictReader(io.StringIO(exported))] == list("aabb")
    assert told[2]["prompt"] == told[2]["field_q"] == "Say b\nor c."
    assert told[0]["answer_mine.one"] == "a"
    assert (told[0]["passed_mine.one"], told[1]["passed_mine.one"]) == ("True", "")
    text = done(runs, "show", "mine", "--failed", "--format", "csv")
    failed = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {(row["run"], row["instance"], row["field_kind"]) for row in failed} == {
        *(("mine.one", "b", "l"), ("mine.two", "b", "l")),
    }
    said = mistake(harness("show", "mine", "--format", "csv", env=on(runs)))
    assert "harness export mine" in said
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows[0]))
    ended = harness("export", "mine", "--output", "-", env=on(runs))
    assert "mine.one: the fields of its rows are left out" in ended.stderr
    assert "field_" not in ended.stdout.splitlines()[0]


def test_scores_at_the_limits_are_exported(tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text("def size(text): return 1e100 if 'a' in text else -1e100\n")
    rows = "[{id: a, prompt: Say a., target: a}, {id: b, prompt: Say b., target: b}]"
    file = tmp_path / "mine.yaml"
    file.write_text(f"task: {{rows: {rows}, checks: [./size.py]}}\nmodel: simulated/1\n")
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    assert harness("run", file, env=env).returncode == 0
    ended = harness("export", "mine", "-o", str(tmp_path / "mine.csv"), env=env)
    assert ended.returncode == 0, ended.stderr


def test_an_unknown_format_is_refused_with_those_that_exist() -> None:
    ended = harness("export", "a", "-o", "x.csv", "--format", "html")
    assert ended.returncode == 2
    assert "'csv'" in ended.stderr


@pytest.mark.parametrize("damage", [cut, copied])
def test_lost_attempts_are_reported(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    env = on(tmp_path / "runs")
    for name in ("first", "second"):
        assert harness(*QUICK, name, env=env).returncode == 0
    damage(tmp_path / "runs" / "first" / "attempts.jsonl")
    problem = "line is from another run" if damage is copied else "lacks at least"
    output = ("--output", str(tmp_path / "rows.csv"))
    ended = harness("export", "first", *output, env=env, apart=True)
    assert problem in ended.stderr
