"""A whole build: 70 documents, the paper's 13 structures, and what is written."""

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing, RunConflict
from harness.plugins.benchmarks.collie.constraints.check import check, splitter
from harness.plugins.benchmarks.collie.task import CollieTask, read_items
from harness.plugins.builders.collie import AUDIT, CARD, INSTANCES, REPORT, Recipe, build
from harness.plugins.builders.collie.source import MOST_DOCUMENTS, find_source
from harness.plugins.builders.collie.structure import PAPER, find_structures
from harness.plugins.builders.folder import MANIFEST, BuiltFolder
from tests.plugins.benchmarks.collie.structures import STRUCTURES
from tests.plugins.builders.collie.corpus import write_corpus, write_words


def made(
    folder: Path, out: str = "mine", structures: tuple[str, ...] = (PAPER,), **options: Any
) -> BuiltFolder:
    sources = options.pop(
        "sources", (f"corpus={folder / 'corpus'}", f"words={folder / 'words.txt'}")
    )
    recipe = Recipe(
        find_structures(list(structures)),
        [find_source(source) for source in sources],
        options.pop("seed", 0),
        options.pop("targets", 100),
    )
    return build(recipe, folder / out, DataFolder(folder), **options)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    write_corpus(folder / "corpus", documents=70, characters=1_000)
    write_words(folder / "words.txt", n=800)
    return folder


@pytest.fixture(scope="module")
def whole(corpus: Path) -> BuiltFolder:
    return made(corpus, targets=16)


def rows(built: BuiltFolder, name: str = INSTANCES) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (built.folder / name).read_text("utf-8").splitlines()]


def test_every_structure_has_its_instances(whole: BuiltFolder) -> None:
    counts = Counter(row["structure"] for row in rows(whole))
    assert counts.keys() == STRUCTURES.keys()
    assert set(counts.values()) == {16}


def test_every_reference_passes_and_every_near_miss_fails(whole: BuiltFolder, corpus: Path) -> None:
    task = CollieTask(str(whole.folder / INSTANCES), data=DataFolder(corpus))
    near = {row["id"]: row["near_misses"] for row in rows(whole)}
    misses = 0
    for instance in task.instances():
        gold = task.reference(instance)
        assert gold is not None
        assert task.score(instance, gold)["constraints"].passed
        for text in near[instance.id]:
            misses += 1
            assert not task.score(instance, text)["constraints"].passed
    assert misses > len(near)
    audited = rows(whole, AUDIT)
    assert all(one["passes"] and not one["problems"] and not one["unbroken"] for one in audited)


def test_no_text_is_twice_in_a_structure_and_targets_are_clean(whole: BuiltFolder) -> None:
    pairs = [(row["structure"], row["example"]) for row in rows(whole)]
    assert len(set(pairs)) == len(pairs)

    def texts(target: Any) -> list[str]:
        if isinstance(target, list):
            return [text for part in target for text in texts(part)]
        return [target] if isinstance(target, str) else []

    ends = [
        text[place] for row in rows(whole) for text in texts(row["targets"]) for place in (0, -1)
    ]
    assert ends
    assert all(end.isalnum() for end in ends)


def test_passages_have_at_least_two_paragraphs(whole: BuiltFolder) -> None:
    sizes = {len(r["example"].split("\n\n")) for r in rows(whole) if r["structure"] == "pass01"}
    assert sizes == {2, 3, 4}


def test_examples_are_natural(whole: BuiltFolder) -> None:
    for row in rows(whole):
        assert not set(row["example"]) & set("|©")
        assert "example.org" not in row["example"]
        assert row["level"] == "passage" or "\n" not in row["example"]


