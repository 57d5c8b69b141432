"""Every mistake that a user can make: a message with the remedy, no traceback, nothing lost."""

import os
import resource
import signal
import socket
from pathlib import Path

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import ROOT, begun, harness, mistake, on
from tests.installed import has_verb
from tests.rows import GPT4_FILE, QUICKSTART, TASK

GPT4 = ("run", GPT4_FILE)


def test_a_missing_key_names_the_variable_before_any_work(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    said = mistake(harness(*GPT4, env=os.environ | {"HARNESS_RUNS_DIR": str(runs)}))
    assert "OPENAI_API_KEY" in said
    assert not runs.exists()


def test_a_wrong_key() -> None:
    with MockServer(api_key="sk-right") as server:
        ended = harness(
            *GPT4, "-o", f"model.base_url={server.base_url}", "-o", "model.api_key_env=MY_KEY",
            env=os.environ | {"MY_KEY": "sk-wrong"},
        )  # fmt: skip
        asked = server.stats().requests
    said = mistake(ended)
    assert "401" in said
    assert "MY_KEY" in said
    assert "sk-wrong" not in ended.stdout + ended.stderr
    assert asked <= 100, "no more than the concurrency"


def test_a_wrong_model() -> None:
    with MockServer(models=["gpt-9"]) as server:
        said = mistake(harness(*GPT4, "-o", f"model.base_url={server.base_url}"))
    assert "404" in said
    assert "model.name ('gpt-4')" in said


def test_an_unreachable_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    said = mistake(harness(*GPT4, "-o", f"model.base_url={url}"))
    assert f"Cannot reach {url}" in said
    assert "model.base_url" in said


def test_a_malformed_run_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(TASK + "model: {backend: simulated}\nsampels: 3\n")
    said = mistake(harness("run", file))
    assert str(file) in said
    assert "did you mean 'samples'" in said


@pytest.mark.parametrize(
    "axis", ["matrix: {model: [openai/a, openai/b]}", "variants: {a: {model: openai/a}, b: {}}"]
)
def test_a_key_of_a_model_that_a_variant_gives_by_name(tmp_path: Path, axis: str) -> None:
    file, env = tmp_path / "w.yaml", os.environ | {"OPENAI_API_KEY": "k"}
    file.write_text(TASK + f"model: openai/c\n{axis}\n")
    for key, value in {"model.name": "foo", "model.backend": "simulated"}.items():
        said = mistake(harness("run", file, "-o", f"{key}={value}", env=env))
        assert f"a': it sets {key}, so an override has no effect." in said, said
    with MockServer() as server:
        url = f"model.base_url={server.base_url}"
        ended = harness("run", file, "--limit", "1", "-o", url, env=env)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("model.backend=simulate", "simulated"),
        ("task.name=jsonll", "jsonl"),
        ("model.acuracy=1", "accuracy"),
        ("task.grups=[a]", "groups"),
        ("task.name=Jsonl", "jsonl"),
    ],
)
def test_a_mistyped_name(option: str, nearest: str) -> None:
    said = mistake(harness("run", QUICKSTART, "-o", option))
    assert f"Did you mean {nearest!r}?" in said


