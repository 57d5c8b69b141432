"""Words, sentences, whole words and comparisons of text in any script."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.benchmarks import punkt
from harness.scoring.text import (
    Uncountable,
    count_occurrences,
    count_words,
    fold_case,
    has_other_scripts,
    is_whole_word,
    normalize_text,
    sentences,
    words,
)

needs_icu = pytest.mark.skipif(find_spec("icu4py") is None, reason="needs the extra icu")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A well-known “word” — don’t!", ["A", "well-known", "word", "don’t"]),
        ("Привет, мир! Как дела?", ["Привет", "мир", "Как", "дела"]),
        ("أنا أحب تعلم الآلة.", ["أنا", "أحب", "تعلم", "الآلة"]),
        ("मुझे मशीन लर्निंग पसंद है।", ["मुझे", "मशीन", "लर्निंग", "पसंद", "है"]),
        ("나는 학교에 간다.", ["나는", "학교에", "간다"]),
        ("Hello，world！", ["Hello", "world"]),
    ],
)
def test_words_between_spaces(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert count_words(text) == len(expected)


@needs_icu
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我喜欢机器学习。", ["我", "喜欢", "机器", "学习"]),
        ("我用Python3写C++代码。", ["我", "用", "Python3", "写", "C++", "代码"]),
        ("私は3.5キロです", ["私", "は", "3.5", "キロ", "です"]),
        ("ジョン・スミス", ["ジョン", "スミス"]),
        ("データ_1を読む", ["データ", "1", "を", "読む"]),
        ("１，０００円、２円", ["１，０００", "円", "２", "円"]),
        ("ฉันชอบภาษาไทย", ["ฉัน", "ชอบ", "ภาษา", "ไทย"]),
        ("ຂ້ອຍມັກຮຽນ", ["ຂ້ອຍ", "ມັກ", "ຮຽນ"]),
        ("ខ្ញុំចូលចិត្តរៀន", ["ខ្ញុំ", "ចូលចិត្ត", "រៀន"]),
        ("They say 你好 a lot, don't they?", ["They", "say", "你好", "a", "lot", "don't", "they"]),
    ],
)
def test_words_of_scripts_without_spaces(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert count_words(text) == len(expected)


def test_words_of_scripts_without_rules_are_not_counted() -> None:
    with pytest.raises(Uncountable, match="no rules for the words"):
        count_words("བཀྲ་ཤིས་བདེ་ལེགས།")


@given(st.text(st.characters(max_codepoint=0x24F)))
def test_words_of_latin_text_are_counted_between_spaces(text: str) -> None:
    assert count_words(text) == sum(any(map(str.isalnum, part)) for part in text.split())
    assert not has_other_scripts(text)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("Dr. Smith came. He left!", 2),
        ("Naïve “café”. Déjà vu? Oui.", 3),
        ("你好。再见！“好吗？”他说。", 4),
        ("你好!再见?走吧.", 3),
        ("版本v1.0发布了。请看www.百度.com吧。", 2),
        ("标题\n第一句。\n第二句", 3),
        ("他走了……", 1),
        ("私は3.5キロ走った。はい！！", 2),
        ("３．５キロ．はい．", 2),
        ("هل أنت بخير؟ نعم. شكرا!", 3),
        ("کیا حال ہے؟ ٹھیک ہے۔ شکریہ۔", 3),
        ("यह है। वह है। क्या?", 3),
        ("ሰላም ነው። እሺ ነው።", 2),
        ("Τι κάνεις; Καλά. Ναι.", 3),
        ("Это т.е. пример. Да! А. С. Пушкин.", 3),
        ("Это одно\nпредложение. iPhone уже другое.", 2),
        ("안녕하세요. 저는 학생입니다!", 2),
        ("Ես եմ։ Դու ես։", 2),
        ("មែន។ ទេ។", 2),
    ],
)
def test_sentences(text: str, n: int) -> None:
    assert len(sentences(text, punkt.own().tokenize)) == n


@pytest.mark.parametrize(
    ("text", "others"), [("ab вг", False), ("ab вгд", True), ("abc вг", False), ("a 好", True)]
)
def test_most_letters_decide_unless_a_script_has_no_spaces(text: str, others: bool) -> None:
    assert has_other_scripts(text) is others


def test_sentences_of_scripts_without_marks_are_not_counted() -> None:
    with pytest.raises(Uncountable, match="no rules for the sentences"):
        sentences("ฉันชอบภาษาไทย", punkt.own().tokenize)


@pytest.mark.parametrize(
    ("target", "text", "whole"),
    [
        ("oak", "oak-tree", True),
        ("oak", "oaken", False),
        ("oak", "oak_1", False),
        ("Python", "我用Python写代码", True),
        ("Python", "我用Python3写代码", False),
        ("5", "第5章", True),
        ("क", "कि", False),
        ("x", "x\u0302", False),
        ("학교", "학교에", False),
        ("C++", "用C++写", True),
        ("བོད", "བོད་ཡིག", True),
    ],
)
def test_whole_words(target: str, text: str, whole: bool) -> None:
    assert is_whole_word(target, text, text.index(target)) is whole
    assert count_occurrences(target, text) == whole


def test_occurrences_do_not_overlap() -> None:
    assert count_occurrences("ha ha", "ha ha ha") == 1
    assert count_occurrences("ha ha", "ha ha ha ha") == 2
    assert count_occurrences("ha ha", "haha ha ha") == 1  # after a place that is not whole


@needs_icu
@pytest.mark.parametrize(
    ("target", "whole"), [("学习", True), ("机器学习", True), ("学", False), ("器学", False)]
)
def test_whole_words_within_a_script_without_spaces(target: str, whole: bool) -> None:
    text = "我喜欢机器学习。"
    assert is_whole_word(target, text, text.index(target)) is whole


def test_a_symbol_joins_only_if_words_must_stand_apart() -> None:
    assert is_whole_word("-5", "3-5", 1)
    assert not is_whole_word("-5", "3-5", 1, apart=True)
    assert count_occurrences("", "abc") == 0


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cafe\u0301", "café"),
        ("ap\u200bple\ufeff", "apple"),
        ("co\u00adop", "coop"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("a\u2029b", "a\n\nb"),
        ("\u1100\u1161", "가"),
    ],
)
def test_the_form_in_which_texts_are_compared(text: str, same: str) -> None:
    assert normalize_text(text) == same


@pytest.mark.parametrize("text", ["Ｐｙ", "x²", "don’t", "你好，", "ﬁn"])
def test_what_only_looks_alike_stays_different(text: str) -> None:
    assert normalize_text(text) == text


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("STRASSE", "straße", True),
        ("ΟΔΟΣ", "οδος", True),
        ("İstanbul", "istanbul", True),
        ("ısı", "isi", False),
        ("É", "e\u0301", True),
    ],
)
def test_case(text: str, other: str, same: bool) -> None:
    assert (fold_case(normalize_text(text)) == fold_case(normalize_text(other))) is same


def test_without_icu_there_is_no_count_and_any_place_may_be_a_boundary(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["icu4py"] = sys.modules["icu4py.breakers"] = None
from harness.plugin_loader import kind
from harness.records import Instance
def passed(name, text, **options):
    return kind("checkers").build(name, options).check(text, Instance("1", None)).passed
print(passed("word_count", "我喜欢机器学习。", at_most=9),
      passed("word_count", "Привет, мир", at_most=9),
      passed("contains", "我喜欢学习", target="学", whole_words=True))
from pathlib import Path
from harness.datasets.folder import DataFolder
from harness.tasks import JsonlTask
Path("rows.jsonl").write_text('{"prompt": "写一句话"}', "utf-8")
data = DataFolder(Path())
task = JsonlTask("rows.jsonl", checks=[{"word_count": {"at_most": 9}}], data=data)
print(*task.prompt_errors())
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    verdicts, warning = ended.stdout.splitlines()
    assert verdicts.split() == ["None", "True", "True"]
    assert "word_count: Words in Chinese" in warning
    assert "[icu]" in warning


@needs_icu
@pytest.mark.parametrize("part", ["你", "เ", "我a", "。", "!", "\n", "a\u0301", "ก "])
def test_hostile_text_takes_linear_time(part: str) -> None:
    text = part * (30_000 // len(part))
    started = time.process_time()
    for function in (normalize_text, fold_case, has_other_scripts, count_words):
        function(text)
    count_occurrences(part[0], text)
    if "ก" not in part and "เ" not in part:
        sentences(text, lambda piece: [piece])
    assert time.process_time() - started < 2
