from pathlib import Path

import pytest

from harness.datasets.folder import DataFolder
from harness.engine.assessment import assess
from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.collie.task import LONG_WORDS, CollieTask, read_words
from harness.records import Reply, verdict


def test_case_and_punctuation_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Lantern\no'clock\n")
    task = CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    instance = next(iter(task.instances()))

    def is_word(text: str) -> bool | float | None:
        return task.score(instance, text)["word"].value

    assert all(map(is_word, ["lantern", " LANTERN.\n", '"lantern"', "o'clock"]))
    assert not any(map(is_word, ["lante", "a lantern", "", "."]))


def test_the_papers_eight_long_words_are_words(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a")
    assert len(LONG_WORDS) == 8
    assert read_words(tmp_path / "words.txt") == LONG_WORDS | {"a"}


def test_that_a_word_is_in_the_list_is_reported_but_not_required(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("lantern\n")
    task = CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    instance = next(i for i in task.instances() if i.data.example == "lantern")
    word, made_up, wrong = (task.score(instance, text) for text in ("lantern", "lanterx", "lant"))
    assert [each["word"].value for each in (word, made_up, wrong)] == [True, False, False]
    assert [verdict(each) for each in (word, made_up, wrong)] == [True, True, False]
    plain = CollieTask(data=DataFolder(tmp_path))
    for text in ("lanterx", "lant"):
        scores = plain.score(instance, text)
        assert verdict(scores) is verdict(task.score(instance, text))
        assert plain.feedback(instance, text, scores) == task.feedback(instance, text, wrong)
    refused = assess(task, instance, Reply("", "content_filter"))
    assert (refused.passed, refused.scores["word"].value) == (False, False)
    sentence = next(i for i in task.instances() if i.groups["structure"] == "sent01")
    assert set(task.score(sentence, "x")) == {"constraints"}
    assert task.score_of_no_answer(sentence) == plain.score_of_no_answer(instance) == {}
    assert "word_list_sha256" in task.fingerprint()


def test_a_word_list_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"words\.txt"):
        CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    for content in (b"", b"\n\n", b"\xff\xfe"):
        (tmp_path / "words.txt").write_bytes(content)
        with pytest.raises(DataInvalid, match="word list"):
            CollieTask(word_list="words.txt", data=DataFolder(tmp_path))
    with pytest.raises(DataMissing, match=r"Cannot read .*: Is a directory"):
        read_words(tmp_path)
