"""A run's folder may come from somebody else: what is in it is data."""

import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from harness.cli.verbs import all_verbs
from tests.cli.command import COMMAND, QUICK, begun, harness, mistake, on
from tests.installed import has_verb
from tests.unsealed import unseal

Config = dict[str, Any]
INSTALLED = all_verbs()

CODE = """
from pathlib import Path
Path({marker!r}).write_text("executed")

def plugin(*arguments, **options):
    return True
"""

STAND_INS = {
    "lm_eval/__init__.py": "",
    "lm_eval/utils.py": "class env:\n    def from_string(text): return text\n",
    "lm_eval/tasks/__init__.py": """
import runpy
from pathlib import Path

class TaskManager:
    def __init__(self, include_path=None, **options):
        self.all_tasks, self.path = ["planted"], include_path

    def load(self, names):
        folder = Path(self.path or Path(names[0]).parent)
        for file in folder.glob("*.py"):
            runpy.run_path(str(file))
        return {"tasks": {}}
""",
    "inspect_ai/__init__.py": "__version__ = '1'",
    "inspect_ai/_eval/__init__.py": "",
    "inspect_ai/_eval/loader.py": """
import runpy
from tests.unsealed import unseal

def load_tasks(specs, args):
    runpy.run_path(specs[0].partition("@")[0])
    return []
""",
}
"""Packages in place of the real ones, which execute the files that a task names, as these do."""

BACKEND: Config = {"backend": "simulated", "name": "simulated"}


def task(name: str, **options: Any) -> Callable[[Config, str], None]:
    def plant(config: Config, code: str) -> None:
        shown = {
            key: json.loads(json.dumps(value).replace("CODE", code))
            for key, value in options.items()
        }
        config["folder"] = None  # not the run's rows
        config["task"] = {"name": name.replace("CODE", code), **shown}

    return plant


def section(key: str, value: Any) -> Callable[[Config, str], None]:
    def plant(config: Config, code: str) -> None:
        config[key] = json.loads(json.dumps(value).replace("CODE", code))

    return plant


def checks(*names: Any) -> Callable[[Config, str], None]:
    return task("jsonl", path="ROWS", checks=list(names))


PLACES: dict[str, Callable[[Config, str], None]] = {
    "task": task("CODE"),
    "check": lambda config, code: config["task"].update(checks=[code]),
    "check with options": lambda config, code: config["task"].update(checks=[{code: {"a": 1}}]),
    "prompt": lambda config, code: config["task"].update(prompt=code),
    "metric": task("natural_instructions", metrics=[{"name": "CODE"}]),
    "lm_eval's include_path": task("lm_eval", task="planted", include_path="FOLDER"),
    "lm_eval's task": task("lm_eval", task="FOLDER/evil.yaml"),
    "inspect's task": task("inspect", task="CODE@evil"),
    "shots": lambda config, code: config["task"].update(
        shots={"n": 1, "source": {"path": code, "checks": [code]}}
    ),
    "backend": section("model", {"backend": "CODE", "name": "m"}),
    "paraphraser": section("polish", {"backend": "CODE", "name": "m"}),
    "user's backend": section(
        "user", {"model": {"backend": "CODE", "name": "m"}, "prompt": "CODE"}
    ),
    "judge": section("judges", [{"name": "CODE", "as": "judged", "model": BACKEND}]),
    "judge's backend": section(
        "judges", [{"name": "score", "as": "judged", "model": {"backend": "CODE", "name": "m"}}]
    ),
    "measure": section("measure", "CODE"),
}
"""How to name code in each place of a run file that can name it."""

READING = (
    "ls",
    "show evil",
    "show evil --failed",
    "show evil --failed --format csv",
    "show evil --side-by-side",
    "show evil --instance 1",
    "show evil --constraints",
    "show evil good",
    "report evil good --output report.html",
    "compare evil good",
    "compare evil evil2",
    "table evil good",
    "table evil --intervals",
    "matrix evil good",
    "ablation evils",
    "check evil --min pass_rate=0",
    "judge validate evil --judge judged --against judged",
    "errors draw evil",
    "export evil --output out.csv",
    "export evil --output out.eval",
    "export evil --output out.yaml",
    "batches",
    "cache stats",
    "doctor",
    "merge part",
    "compare {runs}/evil/config.yaml good",
    "compare {runs}/evil/evil2.yaml good",
    "check {runs}/evil/evil2.yaml --min pass_rate=0",
    "mv evil moved",
    "mv moved evil",
)
"""Commands that read runs; ``part`` has the shards ``part-1of1``."""


