"""Sources as the command line and a file name them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing, HarnessError
from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import Splitter
from harness.plugins.builders.collie.extraction import Segmenter
from harness.plugins.builders.collie.source import PRESETS, Documents, find_source, parts

UNITS = Splitter(punkt.own(), punkt.word_tokens)


@pytest.mark.parametrize(
    ("name", "loader", "delimiter", "filters", "post_processors"),
    [
        ("wiki", "parquet", "\n\n", ["url", "caption", "no_sentence"], ["drop_first_line"]),
        ("ccnews", "parquet", "\n", ["copyright", "url", "caption", "no_sentence"], []),
    ],
)
def test_the_papers_sources(
    tmp_path: Path,
    name: str,
    loader: str,
    delimiter: str,
    filters: list[str],
    post_processors: list[str],
) -> None:
    source = find_source(f"{name}={tmp_path}" if loader == "parquet" else name)
    assert parts([source.load])[0][0] == loader
    assert source.delimiter == delimiter
    assert [each for each, _ in parts(source.filters)] == filters
    assert [each for each, _ in parts(source.post_processors)] == post_processors
    assert (source.documents, source.strings) == (300, 100)
    assert source.passages is None


def test_gutenberg_as_in_the_paper(tmp_path: Path) -> None:
    source = find_source(f"gutenberg={tmp_path}")
    assert source.filters == ("capitals", "no_sentence")
    assert source.passages is None
    assert source.post_processors == ("markdown", "brackets", "single_newlines", "white_space")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_a_source(name: str, tmp_path: Path) -> None:
    has_path = name in ("gutenberg", "words")
    source = find_source(name if has_path else f"{name}={tmp_path}")
    assert source.name == name
    Segmenter(source, UNITS, seed=0)


@pytest.mark.parametrize(
    ("given", "name", "loader"),
    [
        ("folder", "folder", "text"),
        ("a.txt", "a", "text"),
        ("b.md", "b", "markdown"),
        ("c.jsonl", "c", "jsonl"),
        ("c.jsonl.gz", "c", "jsonl"),
        ("d.parquet", "d", "parquet"),
        ("mine=folder", "mine", "text"),
        ("words=a.txt", "words", "word_list"),
        ("wiki=c.jsonl", "wiki", "jsonl"),
        ("wiki=d.parquet", "wiki", "parquet"),
        ("books", "books", "gutenberg"),
    ],
)
def test_a_path_says_how_it_is_loaded(
    given: str, name: str, loader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "gutenberg-metadata.json").write_text("[]")
    for file in ("a.txt", "b.md", "c.jsonl", "c.jsonl.gz", "d.parquet"):
        (tmp_path / file).touch()
    source = find_source(given, {"documents": 7})
    [(found, options)] = parts([source.load])
    assert (source.name, found, source.documents) == (name, loader, 7)
    assert options == {"path": given.rpartition("=")[2]}


def test_a_file_overrides_its_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    raw = {"name": "mine", "preset": "ccnews", "load": {"name": "text", "path": "x"}, "strings": 5}
    path.write_text(yaml.safe_dump(raw))
    source = find_source(str(path))
    assert (source.name, source.delimiter, source.strings) == ("mine", "\n", 5)
    assert find_source(f"other={path}", {"strings": 6}).strings == 6
    assert find_source(f"other={path}").name == "other"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"delimeter": "x"}, "did you mean 'delimiter'"),
        ({"preset": "wikis"}, "Did you mean 'wiki'"),
        ({"levels": ["line"]}, "levels"),
        ({"passages": {"from": 4, "to": 3}}, "from 4 to 3 is empty"),
        ({"passages": {"from": 1}}, "passages.from"),
        ({"delimiter": ""}, "delimiter"),
        ({"filters": [{"words": 5}]}, "names no plug-in"),
        ({"filters": ["urls"]}, "Did you mean 'url'"),
        ({"filters": [{"name": "caption", "word": 5}]}, "Did you mean 'words'"),
        ({"post_processors": ["markdwn"]}, "Did you mean 'markdown'"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_mistakes_are_reported(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", "load": "text", **change}))
    with pytest.raises(HarnessError) as raised:
        Segmenter(find_source(str(path)), UNITS, seed=0)
    assert said in str(raised.value)


def test_a_missing_source_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="Did you mean 'wiki'"):
        find_source("wikki")
    with pytest.raises(ConfigError, match="--source wiki=PATH"):
        find_source("wiki")
    with pytest.raises(DataMissing, match="Check the path"):
        find_source(f"mine={tmp_path / 'none'}")
    with pytest.raises(DataMissing, match="Cannot read"):
        find_source(str(tmp_path / "none.yaml"))
    (tmp_path / "list.yaml").write_text("[]")
    with pytest.raises(DataInvalid, match="a mapping"):
        find_source(str(tmp_path / "list.yaml"))
    (tmp_path / "bare.yaml").write_text("{preset: text}")
    with pytest.raises(ConfigError, match="name is missing"):
        find_source(str(tmp_path / "bare.yaml"))


def test_a_path_is_the_users_before_it_is_the_data_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, text in (("here", "mine"), ("data", "theirs")):
        (tmp_path / folder / "corpus").mkdir(parents=True)
        (tmp_path / folder / "corpus" / "a.txt").write_text(text)
    (tmp_path / "data" / "other.txt").write_text("theirs")
    monkeypatch.chdir(tmp_path / "here")
    data = DataFolder(tmp_path / "data")

    def texts(given: str) -> list[str]:
        batches = Documents(find_source(given), 0, data).batches()
        return [document.text for batch in batches for document in batch.documents]

    assert texts("corpus") == ["mine"]
    (tmp_path / "here" / "s.yaml").write_text("{name: s, load: {name: text, path: corpus}}")
    monkeypatch.chdir(tmp_path)
    assert texts("here/s.yaml") == ["mine"]  # relative to the file
    assert texts("x=here/s.yaml") == ["mine"]
    (tmp_path / "s.yaml").write_text("{name: s, load: {name: text, path: other.txt}}")
    assert texts("s.yaml") == ["theirs"]  # is in the data folder alone
    shown = find_source("here/s.yaml").plain()
    assert shown["load"] == {"name": "text", "path": "corpus"}
    assert str(tmp_path) not in str(shown)


@pytest.mark.parametrize("given", ["", "mine="])
def test_an_empty_path_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="names nothing"):
        find_source(given)


def test_a_home_that_is_not_there_is_no_path() -> None:
    with pytest.raises(DataMissing, match="no such file"):
        find_source("~nobody-of-this-name/text")


def test_a_file_of_aliases_is_refused(tmp_path: Path) -> None:
    lines = ["name: s", "load:", "  name: text", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(9):
        lines.append(f"  a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]")
    (tmp_path / "s.yaml").write_text("\n".join(lines))
    with pytest.raises(DataInvalid, match="more than 100,000 values"):
        find_source(str(tmp_path / "s.yaml"))
    (tmp_path / "half.yaml").write_text('{name: s, load: text, delimiter: "\\ud800"}')
    with pytest.raises(DataInvalid, match="half of a surrogate pair"):
        find_source(str(tmp_path / "half.yaml"))