def test_an_unwritable_runs_folder(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    ended = harness(
        "run", QUICKSTART,
        env=os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")},
    )  # fmt: skip
    assert "HARNESS_RUNS_DIR" in mistake(ended)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: it fails the same write."""

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    command = ("run", QUICKSTART, "-o", "samples=8")
    said = mistake(harness(*command, env=environment, preexec_fn=small_files))
    assert "attempts.jsonl" in said
    assert "free some space" in said.lower()
    file = tmp_path / "quickstart" / "attempts.jsonl"
    kept = file.read_bytes()
    assert kept.endswith(b"\n")
    assert len(kept) > 50_000
    assert harness(*command, env=environment).returncode == 0
    assert file.read_bytes().startswith(kept)
    keys = [
        (a["instance"], a["sample"], a["round"])
        for a in map(msgspec.json.decode, file.read_bytes().splitlines())
    ]
    assert len(keys) == len(set(keys))


def test_a_run_held_by_another_process(tmp_path: Path) -> None:
    from harness.store.run_folder import RunFolder

    with RunFolder(tmp_path, "quickstart").lock():
        ended = harness("run", QUICKSTART, env=os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)})
    assert "--name" in mistake(ended)


def test_another_configuration_under_the_same_name(tmp_path: Path) -> None:
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    command = ("run", QUICKSTART, "--limit", "13")
    assert harness(*command, env=environment).returncode == 0
    said = mistake(harness(*command, "-o", "decoding.temperature=1", env=environment))
    assert "decoding.temperature" in said
    assert "--fresh" in said
    fresh = harness(*command, "-o", "decoding.temperature=1", "--fresh", env=environment)
    assert fresh.returncode == 0
    assert "temperature: 1" in (tmp_path / "quickstart" / "config.yaml").read_text()
    (kept,) = tmp_path.glob("quickstart-20*")
    assert (kept / "metrics.json").exists()
    wrong = harness(*command, "-o", "model.accuracy=2", "--fresh", env=environment)
    assert "accuracy" in mistake(wrong)
    assert len([*tmp_path.glob("quickstart*")]) == 2, "nothing is renamed if no run starts"


def test_an_unknown_run() -> None:
    assert "There is no run 'nix'" in mistake(harness("rm", "nix"))


FORMATS = [(("ls",), "'json'"), (("compare", "a", "b"), "'markdown'")]


@pytest.mark.parametrize(
    ("words", "valid"), [(words, valid) for words, valid in FORMATS if has_verb(words[0])]
)
def test_an_unknown_format_is_refused_with_those_that_exist(
    words: tuple[str, ...], valid: str
) -> None:
    ended = harness(*words, "--format", "html")
    assert ended.returncode == 2
    assert valid in ended.stderr


def test_errors_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    app, rows = tmp_path / "app.py", tmp_path / "rows.jsonl"
    raised = "".join(f"    if prompt == {one!r}:\n        1 / 0\n" for one in "bcdefgh")
    app.write_text(f"def answer(prompt):\n{raised}    return prompt\n")
    rows.write_text("".join(f'{{"prompt": "{one}", "target": "a"}}\n' for one in "abcdefgh"))
    file = tmp_path / "errors.yaml"
    file.write_text(
        f"task: {{path: {rows}, checks: contains}}\n"
        f"model: {{backend: {app}}}\nlimits: {{concurrency: 1}}\n"
    )
    ended = harness("run", file, cwd=tmp_path)
    assert ended.stderr.count("  1 x ZeroDivisionError at app.py:") == 5
    assert "  and 2 with other errors\n" in ended.stderr


def test_a_dotenv_file_in_another_encoding_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=caf\xe9\n")
    for command in (["ls"], ["run", ROOT / QUICKSTART]):
        assert ".env is not UTF-8 text" in mistake(harness(*command, cwd=tmp_path))


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("HARNESS_ASK_ABOVE_USD", "s3cretvalue", "is not an amount in US dollars"),
        ("HARNESS_FETCH", "s3cretvalue", "is neither true nor false"),
        ("HARNESS_OBSERVE_CONTENT", "s3cretvalue", "is neither true nor false"),
        ("SSL_CERT_FILE", "/nonexistent/s3cretvalue", "cannot be used for TLS"),
        ("SSL_CERT_FILE", str(Path(__file__).parent), "cannot be used for TLS"),
        ("SSL_CERT_FILE", __file__, "cannot be used for TLS"),
        ("SSLKEYLOGFILE", "/nonexistent/s3cretvalue", "names a file that cannot be"),
        ("HTTP_PROXY", "::::s3cretvalue", "is not the URL of a proxy"),
        ("All_Proxy", "u:s3cretvalue/x@proxy", "is not the URL of a proxy"),
    ],
)
def test_a_malformed_environment_is_one_line_that_names_the_variable(
    tmp_path: Path, variable: str, value: str, problem: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "task: {rows: [{prompt: a, target: a}], checks: exact_match}\n"
        "model: {backend: openai, name: m, base_url: 'http://127.0.0.1:9/v1'}\n"
        "limits: {attempts: 1, outage_s: 1}\n"
    )
    env = on(tmp_path / "runs") | {"HARNESS_CACHE_DIR": str(tmp_path), variable: value}
    said = mistake(begun("run", file, env=env).ended())
    assert f"The environment variable {variable} {problem}" in said
    assert "s3cretvalue" not in said
