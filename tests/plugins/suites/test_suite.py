"""The run file that `harness eval` makes."""

import pytest

from harness.errors import ConfigError
from harness.plugins.suites.api import evaluation


def test_a_function_that_is_no_models_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not the name of a model"):
        evaluation(["jsonl"], [print], {})  # type: ignore[list-item]
