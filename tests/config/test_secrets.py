import pytest

from harness.config.validation import shown
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
    assert shown(key) == expected
