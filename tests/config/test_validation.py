from pathlib import Path

import pytest

from harness.config.loading import load_variants
from harness.config.validation import safe_key
from harness.errors import ConfigError
from tests.config.run_files import BASE, problem, run


@pytest.mark.parametrize("key", ["api_key", "API-Key", "token", "password", "Authorization"])
@pytest.mark.parametrize("section", ["task", "model"])
def test_a_secret_in_a_run_file_is_refused_and_not_shown(key: str, section: str) -> None:
    said = problem(**{section: BASE[section] | {key: "sk-SECRET"}})
    assert key in said
    assert "environment variable" in said
    assert "api_key_env" in said
    assert "SECRET" not in said


def test_the_name_of_a_secrets_variable_is_no_secret() -> None:
    assert run(model=BASE["model"] | {"api_key_env": "MY_KEY"}).model.options["api_key_env"]
    assert run(model=BASE["model"] | {"api_key": None}), "an option left empty holds none"


@pytest.mark.parametrize(
    "url",
    ["http://me:SECRET@host/v1", "https://SECRET@host", "me:SECRET@host/v1", "//u:SECRET@h?x"],
)
def test_a_url_with_a_password_is_refused_and_not_shown(url: str) -> None:
    said = problem(model=BASE["model"] | {"base_url": url})
    assert "base_url" in said
    assert "SECRET" not in said


@pytest.mark.parametrize(
    "url", ["http://host/v1/models/m@001", "http://host:8000", "https://h?a@b"]
)
def test_a_url_may_have_an_at_sign_elsewhere(url: str) -> None:
    assert run(model=BASE["model"] | {"base_url": url})


def test_a_value_run_into_its_key_is_not_shown() -> None:
    said = problem(model=BASE["model"] | {"api_key:sk-SECRET": None})
    assert "a space is missing after the colon" in said
    assert "SECRET" not in said


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a.b", "a.b"), ("a:b", "a…"), ("a=b", "a…"), ("a b", "a…"), (" a ", "a…"), ("", "")],
)
def test_a_key_is_shown_without_what_was_run_into_it(key: str, expected: str) -> None:
    assert safe_key(key) == expected


TINY = "task: {name: sums}\nmodel: {backend: openai, name: gpt-4}\n"


@pytest.mark.parametrize(
    "text",
    [
        "decoding: {extra: {x_route: SECRET-8f3a}}\n",
        "decoding: {extra: {a: [{b: ['for SECRET-8f3a']}]}}\n",
        "decoding: {extra: {SECRET-8f3a: 1}}\n",
        "variants: {a: {model.base_url: 'http://host/SECRET-8f3a/v1'}}\n",
        "variants: {SECRET-8f3a: {}}\n",
        "matrix: {model.preset: [SECRET-8f3a, b]}\n",
        "matrix: {samples: {one: {decoding.extra.x: SECRET-8f3a}}}\n",
    ],
)
@pytest.mark.parametrize("variable", ["OTHER_API_KEY", "HF_TOKEN"])
def test_the_value_of_a_configured_secret_is_refused_wherever_it_is(
    text: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(TINY + text)
    monkeypatch.setenv(variable, "SECRET-8f3a")
    with pytest.raises(ConfigError, match=f"contains the value of {variable}, a secret") as caught:
        load_variants(file)
    assert "SECRET-" not in str(caught.value)


def test_a_secret_in_an_override_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("MY_VARIABLE=SECRET-8f3a\nOPENAI_API_KEY=\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(TINY)
    assert load_variants("run.yaml", ["task.note=SECRET-8f3a"]), (
        "a variable that nothing calls a secret"
    )
    odd = ["model.api_key_env=MY_VARIABLE", "model.base_url=http://host/SECRET-8f3a"]
    with pytest.raises(ConfigError, match=r"model\.base_url contains the value of MY_VAR"):
        load_variants("run.yaml", odd)


@pytest.mark.parametrize("key", ["model.api_key", "decoding.extra.password"])
def test_a_secret_in_a_matrix_is_not_shown(key: str) -> None:
    said = problem(matrix={key: ["sk-SECRET", "sk-SECRET2"]})
    assert f"matrix: {key!r} would contain a secret" in said
    assert "SECRET" not in said


def test_a_value_of_a_matrix_that_cannot_name_a_run_is_not_shown() -> None:
    said = problem(matrix={"model.base_url": ["http://me:SECRET@host"]})
    assert "matrix.model.base_url has a value that cannot name a run" in said
    assert "SECRET" not in said
