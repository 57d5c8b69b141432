"""`harness doctor`: what it sees, what it never shows, and how long it takes."""

import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.backends.openai import PRESETS
from harness.datasets.catalogue import catalogue
from harness.plugin import CheckupFinding
from harness.plugins.doctor.verb import Endpoint, ask_all
from harness.plugins.mock.server import MockServer
from tests.cli.command import COMMAND, ROOT, harness, mistake, words
from tests.installed import install_plugin

CANARY = "sk-canary-1234567890"
KEYS = {preset.key: CANARY for preset in PRESETS.values() if preset.key}
KEYS["ANTHROPIC_API_KEY"] = CANARY


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)


def timed(*arguments: str, **options: object) -> tuple[subprocess.CompletedProcess[str], float]:
    start = time.monotonic()
    ended = harness("doctor", *arguments, **options)
    return ended, time.monotonic() - start


def takes_less(run: Callable[[], tuple[object, float]], seconds: float) -> bool:
    """Whether one of three runs is as fast: the machine may have other things to do."""
    return any(run()[1] < seconds for _ in range(3))


def test_the_credentials_of_clouds_are_named_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(f"[default]\naws_secret_access_key={CANARY}\n")
    account = {"HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": f"/{CANARY}.json"}
    ended = harness("doctor", "--no-network", env=os.environ | account)
    said = words(ended.stdout)
    assert "ok Google Cloud credentials GOOGLE_APPLICATION_CREDENTIALS" in said
    assert "ok AWS credentials ~/.aws/credentials" in said
    assert "- no credentials Azure" in said
    assert CANARY not in ended.stdout


def test_the_commit_of_a_clone_is_named_but_not_that_of_a_repository_around_it(
    tmp_path: Path,
) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def reported(folder: Path) -> str:
        (folder / "harness").symlink_to(ROOT / "harness")
        env = os.environ | {"PYTHONPATH": str(folder)}
        command = [*COMMAND, "doctor", "--no-network"]
        ended = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
        return words(ended.stdout)

    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    commit = git("rev-parse", "--short", "HEAD")
    assert f"ok harness 0.1.0, commit {commit} " in reported(tmp_path)
    (tmp_path / "file").write_text("2")
    (tmp_path / "harness").unlink()
    assert f"ok harness 0.1.0, commit {commit}-dirty " in reported(tmp_path)
    packages = tmp_path / "site-packages"
    packages.mkdir()
    text = reported(packages)
    assert "ok harness 0.1.0" in text
    assert "commit" not in text


def test_a_fresh_machine(tmp_path: Path) -> None:
    environment = os.environ | {"HARNESS_DATA_DIR": str(tmp_path / "data"), "NLTK_DATA": ""}
    for width in (60, 80):
        ended = harness("doctor", "--no-network", env=environment | {"COLUMNS": f"{width}"})
        assert ended.returncode == 0, ended.stderr
        said = words(ended.stdout)
        assert "ok harness 0.1.0" in said
        assert "ok report vl-convert-python" in said
        assert "pip install 'harness-instruct[NAME]'" in said
        assert "- collie missing" in said
        assert "harness data fetch collie" in said
        assert "- not set ANTHROPIC_API_KEY, AZURE_OPENAI_API_KEY" in said
        assert "export NAME=…" in said
        assert all(len(line) <= width for line in ended.stdout.splitlines())
    assert not (tmp_path / "data").exists(), "nothing is made"


def test_tokeniser_parameters_are_found_where_nltk_finds_them(tmp_path: Path) -> None:
    for product in catalogue()["punkt"].products:
        path = tmp_path / Path(product.path).relative_to("nltk_data")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    ended = harness("doctor", "--no-network", env=os.environ | {"NLTK_DATA": str(tmp_path)})
    assert f"punkt  installed in {tmp_path}".replace(" ", "") in "".join(ended.stdout.split())


