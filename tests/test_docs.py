"""Every command in the README and in docs/ is run, as it stands there."""

import ast
import contextlib
import importlib
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from string import Template

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs/tutorials"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS.glob("*.md")]
QUICK = ("README", "check", "eval", "jsonl", "study")
"""The pages of a first day. The commands of the others are in the exhaustive stage."""
EXHAUSTIVE = pytest.mark.exhaustive
WITHOUT_COMMANDS = ("README.md", "install.md", "pages.md", "python.md", "scale.md")
BLOCK = re.compile(r"^```(\S+)(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = r"harness [^|&<>;`\n]*\n"
SIMPLE = re.compile(rf"((?:^{COMMAND})*)((?:^(?!{COMMAND}).*\n?)*)", re.MULTILINE)
"""Commands that need no shell, which run in this process, and the lines up to the next ones."""
BACKGROUND = re.compile(r"&$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def commands(page: Path) -> list[str]:
    """The shell blocks of a page that it does not mark as needing more than this machine."""
    blocks = BLOCK.findall(page.read_text().replace("\\\n", " "))
    return [text for kind, mark, text in blocks if kind == "sh" and "no-run" not in mark]


@pytest.mark.parametrize(
    "page",
    [pytest.param(one, marks=[] if one.stem in QUICK else EXHAUSTIVE) for one in PAGES],
    ids=lambda page: page.name,
)
def test_the_commands_of_a_page_run(page: Path) -> None:
    # The suite itself runs from the first two; a live page does not end by itself.
    left_out = ["git clone", "scripts/", "harness view"]
    if not entry_points(group="pytest11", name="harness"):  # installed before it had the plug-in
        left_out.append("pytest")
    blocks = commands(page)
    assert blocks or page.name in WITHOUT_COMMANDS, "a page without a command"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    bin_ = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}"}
    environment["PYTEST_ADDOPTS"] = "-p harness.plugins.pytest"  # this repository loads no others
    for block in blocks:
        lines = block.replace("8077", port).splitlines(keepends=True)
        script = "".join(line for line in lines if not line.startswith(tuple(left_out)))
        if BACKGROUND.search(script):
            environment = shell(script, environment)
            continue
        for simple, others in SIMPLE.findall(script):
            for command in simple.splitlines():
                given = shlex.split(Template(command).safe_substitute(environment), comments=True)
                ended = harness(*given[1:], env=environment | {"PATH": os.environ["PATH"]})
                assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
            if others.strip():
                environment = shell(others, environment)


@EXHAUSTIVE
def test_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RUNS_DIR", "runs")
    page = (ROOT / "docs/python.md").read_text()
    code = "\n".join(text for kind, _, text in BLOCK.findall(page) if kind == "python")
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "runs/mine/metrics.json").is_file()


def test_the_notebook_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RUNS_DIR", "runs")
    notebook = json.loads((TUTORIALS / "json_output.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    values: dict[str, object] = {}
    for cell in cells:
        *lines, last = ast.parse("".join(cell["source"])).body
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(lines, []), "cell", "exec"), values)
            if isinstance(last, ast.Expr):
                print(eval(compile(ast.Expression(last.value), "cell", "eval"), values))
            else:
                exec(compile(ast.Module([last], []), "cell", "exec"), values)
        for output in cell["outputs"]:
            shown = output.get("text") or output["data"]["text/plain"]
            assert "".join(shown).split() == printed.getvalue().replace("None", "").split()
    assert (tmp_path / "runs/large/metrics.json").is_file()
    text = "".join(line for cell in notebook["cells"] for line in cell["source"])
    [(_, _, code)] = [block for block in BLOCK.findall(text) if "constraint" in block[2]]
    with MockServer() as server:
        model = {"backend": "openai", "preset": "openai", "name": "m", "base_url": server.base_url}
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        code = code.replace('model="openai/gpt-4o-mini", ', "progress=False, ")
        exec(f"study['model'] = {model}\n{code}", values)
        assert len(server.bodies()) == 2 * 60  # without and with the schema
    assert "minimum: 1" in (tmp_path / "runs/constrained/config.yaml").read_text()


@EXHAUSTIVE
@pytest.mark.parametrize(("accuracy", "code"), [(1.0, 0), (0.0, 4)])
def test_the_gate_of_a_pull_request_that_edits_rows_and_checks(
    tmp_path: Path, accuracy: float, code: int
) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def write(n: int, accuracy: float, prompt: str, schema: dict[str, object]) -> None:
        rows = [{"id": str(row), "q": f"Row {row}", "target": "{}"} for row in range(n)]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / "schema.json").write_text(json.dumps(schema))
        checks = ["./exact.py", {"json_schema": {"schema": "schema.json"}}][: 1 + n // 200]
        task = {"path": "rows.jsonl", "prompt": prompt, "checks": checks}
        model = {"backend": "simulated", "accuracy": accuracy}
        check = {"min": {"pass_rate": 0.5}}
        tree = {"task": task, "model": model, "check": check}
        (tmp_path / "quality.yaml").write_text(json.dumps(tree))
        source = f"def check(text):\n    return text == '{{}}'  # {n}\n"
        (tmp_path / "exact.py").write_text(source)

    page = BLOCK.findall((ROOT / "docs/check.md").read_text())
    [script] = [text for kind, _, text in page if kind == "sh" and "git show" in text]
    git("init", "-q", "-b", "main")
    write(150, 1.0, "{{ q }}", {})
    git("add", ".")
    git("commit", "-q", "-m", "Main")
    git("remote", "add", "origin", str(tmp_path))
    git("checkout", "-q", "-b", "change")
    write(200, accuracy, "New: {{ q }}", {"type": "object"})
    bin_ = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "HARNESS_RUNS_DIR": "runs"}
    ended = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert "change of pass_rate        200" in ended.stdout


def shell(script: str, environment: dict[str, str]) -> dict[str, str]:
    """Run a part of a page by bash, and return the environment with what it has assigned."""
    with tempfile.TemporaryFile("w+") as output, tempfile.NamedTemporaryFile("r") as after:
        running = subprocess.Popen(
            ["bash", "-euac", f"{script}\nenv -0 > {after.name}"],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            code = running.wait(120)
        finally:  # a server that a failed page has left behind, too
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
        output.seek(0)
        assert code == 0, output.read()
        return dict(each.split("=", 1) for each in after.read().split("\0") if each)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_yaml_of_a_page_parses(page: Path) -> None:
    for text in (text for kind, _, text in BLOCK.findall(page.read_text()) if kind == "yaml"):
        assert yaml.safe_load(text) is not None, text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_python_of_a_page_imports_exists(page: Path) -> None:
    for text in (text for kind, _, text in BLOCK.findall(page.read_text()) if kind == "python"):
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.ImportFrom(module=str() as module) if module.split(".")[0] == "harness":
                    names = [alias.name for alias in node.names]
                case ast.Attribute(value=ast.Name(id="harness"), attr=name):
                    module, names = "harness", [name]
                case _:
                    continue
            imported = importlib.import_module(module)
            for name in names:
                assert hasattr(imported, name), f"{module} has no {name}"
