"""The models that a run file names."""

import pytest

from harness.engine.resolving import parse_model_name
from harness.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [("0", 0.0), ("1", 1.0), ("1.0", 1.0), ("1.00", 1.0), ("00.5", 0.5), (".25", 0.25), ("0.", 0)],
)
def test_a_simulated_model_named_by_a_number_has_this_accuracy(name: str, accuracy: float) -> None:
    assert parse_model_name(f"simulated/{name}")["accuracy"] == accuracy
    assert "accuracy" not in parse_model_name(f"simulated/next-{name}")


@pytest.mark.parametrize("name", ["1.01", "80", "-0.5", "2"])
def test_an_accuracy_beyond_0_and_1_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not from 0 to 1"):
        parse_model_name(f"simulated/{name}")


@pytest.mark.parametrize("name", ["gpt-4o-mini", "opnai/gpt-4o-mini"])
def test_the_form_of_a_models_name_is_in_the_error(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_model_name(name)
    assert "BACKEND/NAME or PRESET/NAME, such as openai/gpt-4o-mini" in refused.value.remedy