def test_no_key_is_shown(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={CANARY}\n")
    bad = {"XAI_API_KEY": f"{CANARY}\n2"}
    for environment in (KEYS | bad, {}):
        ended = harness("doctor", "--no-network", env=os.environ | environment, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert "ok OPENAI_API_KEY is set" in words(ended.stdout)
        assert CANARY not in ended.stdout + ended.stderr
        assert (
            "XAI_API_KEY is set to something that cannot be a key" in words(ended.stdout)
        ) == bool(environment)


def test_a_folder_that_cannot_be_written_is_what_every_run_needs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, code in (("RUNS", 1), ("CACHE", 1), ("DATA", 0)):
        variable = f"HARNESS_{name}_DIR"
        ended = harness(
            "doctor", "--no-network", env=os.environ | {variable: str(tmp_path / "file" / "x")}
        )
        assert ended.returncode == code, name
        assert f"set {variable} to another folder" in words(ended.stdout)


@pytest.mark.timed
def test_without_a_network_it_takes_less_than_two_seconds() -> None:
    assert takes_less(lambda: timed("--no-network"), 2)
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rn", "true"]).returncode:
        pytest.skip("no network can be taken away here")

    def cut_off() -> tuple[subprocess.CompletedProcess[str], float]:
        start = time.monotonic()
        ended = subprocess.run(
            ["unshare", "-rn", *COMMAND, "doctor"],
            cwd=ROOT, env=os.environ | KEYS, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        taken = time.monotonic() - start
        assert ended.returncode == 0, ended.stderr
        assert "openai cannot be reached" in words(ended.stdout)
        assert "- not running ollama" in words(ended.stdout)
        assert CANARY not in ended.stdout + ended.stderr
        return ended, taken

    assert takes_less(cut_off, 2)


def found(*endpoints: Endpoint, seconds: float = 5.0) -> list[CheckupFinding]:
    return ask_all(endpoints, seconds)


def listed(server: MockServer, key: str | None = None) -> Endpoint:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return Endpoint("it", f"{server.base_url}/models", "MY_KEY" if key else None, headers)


def test_a_server_that_answers(mock_server: MockServer) -> None:
    assert found(listed(mock_server)) == [CheckupFinding("ok", "it", "answers")]


def test_a_wrong_key_is_named_and_not_shown() -> None:
    with MockServer(api_key="sk-right") as server:
        (wrong,) = found(listed(server, CANARY))
        (right,) = found(listed(server, "sk-right"))
        (none,) = found(listed(server))
        assert CANARY not in repr(listed(server, CANARY))
    assert right.state == "ok"
    assert (wrong.detail, wrong.remedy) == ("rejects the key (401)", "Check the key in MY_KEY.")
    assert none.state == "lack"


@pytest.mark.timed
def test_what_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        several = [Endpoint(f"{n}", f"http://127.0.0.1:{port}/models") for n in range(20)]
        findings = found(*several, seconds=0.5)
        assert time.monotonic() - start < 0.9, "all at once"
    assert {finding.detail.partition(":")[0] for finding in findings} == {"no answer in 0.5 s"}
    (refused,) = found(Endpoint("it", f"http://127.0.0.1:{port}/models"))
    assert "Start one" in refused.remedy
    (hosted,) = found(Endpoint("it", f"http://127.0.0.1:{port}/models", "MY_KEY"))
    assert "cannot be reached" in hosted.detail


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Sends everyone on to where the next one listens."""

    status, location = 302, ""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("location", self.location)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def elsewhere(mock_server: MockServer) -> Iterator[str]:
    handler = type("Handler", (_Elsewhere,), {"location": f"{mock_server.base_url}/models"})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/models"
        server.shutdown()
        thread.join()


def test_a_key_goes_nowhere_else(elsewhere: str, mock_server: MockServer) -> None:
    (finding,) = found(Endpoint("it", elsewhere, "MY_KEY", {"authorization": CANARY}))
    assert finding.state == "lack"
    assert "unexpected status 302" in finding.detail
    assert mock_server.stats().requests == 0


def test_a_local_server_shows_up_in_the_command(tmp_path: Path) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 11434)) == 0:
            pytest.skip("something listens where Ollama does")
    with MockServer(port=11434):
        ended = harness("doctor")
    assert "ok ollama answers" in words(ended.stdout)


def test_gpus_and_what_starts_vllm(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, NVIDIA H100, 81559 MiB, 80000 MiB'\n")
    smi.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CUDA_VISIBLE_DEVICES": "0",
        "HARNESS_VLLM_COMMAND": f"{shutil.which('sh')} -c 'serve it'",
        "COLUMNS": "100",
    }
    said = words(harness("doctor", "--no-network", env=environment).stdout)
    assert "ok GPU 0 NVIDIA H100, 81559 MiB, 80000 MiB free" in said
    assert "allows 0" in said
    assert "vLLM's server started by" in said
    smi.write_text("#!/bin/sh\necho 'no driver' >&2; exit 9\n")
    environment["HARNESS_VLLM_COMMAND"] = "/no/such program"
    said = words(harness("doctor", "--no-network", env=environment).stdout)
    assert "nvidia-smi fails: no driver" in said
    assert "names a program that does not exist: /no/such" in said


def test_a_dotenv_file_in_another_encoding_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=caf\xe9\n")
    assert ".env is not UTF-8 text" in mistake(harness("doctor", cwd=tmp_path))


@pytest.mark.parametrize(
    ("members", "fields", "fault"),
    [
        ({"tasks": {"t": "Absent"}}, "", "task 't' cannot be imported (AttributeError: module"),
        ({"api": {"f": "absent"}}, "", "api 'f' cannot be imported (AttributeError: module"),
        ({}, "extensions={'kind': {'x': 'third:absent'}}", "kind 'x' cannot be imported"),
        ({}, "report_sections={'s': 'absent_module:S'}", "report-section 's' cannot be imported"),
        ({}, "requires=('reprt',)", "requires the plug-in 'reprt', which is not installed"),
        (
            {},
            "verbs={'show': Verb(summary='', heading='Run', target='third:verb')}",
            "verb 'show': another verb of this name",
        ),
        (
            {},
            "verbs={'words': Verb(summary='', heading='Run', target='third:absent')}",
            "verb 'words' cannot be imported",
        ),
        (
            {},
            "verbs={'words': Verb(summary='', heading='Run', target='third:unannotated')}",
            "its parameter 'run' has no annotation",
        ),
    ],
)
def test_a_plug_in_that_cannot_work_is_named(
    tmp_path: Path, members: dict[str, dict[str, str]], fields: str, fault: str
) -> None:
    code = """
        def verb(run: str): ...
        def unannotated(run): ...
        """
    install_plugin(tmp_path, code, members, fields=fields)
    ended = harness("doctor", "--no-network", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert ended.returncode == 1, ended.stderr
    [_, said] = words(ended.stdout).split("!! third ")
    assert fault in said.partition(" ok ")[0]
    assert "Fix or uninstall third." in said


def test_a_plug_in_that_fails_on_import_is_named_with_its_line(tmp_path: Path) -> None:
    install_plugin(tmp_path, "\n\nraise ValueError('no rows')", {"tasks": {"t": "T"}})
    ended = harness("doctor", "--no-network", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert "task 't' cannot be imported (ValueError: no rows; third.py, line 3)" in words(
        ended.stdout
    )


@pytest.mark.parametrize("site", ["local", "site-packages"])
@pytest.mark.parametrize("call", ["json.loads('x')", "library.parse('x')"])
def test_a_plug_in_that_fails_in_a_library_is_named_with_its_own_line(
    tmp_path: Path, site: str, call: str
) -> None:
    libraries = tmp_path / "libraries" / "site-packages"
    libraries.mkdir(parents=True)
    (libraries / "library.py").write_text("def parse(text):\n    return int(text)\n")
    install_plugin(tmp_path / site, f"import json, library\n\n{call}", {"tasks": {"t": "T"}})
    path = os.pathsep.join([str(tmp_path / site), str(libraries)])
    ended = harness("doctor", "--no-network", env=os.environ | {"PYTHONPATH": path})
    assert "; third.py, line 3)" in words(ended.stdout)


def test_a_plug_in_that_fails_in_another_of_its_files_is_named_with_that_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.py").write_text("\n\n\nraise ValueError('no rows')\n")
    install_plugin(tmp_path, "import rows", {"tasks": {"t": "T"}})
    ended = harness("doctor", "--no-network", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert "(ValueError: no rows; rows.py, line 4)" in words(ended.stdout)
