"""What is shown of the log of a vLLM that did not start: as vLLM 0.32 writes it."""

from __future__ import annotations

import pytest

from harness.backends._last_words import remedy, telling

USAGE = """\
usage: api_server.py [-h] [--headless] [--api-server-count API_SERVER_COUNT]
                     [--dtype {auto,bfloat16}] [--max-model-len MAX_MODEL_LEN]
"""
WORKER = "(EngineCore pid=632) ERROR 11-21 23:40:21 [core.py:1750] "


def test_a_mistyped_argument_is_named_without_the_usage() -> None:
    said = f"{USAGE}api_server.py: error: unrecognized arguments: --max-modle-len 512"
    assert telling(said) == "error: unrecognized arguments: --max-modle-len 512"
    assert remedy(said) == (
        "Mend model.engine.max_modle_len: this vLLM has no such argument. "
        "Did you mean max_model_len?"
    )


def test_a_value_that_is_none_is_named() -> None:
    said = f"{USAGE}api_server.py: error: argument --dtype: invalid choice: 'half16'"
    assert telling(said) == "error: argument --dtype: invalid choice: 'half16'"
    assert remedy(said) == "Mend model.engine.dtype."


def test_errors_stand_once_each_with_what_follows_them() -> None:
    said = (
        f"{WORKER}Traceback (most recent call last):\n"
        f'{WORKER}  File "/v/core.py", line 5, in run\n'
        f"{WORKER}ValueError: No memory\n"
        "ValueError: No memory\n"
        "\n"
        "The above exception was the direct cause of the following exception:\n"
        "Traceback (most recent call last):\n"
        "pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, max_model_len (9) is greater than 4\n"
        "(APIServer pid=1) INFO 11-21 23:40:21 [core_client.py:770] shutdown\n"
    )
    assert telling(said).splitlines() == [
        "ValueError: No memory",
        "pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, max_model_len (9) is greater than 4",
    ]


def test_a_model_that_is_nowhere_is_the_path_or_the_name() -> None:
    said = (
        "OSError: hub/nothing is not a local folder and is not a valid model identifier listed on"
        " 'https://huggingface.co/models'\nIf this is a private repository, pass a token."
    )
    assert telling(said) == said
    assert "model.path" in remedy(said)


@pytest.mark.parametrize("said", ["", "Killed", "loading, an OSError: in the middle of a line"])
def test_where_no_error_is_named_all_is_shown(said: str) -> None:
    assert (telling(said), remedy(said)) == (said, "")
