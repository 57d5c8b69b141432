import os
from pathlib import Path

import pytest

from harness.config.settings import (
    Settings,
    mask_secrets,
    read_secret,
    temporary_variables,
    visible_gpus,
)
from harness.errors import ConfigError, SecretMissing
from tests.cli.command import harness, mistake

KEY = "MY_PROVIDER_API_KEY"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with nothing of the harness's in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.upper().startswith("HARNESS_") or name == KEY:
            monkeypatch.delenv(name)


def dotenv(content: str | bytes) -> None:
    Path(".env").write_bytes(content if isinstance(content, bytes) else content.encode())


def test_without_settings_runs_go_below_the_current_folder() -> None:
    settings = Settings()
    assert settings.runs_dir == Path("runs")
    assert settings.cache_dir.is_absolute()
    assert settings.data_dir.is_absolute()


def test_the_environment_says_where_things_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs", "cache", "data"):
        monkeypatch.setenv(f"HARNESS_{name.upper()}_DIR", f"/x/{name}")
    settings = Settings()
    assert settings.runs_dir == Path("/x/runs")
    assert settings.cache_dir == Path("/x/cache")
    assert settings.data_dir == Path("/x/data")


def test_the_environment_goes_over_the_dotenv_file(monkeypatch: pytest.MonkeyPatch) -> None:
    dotenv("HARNESS_RUNS_DIR=/from/file\nHARNESS_DATA_DIR=/data/from/file\n")
    monkeypatch.setenv("HARNESS_RUNS_DIR", "/from/environment")
    assert Settings().runs_dir == Path("/from/environment")
    assert Settings().data_dir == Path("/data/from/file")


def test_a_setting_of_nothing_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", "")
    assert Settings().runs_dir == Path("runs")


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    dotenv("HARNESS_RUNS_DIR=~/runs\nHARNESS_DATA_DIR=~nobody-of-this-name/x\n")
    assert Settings().runs_dir == Path("/home/me/runs")
    assert Settings().data_dir == Path("~nobody-of-this-name/x")


def test_other_lines_of_the_dotenv_file_are_left_alone() -> None:
    dotenv("SOMETHING_ELSE=1\nHARNESS_UNKNOWN=2\n# a comment\n\nnonsense\n")
    assert Settings().runs_dir == Path("runs")


def test_a_dotenv_file_that_is_not_text_is_named() -> None:
    dotenv(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"\.env is not UTF-8 text"):
        Settings()
    with pytest.raises(ConfigError, match=r"\.env is not UTF-8 text"):
        read_secret(KEY)


def test_a_dotenv_pipe_is_refused() -> None:
    os.mkfifo(".env")
    ended = harness("ls", env=dict(os.environ), cwd=Path.cwd())
    assert "The file .env is a pipe" in mistake(ended)


def test_a_dotenv_folder_is_no_file() -> None:
    Path(".env").mkdir()
    assert Settings().runs_dir == Path("runs")


def test_what_is_handed_down_to_a_library_is_nobodys_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIBRARY_LEVEL", "low")
    monkeypatch.delenv("LIBRARY_LOG", raising=False)
    with temporary_variables(LIBRARY_LEVEL="high", LIBRARY_LOG="x"):
        assert (os.environ["LIBRARY_LEVEL"], os.environ["LIBRARY_LOG"]) == ("high", "x")
    assert os.environ["LIBRARY_LEVEL"] == "low"
    assert "LIBRARY_LOG" not in os.environ


def test_a_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    dotenv(f"{KEY}=sk-file\n")
    monkeypatch.setenv(KEY, "sk-environment")
    assert read_secret(KEY) == "sk-environment"


def test_a_secret_comes_from_the_dotenv_file() -> None:
    dotenv(f"export {KEY}='sk-file'\n")
    assert read_secret(KEY) == "sk-file"


def test_a_secret_of_nothing_in_the_environment_leaves_the_dotenv_file_its_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dotenv(f"{KEY}=sk-file\n")
    monkeypatch.setenv(KEY, "")
    assert read_secret(KEY) == "sk-file"


def test_white_space_around_a_secret_is_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, " sk-copied\n")
    assert read_secret(KEY) == "sk-copied"


@pytest.mark.parametrize("value", [None, "", "  ", "\n"])
def test_a_missing_secret_names_the_variable_and_where_to_put_it(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv(KEY, value)
    with pytest.raises(SecretMissing, match=f"variable {KEY} is not set") as caught:
        read_secret(KEY)
    assert f"'{KEY}=…'" in caught.value.remedy
    assert ".env" in caught.value.remedy


def test_a_secret_keeps_the_case_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY.lower(), "sk-lower")
    assert read_secret(KEY.lower()) == "sk-lower"
    with pytest.raises(SecretMissing):
        read_secret(KEY)


@pytest.mark.parametrize("key", ["sk-SECRET", "SECRET-KEY", "f00dSECRET", "", "a b"])
def test_a_key_given_for_its_variables_name_is_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="never the key") as caught:
        read_secret(key)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", ["sk-SE\nCRET", "sk-SECRET…", "sk-SEC\tRET", "sk\x00"])
def test_a_secret_that_no_header_can_carry_is_refused_and_not_shown(value: str) -> None:
    dotenv(f'{KEY}="{value}"\n')
    with pytest.raises(ConfigError, match=f"{KEY} contains a line break or a character") as caught:
        read_secret(KEY)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("set_to", "usable"),
    [(None, None), ("", ()), ("-1", ()), ("3, 1", ("3", "1")), ("GPU-1,", ("GPU-1",))],
)
def test_gpus_that_are_hidden_are_not_gpus_that_nobody_spoke_of(
    set_to: str | None, usable: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if set_to is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", set_to)
    assert visible_gpus() == usable


COMMIT = "4639e4a77f41db7f3a3b3de0ca0a7273d04213eb"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://raw.githubusercontent.com/a/b/{COMMIT}/c.json", None),
        (f"https://github.com/a/b/archive/{COMMIT}.zip", None),
        (f"https://gateway.example/{COMMIT}/v1", "https://gateway.example/[key]/v1"),
        (f"https://github.com.example/{COMMIT}", "https://github.com.example/[key]"),
        (f"https://github.com/a/sk{COMMIT}/b", "https://github.com/a/[key]/b"),
        (f"https://github.com/a/b.zip?token={COMMIT}", "https://github.com/a/[key]"),
    ],
)
def test_the_commits_of_public_data_are_shown_and_keys_in_urls_are_not(
    url: str, shown: str | None
) -> None:
    assert mask_secrets(f"Cannot fetch {url} now.") == f"Cannot fetch {shown or url} now."
