import inspect

import pytest

from harness import errors
from harness.errors import (
    CallError,
    ConfigError,
    FatalCallError,
    HarnessError,
    TransientError,
    UserError,
    suggest_name,
)

ERRORS = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == errors.__name__
]


def test_an_error_reads_as_what_happened_and_then_what_to_do() -> None:
    assert (
        str(ConfigError("The file is gone.", "Make it anew.")) == "The file is gone. Make it anew."
    )
    assert str(ConfigError("The file is gone.")) == "The file is gone."


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_is_of_the_tree_and_takes_a_message_alone(error: type[HarnessError]) -> None:
    assert issubclass(error, HarnessError)
    assert error("What happened.").remedy == ""
    assert error.__doc__


@pytest.mark.parametrize("error", ERRORS)
def test_a_failed_call_ends_the_command_only_if_it_is_fatal(error: type[HarnessError]) -> None:
    if issubclass(error, CallError):
        assert issubclass(error, UserError) == issubclass(error, FatalCallError)
        assert not (issubclass(error, FatalCallError) and issubclass(error, TransientError))


def test_a_transient_error_keeps_how_long_the_provider_asks_to_wait() -> None:
    assert TransientError("429", kind="rate_limited", retry_after=2.5).retry_after == 2.5
    assert TransientError("429", kind="rate_limited").retry_after is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sampels", "Did you mean 'samples'?"),
        ("samples", "Valid names: rounds."),
        ("zzz", "Valid names: rounds, samples."),
        ("", "Valid names: rounds, samples."),
    ],
)
def test_a_mistyped_name_gets_the_nearest_valid_one_else_all(name: str, expected: str) -> None:
    assert suggest_name(name, {"samples", "rounds"}) == expected


def test_a_name_that_only_shares_some_letters_is_not_suggested() -> None:
    assert suggest_name("kind", {"id", "prompt"}) == "Valid names: id, prompt."
    assert suggest_name("maximum", {"max", "stop_on_pass"}) == "Did you mean 'max'?"


def test_where_there_is_no_valid_name_there_is_no_remedy() -> None:
    assert suggest_name("samples", ()) == ""
