from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.plugins.builders.wildifeval.curation_file import load_curation

MODEL = "model={backend: openai, name: m}"


def test_the_defaults_are_the_paper_s() -> None:
    found = load_curation(None, [MODEL])
    assert (found.filter.keep, found.filter.votes) == (0.1, None)
    assert (found.decompose.temperature, found.decompose.max_tokens) == (1.0, 500)
    assert (found.constraints.most_tasks, found.constraints.most_of_a_task) == (40, 8)
    assert (found.domains.batch, found.domains.proposed, found.domains.merged) == (100, 10, 20)


def test_a_file_and_what_is_set_over_it(tmp_path: Path) -> None:
    path = tmp_path / "curation.yaml"
    path.write_text(
        "model: {backend: openai, name: m}\n"
        "models: {decompose: {backend: anthropic, name: n, limits: {concurrency: 3}}}\n"
        "filter: {keep: 0.2}\nscreen: {language: null, toxicity: null}\n"
    )
    found = load_curation(path, ["filter.votes=5"])
    assert (found.filter.keep, found.filter.votes) == (0.2, 5)
    assert found.screen.language is None
    assert found.models["decompose"].name == "n"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("filter.kep=1", "unknown key 'filter.kep'.*keep"),
        ("filtre.keep=1", "unknown key 'filtre'.*filter"),
        ("filter.keep=2", "filter.keep"),
        ("filter.keep=0", "filter.keep"),
        ("constraints.most_tasks=0", "constraints.most_tasks"),
        ("constraints.most_tasks=true", "constraints.most_tasks"),
        ("models.filtre={backend: openai}", "models.filtre"),
        ("screen.code=[words]", "screen.code"),
        ("seed=-1", "seed"),
        ("model.api_key=sk-secret", "api_key"),
    ],
)
def test_what_is_none_of_it_is_refused_with_its_key(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        load_curation(None, [MODEL, override])
    assert "sk-secret" not in str(refused.value)


def test_a_model_is_needed() -> None:
    with pytest.raises(ConfigError, match="model is missing"):
        load_curation(None)


def test_a_secret_in_an_override_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "SECRET-8f3a")
    with pytest.raises(ConfigError, match=r"model\.base_url contains the value of MY_API_KEY"):
        load_curation(None, [MODEL, "model.base_url=http://host/SECRET-8f3a"])