def is_installed(command: str) -> bool:
    """Whether the package of a command's verb is installed."""
    return command.split()[0] in INSTALLED


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of rows."""
    runs = tmp_path_factory.mktemp("runs")
    rows = [{"id": str(n), "question": f"{n}?", "target": str(n), "g": "x"} for n in range(4)]
    file = {
        "task": {
            "rows": rows,
            "prompt": "{{ question }}",
            "checks": ["exact_match"],
            "groups": ["g"],
        },
        "model": {"backend": "simulated", "accuracy": 0.5},
        "decoding": {"max_tokens": 9},
    }
    path = runs.parent / "good.yaml"
    path.write_text(yaml.safe_dump(file))
    ended = harness("run", path, env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return runs


@pytest.fixture
def planted(good: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A function that writes runs that name code, and returns the file that the code writes."""
    runs, marker = tmp_path / "runs", tmp_path / "marker"

    def plant(place: str) -> Path:
        shutil.copytree(good, runs)
        folder = runs / "evil"
        shutil.copytree(runs / "good", folder)
        unseal(folder)
        code = folder / "evil.py"
        code.write_text(CODE.format(marker=str(marker)))
        (folder / "evil.yaml").write_text("task: planted\ndataset_path: !function evil.plugin\n")
        config = yaml.safe_load((folder / "config.yaml").read_text())
        PLACES[place](config, str(code))
        text = yaml.safe_dump(config).replace("FOLDER", str(folder))
        (folder / "config.yaml").write_text(text)
        (folder / "evil2.yaml").write_text(text)
        config = yaml.safe_load(text)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest |= {"task": config["task"]["name"], "backend": config["model"]["backend"]}
        manifest |= {"measure": config["measure"], "variants": ["a", "b"]}
        if config["judges"]:
            register = {"judged": {"section": config["judges"][0], "decides": True}}
            (folder / "judges.json").write_text(json.dumps({"judges": register}))
        for name, variant in (
            ("evil", ""),
            ("evil2", ""),
            ("evils.a", "a"),
            ("evils.b", "b"),
            ("part-1of1", ""),
        ):
            if name != "evil":
                shutil.copytree(folder, runs / name)
            own = manifest | {"run": name, "variant": variant}
            (runs / name / "manifest.json").write_text(json.dumps(own))
        shard = config | {"shard": "1/1"}
        (runs / "part-1of1" / "config.yaml").write_text(yaml.safe_dump(shard))
        return marker

    for file, text in STAND_INS.items():
        path = tmp_path / "stand_ins" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return plant


def environment(folder: Path) -> dict[str, str]:
    more = {"PYTHONPATH": str(folder / "stand_ins"), "HARNESS_CACHE_DIR": str(folder / "cache")}
    return on(folder / "runs", **more)


@pytest.mark.parametrize("place", PLACES)
def test_reading_executes_no_code_that_a_run_names(
    planted: Callable[[str], Path], tmp_path: Path, place: str
) -> None:
    marker = planted(place)
    for command in READING:
        words = command.format(runs=tmp_path / "runs").split()
        ended = harness(*words, env=environment(tmp_path), cwd=tmp_path)
        assert "Traceback" not in ended.stderr, (command, ended.stderr)
        assert not marker.exists(), command