def test_the_same_again_whatever_the_number_of_processes(whole: BuiltFolder, corpus: Path) -> None:
    again = made(corpus, "again", targets=16, jobs=2)
    for name in (INSTANCES, AUDIT, REPORT, MANIFEST):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    source = f"corpus={corpus / 'corpus'}"
    other = made(corpus, "other", ("sent04",), sources=(source,), targets=16, seed=1)
    texts = {row["example"] for row in rows(whole)}
    assert sum(row["example"] in texts for row in rows(other)) < len(rows(other)) / 2


def test_the_manifest_and_the_card_say_what_it_is_made_of(whole: BuiltFolder) -> None:
    said = json.loads((whole.folder / MANIFEST).read_text())
    assert said["kind"] == "collie"
    assert said["seed"] == 0
    for name, digest in said["sha256"].items():
        assert hashlib.sha256((whole.folder / name).read_bytes()).hexdigest() == digest
    corpus, words = said["sources"]
    assert (corpus["available"], corpus["chosen"]) == (70, 70)
    assert corpus["filters"] == ["capitals", "url", "copyright", "table", "no_sentence"]
    assert said["counts"]["para01"] == {"corpus": 16}
    card = (whole.folder / CARD).read_text()
    for fact in (corpus["sha256"], words["sha256"], "| seed | 0 |", *STRUCTURES, "no\\_sentence"):
        assert fact in card


def test_the_report_says_what_became_of_the_text(whole: BuiltFolder) -> None:
    said = (whole.folder / REPORT).read_text()
    assert said == whole.report
    paragraphs = 0
    for path in (whole.folder.parent / "corpus").iterdir():
        paragraphs += sum(bool(part.strip()) for part in path.read_text().split("\n\n"))
    assert f" {paragraphs:,} |" in said
    for name in ("capitals", "copyright", "url", "table", "no\\_sentence"):
        assert f"| corpus | paragraph | {name} |" in said
    assert "**corpus/para01/0**" in said


def test_documents_and_strings_are_bounded(corpus: Path) -> None:
    source = f"corpus={corpus / 'corpus'}"
    changes = {"documents": 20, "strings": 2}
    recipe = Recipe(find_structures(["sent04"]), [find_source(source, changes)])
    built = build(recipe, corpus / "few", DataFolder(corpus))
    found = Counter(row["metadata"]["document"] for row in rows(built))
    assert len(found) == 20
    assert max(found.values()) == 2


def test_a_mark_of_the_checker_is_in_the_manifest(whole: BuiltFolder) -> None:
    assert whole.facts["splitter"] == splitter(whole.folder.parent / "nltk_data").name


def test_an_interrupted_build_resumes(corpus: Path) -> None:
    write_corpus(corpus / "many", MOST_DOCUMENTS + 2, 100)  # two batches
    sources = (f"many={corpus / 'many'}",)
    undisturbed = made(corpus, "one", ("para05",), sources=sources)
    assert undisturbed.resumed == 0

    class Stopped(Exception):
        pass

    said: list[str] = []

    def stop(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        made(corpus, "two", ("para05",), sources=sources, status=stop)
    assert not (corpus / "two").exists()
    kept = corpus / ".two.stages"
    (torn,) = [path for path in kept.iterdir() if path.name.endswith("00001.json")]
    torn.write_bytes(torn.read_bytes()[:-9])
    resumed = made(corpus, "two", ("para05",), sources=sources)
    assert resumed.resumed == 1
    assert not kept.exists()
    for name in (INSTANCES, AUDIT, REPORT):
        assert (corpus / "one" / name).read_bytes() == (corpus / "two" / name).read_bytes()
    shutil.rmtree(corpus / "many")


def test_a_text_that_changed_is_not_taken_from_a_stage(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", 3, 3_000)
    sources = (f"corpus={tmp_path / 'corpus'}",)

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, "a", ("sent04",), sources=sources, status=stop)
    path = tmp_path / "corpus" / "0000.txt"
    path.write_text(path.read_text().replace("the", "that"))
    assert made(tmp_path, "a", ("sent04",), sources=sources).resumed == 0


def test_mistakes_are_reported(corpus: Path, tmp_path: Path) -> None:
    text = f"corpus={corpus / 'corpus'}"
    with pytest.raises(ConfigError, match="Add a word list"):
        made(corpus, "bad", sources=(text,))
    with pytest.raises(ConfigError, match="two sources named 'corpus'"):
        made(corpus, "bad", ("sent01",), sources=(text, text))
    (tmp_path / "dirt").mkdir()
    with pytest.raises(DataMissing, match="has no file"):
        made(corpus, "bad", ("sent01",), sources=(f"dirt={tmp_path / 'dirt'}",))
    (tmp_path / "dirt" / "a.txt").write_text("TITLE\n\nSee example.org.")
    with pytest.raises(DataInvalid, match="drop all 2 paragraphs"):
        made(corpus, "bad", ("sent01",), sources=(f"dirt={tmp_path / 'dirt'}",))
    (tmp_path / "dirt" / "a.txt").write_bytes(b"\xff\xfe\0")
    with pytest.raises(DataInvalid, match="can be read: not text"):
        made(corpus, "bad", ("sent01",), sources=(f"dirt={tmp_path / 'dirt'}",))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunConflict, match="not a benchmark"):
        made(tmp_path, ".", ("sent01",), sources=(text,))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_items_of_a_build_are_read_by_the_task(whole: BuiltFolder) -> None:
    for item in list(read_items(whole.folder / INSTANCES))[::50]:
        assert item.example is not None
        assert check(item.specification, item.example).passed


