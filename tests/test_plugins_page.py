"""The plug-ins that docs/plugins.md shows are right, and its tables name what there is."""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from harness.config.run_file import RunFile
from harness.plugin_interface import problems
from harness.plugin_loader import PACKAGES, SUPPLIED, _registered
from harness.plugins.testing import check_backend, check_checker, check_judge, check_task
from harness.ports import BASES
from harness.records import DecodingConstraint, Instance
from tests.plugins.report.pages import reported_run
from tests.report.attempts import attempt

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page's Python defines."""
    defined: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        patch.setenv("HARNESS_CACHE_DIR", "cache")
        for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
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
    assert problems("observers", observer) == []
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
    for kind in PACKAGES:
        assert f"| `{kind}` |" in PAGE, kind
        for parameter in SUPPLIED.get(kind, {}):
            assert f"`{parameter}`" in PAGE, parameter
        base = BASES[kind]
        members = {*inspect.get_annotations(base), *dir(base)} if isinstance(base, type) else set()
        for member in members:
            assert member.startswith("_") or f"`{member}`" in PAGE, member


def test_the_section_of_a_report(shown: dict[str, Any], tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a"), attempt("b")])
    [counts] = shown["AnswerCounts"](run.index, "run", True).tables("run")
    assert (counts.title, counts.rows[0].cells) == ("Answers of run", [2])