@pytest.mark.parametrize("place", ["task", "check", "backend", "lm_eval's task", "inspect's task"])
def test_the_live_view_executes_no_code_that_a_run_names(
    planted: Callable[[str], Path], tmp_path: Path, place: str
) -> None:
    marker = planted(place)
    command = [*COMMAND, "view", "evil", "--no-browser"]
    with subprocess.Popen(
        command, env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as page:
        assert page.stdout is not None
        address = page.stdout.readline().strip()
        with httpx2.Client(follow_redirects=True, timeout=60) as client:
            url = client.get(address).url
            for path in ("overview", "index", "cases", "entry?instance=1", "timelines"):
                assert client.get(url.join(f"api/{path}")).status_code == 200, path
        page.send_signal(signal.SIGINT)
    assert not marker.exists()


@pytest.mark.parametrize("place", ["check", "check with options", "metric", "task"])
def test_a_command_that_needs_the_code_names_the_file(
    planted: Callable[[str], Path], tmp_path: Path, place: str
) -> None:
    marker = planted(place)
    ended = harness("score", "evil", env=environment(tmp_path), cwd=tmp_path, apart=True)
    assert f"Executing {tmp_path}/runs/evil/evil.py" in ended.stderr
    assert marker.exists()


@pytest.mark.parametrize("place", ["runs", "runs/evil", "runs/stuff", "runs/stuff/deep"])
def test_code_beside_runs_or_in_a_damaged_one_is_named(
    planted: Callable[[str], Path], tmp_path: Path, place: str
) -> None:
    """A folder of runs may have come as a whole. A run without its configuration is one, too.

    A folder among the runs that holds no run may have come with them.
    """
    planted("check")
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    if place == "runs/evil":
        (folder / "config.yaml").unlink()
    elif place == "runs/stuff":  # a run that has lost all but its manifest
        shutil.copy(tmp_path / "runs" / "evil" / "manifest.json", folder)
    (folder / "mine.py").write_text("def mine(text): return True\n")
    task = {"rows": [{"id": "r", "prompt": "Q?"}], "checks": ["./mine.py"]}
    (folder / "eval.yaml").write_text(yaml.safe_dump({"task": task, "model": "simulated/1"}))
    words = ("run", str(folder / "eval.yaml"), "--name", "own")
    ended = harness(*words, env=environment(tmp_path), cwd=tmp_path, apart=True)
    assert ended.returncode == 0, ended.stderr
    assert f"Executing {folder}/mine.py" in ended.stderr


@pytest.mark.parametrize(
    "command", ["score c", "judge c --judge j --yes", "run runs/c/config.yaml --name d --dry-run"]
)
def test_all_files_that_a_run_names_are_reported(tmp_path: Path, command: str) -> None:
    """Also if the run says that it was made on this machine: any folder can say so."""
    executed = tmp_path / "executed"
    for name, answer in (("model", "'yes'"), ("judge", "'yes'"), ("check", "True")):
        code = f"open({str(executed)!r}, 'a').write('{name} ')\ndef {name}(text): return {answer}\n"
        (tmp_path / f"{name}.py").write_text(code)
    file = {
        "task": {
            **{"rows": [{"q": "a", "criteria": ["b"]}], "prompt": "{{ q }}"},
            "checks": ["./check.py"],
        },
        "model": {"backend": "./model.py"},
        "judges": [{"name": "yes_no", "as": "j", "model": {"backend": "./judge.py"}}],
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(file))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return harness(*words, env=environment(tmp_path), cwd=tmp_path, apart=True)

    for _ in range(2):
        ended = run("run", "c.yaml")
        assert ended.returncode == 0, ended.stderr
        assert "Executing" not in ended.stderr, "the user's file names them"
    executed.unlink()
    ended = run(*command.split())
    assert ended.returncode == 0, ended.stderr
    for name in executed.read_text().split():
        assert f"Executing {tmp_path}/{name}.py" in ended.stderr


LINKS = (
    *(
        "attempts.jsonl",
        "config.yaml",
        "manifest.json",
        "metrics.json",
        "rows.jsonl",
        "judges.json",
    ),
    *("scores.jsonl", "judgements.jsonl", "aggregates.json", "status.json", "stop.json", ".lock"),
    *("report.html", "labels", "servers", "gold"),
)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_in_a_run_is_not_followed(good: Path, tmp_path: Path, name: str) -> None:
    runs, target = tmp_path / "runs", tmp_path / "target"
    shutil.copytree(good, runs)
    shutil.copytree(runs / "good", runs / "other")
    path = runs / "good" / name
    if path.exists():
        path.rename(target)
    elif path.suffix or name == ".lock":
        target.write_text("<!doctype html>" if name == "report.html" else "{}")
    else:
        target.mkdir()
    path.symlink_to(target)
    before = target.read_bytes() if target.is_file() else b""
    refused = []
    commands = [
        *("ls", "show good", "show good --failed", "report good", "compare good other"),
        *("export good --output out.csv", "score good", "mv good moved", "mv moved good"),
    ]
    for command in filter(is_installed, commands):
        ended = harness(*command.split(), env=environment(tmp_path), cwd=tmp_path)
        assert "Traceback" not in ended.stderr, (command, ended.stderr)
        refused += [command] * (f"{name} is a link" in ended.stderr)
        assert target.exists(), command
        assert not target.is_dir() or not [*target.iterdir()], command
        assert not target.is_file() or target.read_bytes() == before, command
    if name in ("attempts.jsonl", "config.yaml", "manifest.json", "rows.jsonl"):
        needed = filter(is_installed, ("compare good other", "score good"))
        assert {*needed} <= {*refused}
    if name != ".lock":  # without a lock, nothing is deleted
        assert harness("rm", "good", "--yes", env=environment(tmp_path)).returncode == 0
    assert target.exists()


TASK = """
from pathlib import Path

from harness.plugin import PaperTable, TableFigure, Task
from harness.records import Instance, Message, Score

with Path({marker!r}).open("a") as file:
    file.write("executed ")


class Sums(Task):
    on_truncated = "fail"
    table = PaperTable("", "", (TableFigure("Sum Acc"),), "Sums (2026), Table 1")

    def instances(self):
        for n in range(4):
            yield Instance(str(n), n, {{"parity": str(n % 2)}})

    def fingerprint(self):
        return {{"dataset": "sums"}}

    def messages(self, instance, shots):
        return (Message("user", f"{{instance.data}} + 1?"),)

    def score(self, instance, text):
        return {{"correct": Score(text == str(instance.data + 1), text == str(instance.data + 1))}}

    def feedback(self, instance, text, scores):
        return "No."

    def reference(self, instance):
        return str(instance.data + 1)
"""


def test_the_table_of_a_task_in_a_file_is_recorded(tmp_path: Path) -> None:
    marker, code = tmp_path / "marker", tmp_path / "sums.py"
    code.write_text(TASK.format(marker=str(marker)))
    file = {"task": {"name": "sums.py"}, "model": {"backend": "simulated"}}
    (tmp_path / "sums.yaml").write_text(yaml.safe_dump(file))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return harness(*words, env=environment(tmp_path), cwd=tmp_path, apart=True)

    ended = run("run", "sums.yaml")
    assert ended.returncode == 0, ended.stderr
    assert "Executing" not in ended.stderr, "the file is the user's"
    executed = marker.read_text()
    shown = run("table", "sums")
    assert "Sum Acc" in shown.stdout
    assert "Executing" not in shown.stderr
    path = tmp_path / "runs" / "sums" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in manifest.items() if key != "display"}))
    earlier = run("table", "sums")
    assert "Sum Acc" not in earlier.stdout
    assert earlier.stderr.count("harness score RUN") == 1
    assert marker.read_text() == executed
    assert run("score", "sums").returncode == 0
    assert json.loads(path.read_text()) == manifest
    assert run("table", "sums").stdout == shown.stdout


