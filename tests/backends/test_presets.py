from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.backends.openai import COMPATIBLE, PRESETS, chosen
from harness.errors import ConfigError
from harness.ports import CONSTRAINTS, LOGPROBS, PARAMETERS, PROMPT_LOGPROBS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_one_line_in_a_run_file(name: str) -> None:
    preset = PRESETS[name]
    found, url, key = chosen(name, None if preset.url else preset.hint, None)
    assert (found, key) == (preset, preset.key)
    assert urlsplit(url).hostname
    known = PARAMETERS | CONSTRAINTS | {"free", LOGPROBS, PROMPT_LOGPROBS}
    assert preset.features("some-model") <= known
    assert ("free" in preset.features("some-model")) == (preset.key is None)
    assert url.startswith("http://localhost:") == (preset.key is None)


def test_openai_is_the_default_and_a_bare_url_is_any_compatible_server() -> None:
    assert chosen(None, None, None)[0] is PRESETS["openai"]
    assert chosen(None, "http://localhost:1/v1", None) == (
        COMPATIBLE,
        "http://localhost:1/v1",
        None,
    )


def test_a_presets_key_goes_to_its_own_host_only() -> None:
    assert chosen("groq", "https://proxy.example.org/v1", None)[2] is None
    assert chosen("groq", "https://proxy.example.org/v1", "PROXY_KEY")[2] == "PROXY_KEY"
    assert chosen("azure", "https://mine.openai.azure.com/openai/v1", None)[2] == (
        "AZURE_OPENAI_API_KEY"
    )


def test_a_mistyped_preset_and_a_missing_url_are_told() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'openrouter'"):
        chosen("openruoter", None, None)
    with pytest.raises(ConfigError, match="RESOURCE"):
        chosen("azure", None, None)


def table() -> str:
    """The presets as a Markdown table."""
    lines = [
        "| `preset:` | server | base URL | key in | seed |",
        "|---|---|---|---|---|",
    ]
    for name, preset in PRESETS.items():
        url = f"`{preset.url}`" if preset.url else f"yours, like `{preset.hint}`"
        key = f"`{preset.key}`" if preset.key else "none"
        seed = "yes" if preset.seed else "not taken"
        lines.append(f"| `{name}` | {preset.title} | {url} | {key} | {seed} |")
    return "\n".join(lines)


def test_the_documentation_has_the_table_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "providers.md"
    if not page.exists():
        pytest.skip("no docs beside the package")
    assert table() in page.read_text()


@pytest.mark.parametrize(
    ("model", "takes"),
    [("gpt-4", True), ("gpt-4o-mini", True), ("gpt-5.1", True), ("o3", False), ("o4-mini", False),
     ("gpt-5", False), ("gpt-5-nano", False), ("o1-2024-12-17", False), ("o3x", True)],
)  # fmt: skip
def test_models_that_sample_in_one_way_take_no_temperature(model: str, takes: bool) -> None:
    assert ({"temperature", "top_p"} <= PRESETS["openai"].features(model)) is takes
    assert "temperature" in COMPATIBLE.features(model)