def test_a_record_that_cannot_be_read_is_counted_and_named(tmp_path: Path) -> None:
    texts = [f"Ada carried {n} baskets up the hill, and Emil counted them." for n in range(9)]
    lines = [json.dumps({"text": text, "document": "a forged name"}) for text in texts]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"text": ', '{"other": 1}']))
    built = made(tmp_path, structures=("sent04",), sources=(f"rows={tmp_path / 'rows.jsonl'}",))
    [source] = built.facts["sources"]
    assert source["unreadable"] == 2
    assert "- 10: not a JSON object" in built.report
    assert "- 11: has no column 'text'" in built.report
    assert "| unreadable | 2 |" in (built.folder / CARD).read_text()
    # What a row says of itself is not where it is from.
    assert {row["metadata"]["document"] for row in rows(built)} <= {str(n) for n in range(1, 10)}
    none = tmp_path / "none.jsonl"
    none.write_text('{"other": 1}')
    both = (f"rows={tmp_path / 'rows.jsonl'}", f"none={none}")
    with pytest.raises(DataInvalid, match="No document of 'none' can be read: has no column 'text"):
        made(tmp_path, structures=("sent04",), sources=both)


def test_an_empty_result_is_explained_and_no_stage_stays(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", documents=3, characters=1_000)
    ends = tmp_path / "ends.yaml"
    sources = (f"corpus={tmp_path / 'corpus'}",)
    structure = (
        "{name: ends, level: paragraph, targets: {take: value}, constraint: {target_level: "
        "character, transformation: {op: position, index: -1}, relation: '=='}}"
    )
    ends.write_text(structure)
    with pytest.raises(DataInvalid, match="does not begin and end with a letter or digit"):
        made(tmp_path, structures=(str(ends),), sources=sources)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "ends.yaml"]


def test_a_second_build_of_a_folder_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", documents=3, characters=1_000)
    sources = (f"corpus={tmp_path / 'corpus'}",)
    refused = []

    def meanwhile(_: str) -> None:
        with pytest.raises(RunConflict, match="Another process is building") as refused_by:
            made(tmp_path, structures=("sent04",), sources=sources)
        refused.append(refused_by.value.remedy)

    made(tmp_path, structures=("sent04",), sources=sources, status=meanwhile)
    assert refused
    assert (tmp_path / "mine" / INSTANCES).exists()
    assert not (tmp_path / ".mine.stages").exists()