def changed(path: Path, **entries: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def with_entry(path: Path, **entries: object) -> None:
    """Change the first line of a file."""
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | entries), *others, ""]))


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a time after the year 9999": (
        lambda run: changed(run / "manifest.json", started_at=1e300),
        "manifest.json is damaged",
    ),
    "a session without a time": (
        lambda run: changed(run / "manifest.json", sessions=[{"started_at": "now"}]),
        "manifest.json is damaged",
    ),
    "an endless round": (
        lambda run: with_entry(run / "attempts.jsonl", round=10**9),
        "attempts.jsonl, line 1: not an attempt",
    ),
    "an endless sample": (
        lambda run: with_entry(run / "attempts.jsonl", sample=10**9),
        "attempts.jsonl, line 1: not an attempt",
    ),
    "a pipe": (
        lambda run: ((run / "attempts.jsonl").unlink(), os.mkfifo(run / "attempts.jsonl")),
        "attempts.jsonl is not a regular file",
    ),
    "a device": (
        lambda run: (
            (run / "attempts.jsonl").unlink(),
            os.mknod(run / "attempts.jsonl", stat.S_IFCHR | 0o666, os.makedev(1, 5)),
        ),
        "attempts.jsonl is not a regular file",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_run_hides_no_other(good: Path, tmp_path: Path, name: str) -> None:
    if name == "a device" and os.geteuid():
        pytest.skip("only root creates devices")
    runs = tmp_path / "runs"
    shutil.copytree(good, runs)
    shutil.copytree(runs / "good", runs / "bad")
    damage, problem = HOSTILE[name]
    damage(runs / "bad")
    listed = harness("ls", "--format", "json", env=environment(tmp_path))
    assert listed.returncode == 0, listed.stderr
    assert [one["complete"] for one in json.loads(listed.stdout) if one["run"] == "good"] == [True]
    for command in filter(INSTALLED.__contains__, ("show", "report")):
        ended = harness(command, "bad", env=environment(tmp_path), cwd=tmp_path)
        assert ended.returncode == 1
        assert problem in " ".join(ended.stderr.split())


def test_a_pipe_is_no_run_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.yaml")
    ended = harness("run", tmp_path / "run.yaml", env=environment(tmp_path))
    assert "run.yaml is not a regular file" in ended.stderr


def test_an_error_message_has_no_control_characters(tmp_path: Path) -> None:
    ended = harness("rm", "\x1b[31mred", env=environment(tmp_path), apart=True)
    assert "'\\x1b[31mred' cannot name a run" in ended.stderr


@pytest.mark.parametrize("command", ["show", "rm --yes"])
def test_commands_that_read_runs_do_not_execute_the_code_of_a_run_file(
    tmp_path: Path, command: str
) -> None:
    executed = tmp_path / "executed"
    code = f"open({str(executed)!r}, 'a').write('x')\ndef answer(prompt): return 'yes'\n"
    (tmp_path / "app.py").write_text(code)
    task = {"rows": [{"q": "a", "target": "yes"}], "prompt": "{{ q }}", "checks": ["contains"]}
    file = {"task": task, "model": {"backend": "./app.py"}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(file))
    words = command.split()
    if not has_verb(words[0]):
        pytest.skip("its package is not installed")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        apart: dict[str, bool] = {"close_fds": True}  # in a process of its own: it has loaded none
        return harness(*words, env=environment(tmp_path), cwd=tmp_path, **apart)

    assert run("run", "c.yaml").returncode == 0
    executed.unlink()
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(file | {"samples": 3, "seed": 7}))
    ended = run(*words, "c.yaml")
    assert ended.returncode == 1
    assert "started with different values: " in ended.stderr, "what the file states is compared"
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(file))
    ended = run(*words, "c.yaml")
    assert ended.returncode == 0, ended.stderr
    assert not executed.exists()


