from pathlib import Path

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid, DataMissing
from harness.records import verdict
from harness.tasks.collie import LONG_WORDS, CollieTask, read_words


def test_case_and_punctuation_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Lantern\no'clock\n")
    task = CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    instance = next(iter(task.instances()))

    def is_word(text: str) -> bool | None:
        return task.score(instance, text)["word"].passed

    assert all(map(is_word, ["lantern", " LANTERN.\n", '"lantern"', "o'clock"]))
    assert not any(map(is_word, ["lante", "a lantern", "", "."]))


def test_the_papers_eight_long_words_are_words(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a")
    assert len(LONG_WORDS) == 8
    assert read_words(tmp_path / "words.txt") == LONG_WORDS | {"a"}


def test_with_a_word_list_a_word_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("lantern\n")
    task = CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    instance = next(i for i in task.instances() if i.data.example == "lantern")
    assert verdict(task.score(instance, "lantern")) is True
    made_up = task.score(instance, "lanterx")
    assert made_up["constraints"].passed
    assert verdict(made_up) is False
    assert "'lanterx' is not in the word list" in task.feedback(instance, "lanterx", made_up)
    sentence = next(i for i in task.instances() if i.groups["structure"] == "sent01")
    assert set(task.score(sentence, "x")) == {"constraints"}
    assert "word_list_sha256" in task.fingerprint()


def test_a_word_list_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"words\.txt"):
        CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    for content in (b"", b"\n\n", b"\xff\xfe"):
        (tmp_path / "words.txt").write_bytes(content)
        with pytest.raises(DataInvalid, match="word list"):
            CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
