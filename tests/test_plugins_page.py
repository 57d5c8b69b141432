"""The plug-ins that docs/plugins.md shows are right, and its tables name what there is."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import pkgutil
import re
import shlex
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from harness.config.run_file import RunFile
from harness.plugin import Plugin
from harness.plugin_interface import interface_problems
from harness.plugin_loader import SUPPLIED_PARAMETERS, _registered
from harness.plugins.testing import check_backend, check_checker, check_judge, check_task
from harness.ports import BASE_CLASSES
from harness.records import DecodingConstraint, Instance
from tests.cli.command import harness, mistake, words
from tests.plugins.report.pages import data

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text()

FILE = re.compile(r"# (harness_lipogram/\S+)\n")
"""The first line of a block that is a file of the example package."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of commands with the page's package installed."""
    folder = tmp_path_factory.mktemp("package")
    site = folder / "site"
    (site / "harness_lipogram").mkdir(parents=True)
    (site / "harness_lipogram/__init__.py").touch()
    for block in blocks("python"):
        if file := FILE.match(block):
            (site / file[1]).write_text(block)
    [rows] = blocks("json")
    (site / "harness_lipogram/rows.jsonl").write_text(rows)
    [prompt] = [block for block in blocks("text") if block.startswith("Write")]
    (site / "harness_lipogram/prompt.txt").write_text(prompt)
    project = tomllib.loads(blocks("toml")[0])
    info = site / "harness_lipogram-1.0.dist-info"
    info.mkdir()
    name, version = project["project"]["name"], project["project"]["version"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = project["project"]["entry-points"]["harness"].items()
    lines = [f"{plugin} = {module}\n" for plugin, module in points]
    (info / "entry_points.txt").write_text("".join(["[harness]\n", *lines]))
    folders = {f"HARNESS_{kind}_DIR": str(folder / kind.lower()) for kind in ("RUNS", "CACHE")}
    return os.environ | folders | {"PYTHONPATH": str(site)}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page's Python defines."""
    defined: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        patch.setenv("HARNESS_CACHE_DIR", "cache")
        for block in blocks("python"):
            if not FILE.match(block):
                exec(block, defined)
        yield defined
    _registered.clear()


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert self.headers["authorization"] == "Bearer key"
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert sent["model"] == "model"
        assert [sorted(message) for message in sent["messages"]] == [["content", "role"]]
        said = {"text": "yes", "finish_reason": "stop", "tokens_in": 3, "tokens_out": 1}
        content = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_task(shown: dict[str, Any]) -> None:
    capitals = shown["CAPITALS"]
    assert check_task(shown["CapitalsTask"](), hidden=lambda one: capitals[one.id]) == []


def test_the_function(shown: dict[str, Any]) -> None:
    [sample] = shown["run"].samples()
    assert (sample.passed, sample.text[:20]) == (True, "In a long style: Wha")


def test_the_checker(shown: dict[str, Any]) -> None:
    assert check_checker(shown["MaxWords"](2), passes=["a b"], fails=["a b c"]) == []


def test_the_judge(shown: dict[str, Any]) -> None:
    replies = {"Yes.": True, "no": False}
    assert check_judge(shown["Politeness"](), Instance("a", "a"), "Thanks.", replies=replies) == []


def test_the_backend(shown: dict[str, Any], url: str) -> None:
    def at(url: str) -> Any:
        return shown["Example"](url, secret=lambda name: "key", concurrency=8, timeout_s=10)

    assert check_backend(at(url), at=at) == []


def test_the_backend_without_http(shown: dict[str, Any]) -> None:
    assert check_backend(shown["Echo"](), expected=lambda prompt: prompt) == []


def test_the_observer(shown: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    observer = shown["Chat"]()
    assert interface_problems("observers", observer) == []
    observer.run_begun(SimpleNamespace(name="mine"))
    observer.attempt(SimpleNamespace(outcome="error"))
    observer.run_ended("failed", {})
    assert capsys.readouterr().out == "mine: failed, pass rate None, 1 failed calls\n"


def test_the_constraint_and_the_run_file(shown: dict[str, Any]) -> None:
    [constraint] = re.findall(r"`harness.records.DecodingConstraint\(regex=\"(.*?)\"\)`", PAGE)
    task = type("Constrained", (shown["CapitalsTask"],), {"constraint_kind": "regex"})
    task.constraint = lambda self, instance: DecodingConstraint(regex=constraint)
    assert check_task(task()) == []
    [shown_file] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    run = RunFile.model_validate(yaml.safe_load(shown_file))
    assert [judge.name for judge in run.judges] == ["politeness"]


def test_its_tables_name_every_kind_parameter_and_optional_member() -> None:
    for kind in BASE_CLASSES:
        assert f"| `{kind}` |" in PAGE, kind
        for parameter in SUPPLIED_PARAMETERS.get(kind, {}):
            assert f"`{parameter}`" in PAGE, parameter
        base = BASE_CLASSES[kind]
        members = {*inspect.get_annotations(base), *dir(base)} if isinstance(base, type) else set()
        for member in members:
            assert member.startswith("_") or f"`{member}`" in PAGE, member


def test_the_files_that_it_names_exist() -> None:
    for file in re.findall(r"`((?:harness|tests)/[\w/.]+)`", PAGE):
        assert (Path(__file__).parents[1] / file).exists(), file


def test_the_names_of_the_harness_that_it_mentions_exist() -> None:
    for name in re.findall(r"`(harness(?:\.\w+)+)`", PAGE):
        if not name.isupper() and name != "harness.NAME":
            pkgutil.resolve_name(name)


def test_its_index_names_every_field_of_a_declaration() -> None:
    for field in dataclasses.fields(Plugin):
        assert field.name == "summary" or f"| `{field.name}` |" in PAGE, field.name


def test_the_commands_for_the_package_run(package: dict[str, str]) -> None:
    [commands] = re.findall(r"^```sh no-run\n(harness doctor.*?)^```$", PAGE, re.M | re.DOTALL)
    printed = {}
    for command in commands.splitlines():
        ended = harness(*shlex.split(command)[1:], env=package)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        printed[command.split()[1]] = ended.stdout
    assert "ok lipogram Sentences without the letter e. (harness-lipogram)" in words(
        printed["doctor"]
    )
    assert "SIMULATED" in printed["lengths"]
    page = Path(package["HARNESS_RUNS_DIR"]) / "try.lipogram.simulated/report.html"
    sections = {section["title"]: section for section in data(page, "overview")["sections"]}
    [lengths] = sections["Answer lengths"]["parts"]
    assert "Words of the answers of try.lipogram.simulated" in lengths["title"]
    assert [row["cells"][1]["text"] for row in lengths["rows"]] == ["short", "long"]


def test_the_task_of_the_package(package: dict[str, str], tmp_path: Path) -> None:
    row = {"id": "cat", "words": 3, "length": "short", "reference": "A cat sits."}
    (tmp_path / "few.jsonl").write_text(json.dumps(row))
    model = {"backend": "simulated", "accuracy": 1.0}
    tree = {"task": {"name": "lipogram", "path": "few.jsonl"}, "model": model}
    (tmp_path / "few.yaml").write_text(json.dumps(tree))
    ended = harness("run", tmp_path / "few.yaml", env=package)  # in another folder
    assert ended.returncode == 0, ended.stderr
    assert "1.0000" in ended.stdout
    table = harness("table", "few", env=package)
    assert "Us 2026, table 1" in table.stdout, table.stderr


def test_the_verb_of_the_package(package: dict[str, str], tmp_path: Path) -> None:
    model = {"backend": "simulated", "accuracy": 1.0}
    tree = {"task": {"name": "lipogram"}, "model": model}
    (tmp_path / "right.yaml").write_text(json.dumps(tree))
    assert harness("run", tmp_path / "right.yaml", env=package).returncode == 0
    listed = json.loads(harness("lengths", "right", "--format", "json", env=package).stdout)
    assert listed == [
        {"length": "short", "answers": 1, "words": 5.0},
        {"length": "long", "answers": 1, "words": 8.0},
    ]
    assert "no label 'size'" in mistake(harness("lengths", "right", "--by", "size", env=package))


def test_a_judge_that_no_simulated_model_can_be_is_refused_with_what_to_write(
    tmp_path: Path,
) -> None:
    [code] = [block for block in blocks("python") if "class Politeness" in block]
    (tmp_path / "politeness.py").write_text(code)
    judge = {"name": "./politeness.py", "model": {"backend": "simulated"}}
    tree = {"task": {"name": "collie"}, "model": {"backend": "simulated"}, "judges": [judge]}
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    said = mistake(harness("run", tmp_path / "run.yaml", "--limit", "1"))
    assert "cannot be simulated" in said
    assert "give its class the method 'simulated'" in said