def test_folders_that_were_exchanged_are_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, accuracy in (("a", "0.9"), ("b", "0.1"), ("c", "0.5")):
        ended = harness(*QUICK, name, "-o", f"model.accuracy={accuracy}", env=on(runs))
        assert ended.returncode == 0, ended.stderr
    (runs / "a").rename(tmp_path / "aside")
    (runs / "b").rename(runs / "a")
    (tmp_path / "aside").rename(runs / "b")
    readers = [
        ["show", "a"],
        ["export", "b", "--output", str(tmp_path / "x.csv")],
        ["show", "a", "--failed"],
    ]
    if has_verb("check"):
        readers += [["check", "a", "--min", "pass_rate=0"], ["compare", "c", "a"], ["table", "a"]]
        readers += [["check", "c", "--min", "pass_rate=0", "--baseline", "a", "--max-drop", "1"]]
    for words in readers:
        if has_verb(words[0]):
            said = mistake(harness(*words, env=on(runs)))
            assert "folders were exchanged" in said, words
    assert harness("show", "c", env=on(runs)).returncode == 0
    as_recorded = (*QUICK, "a", "-o", "model.accuracy=0.1", "-o", "samples=5")
    assert "folders were exchanged" in mistake(harness(*as_recorded, env=on(runs)))
    # Exchanging the names again is possible with the harness, too.
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        assert harness("mv", old, new, env=on(runs)).returncode == 0
    assert harness("show", "a", env=on(runs)).returncode == 0


def test_a_folder_that_was_renamed_or_copied_says_which_run_it_holds(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert harness(*QUICK, "a", env=on(runs)).returncode == 0
    (runs / "a").rename(runs / "b")
    ended = begun("show", "b", env=on(runs)).ended()
    assert ended.returncode == 0, ended.stderr
    assert "The folder b was renamed from the run 'a'." in ended.stderr
    shutil.copytree(runs / "b", runs / "a")
    ended = begun("show", "b", env=on(runs)).ended()
    assert "The folder b is a copy of the run 'a'." in ended.stderr
    shutil.rmtree(runs / "a")
    assert harness(*QUICK, "a", "-o", "model.accuracy=0", env=on(runs)).returncode == 0
    for name in ("a", "b"):  # a new run with the earlier name
        assert harness("show", name, env=on(runs)).returncode == 0
    assert harness(*QUICK, "b", env=on(runs)).returncode == 0
    assert "renamed" not in begun("show", "b", env=on(runs)).ended().stderr
