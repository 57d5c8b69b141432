"""Third-party plug-ins in a build: errors name them, and their code is in every key."""

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, HarnessError
from harness.plugins.builders.collie import AUDIT, CARD, INSTANCES, Recipe, build
from harness.plugins.builders.collie.source import find_source
from harness.plugins.builders.collie.structure import find_structures
from harness.plugins.builders.folder import MANIFEST, BuiltFolder
from tests.installed import install_plugin
from tests.plugins.builders.collie.corpus import write_corpus

LOADER = """
    from harness.plugin import Loader
    from harness.records import Document

    class Own(Loader):
        def names(self):
            return iter(["a"])
        def read(self, names):
            {body}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a filter, a post-processor, a loader and a measure; `put` writes its code."""
    write_corpus(tmp_path / "corpus", documents=4, characters=2_000)
    groups = ("loaders", "filters", "post_processors", "measures")
    install_plugin(tmp_path / "site", "", {group: {"own": "Own"} for group in groups}, "foreign")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path


def put(site: Path, code: str) -> None:
    (site / "site" / "foreign.py").write_text(textwrap.dedent(code))
    sys.modules.pop("foreign", None)
    for cached in (site / "site").glob("__pycache__/*"):
        cached.unlink()  # a file of the same size and second is taken for the same


def made(
    site: Path,
    out: str = "mine",
    structure: str = "para05",
    status: Callable[[str], None] = lambda _: None,
    **keys: object,
) -> BuiltFolder:
    source = {"name": "s", "preset": "text", "load": {"name": "text", "path": "corpus"}, **keys}
    (site / "s.yaml").write_text(yaml.safe_dump(source))
    found = find_structures([structure])
    sources = [find_source(str(site / "s.yaml"))]
    return build(Recipe(found, sources), site / out, DataFolder(site), status=status)


CALLS = """
    class Own:
        def __call__(self, text):
            {body}
"""


@pytest.mark.parametrize(
    ("code", "keys", "said"),
    [
        (
            CALLS.format(body="raise ValueError('odd')"),
            {"filters": ["own"]},
            "s, document '0000.txt': The filter 'own' fails (ValueError: odd; foreign.py, line 4).",
        ),
        (
            CALLS.format(body="raise ValueError('odd')"),
            {"passage_filters": ["own"]},
            "The filter 'own' fails",
        ),
        (
            CALLS.format(body="return None"),
            {"post_processors": ["own"]},
            "s, document '0000.txt': The post-processor 'own' returns None, which is not text.",
        ),
        (
            CALLS.format(body="return text[9_999]"),
            {"post_processors": ["own"]},
            "The post-processor 'own' fails (IndexError",
        ),
        (
            "class Own:\n    def __init__(self):\n        open('/no/such/list')\n",
            {"filters": ["own"]},
            "The filter 'own' fails (FileNotFoundError",
        ),
        (
            LOADER.format(body="yield None"),
            {"load": "own"},
            "The loader 'own' of s fails (AttributeError",
        ),
        (
            LOADER.format(body="yield Document('a', 'x \\ud800')"),
            {"load": "own"},
            "The loader 'own' of s fails (UnicodeEncodeError",
        ),
        (
            LOADER.format(body="yield Document('a', 'x', {'what': object()})"),
            {"load": "own"},
            "The loader 'own' of s fails (TypeError",
        ),
    ],
    ids=range(8),
)
def test_what_fails_is_named(code: str, keys: dict[str, object], said: str, site: Path) -> None:
    put(site, code)
    structure = "pass01" if "passage_filters" in keys else "para05"
    with pytest.raises(ConfigError) as raised:
        made(site, structure=structure, **keys)  # type: ignore[arg-type]
    assert said in str(raised.value)
    assert not (site / ".mine.stages").exists()


def test_a_slow_pattern_names_the_document(site: Path) -> None:
    (site / "corpus" / "0001.txt").write_text("a" * 60 + "! It was so.")
    with pytest.raises(HarnessError, match=r"s, document '0001.txt': The filter 'pattern': the "):
        made(site, filters=[{"name": "pattern", "pattern": "(a|a)*$"}])


LEAVES_OUT = CALLS.format(body="return {word!r} in text")


def test_a_changed_plug_in_invalidates_the_stages(site: Path) -> None:
    put(site, LEAVES_OUT.format(word="Emil"))
    first = made(site, "first", filters=["own"])
    [ours] = [of for of in first.facts["plugins"].values() if of["package"] == "foreign"]
    assert ours["version"] == "1.0"
    assert ours["sha256"] in (first.folder / CARD).read_text()

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(site, filters=["own"], status=stop)
    assert list((site / ".mine.stages").glob("s-*.json"))
    put(site, LEAVES_OUT.format(word="Ada"))
    mended = made(site, filters=["own"])
    assert mended.resumed == 0
    undisturbed = made(site, "undisturbed", filters=["own"])
    for name in (INSTANCES, AUDIT, MANIFEST):
        ours_now = (mended.folder / name).read_bytes()
        assert ours_now == (undisturbed.folder / name).read_bytes()
    rows = (mended.folder / INSTANCES).read_text().splitlines()
    assert all("Ada" not in json.loads(row)["example"] for row in rows)
