"""IFBench: unusual instructions that a program can verify (Pyatkin et al. 2025, arXiv 2507.02833).

There are 58 kinds of instruction, and 29 for training. The task works like IFEval. Prompts have one
turn, or several turns if they are read from your own file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from harness.plugins.benchmarks.ifbench.instructions import (
    formats,
    language_data,
    training,
    words,
)
from harness.plugins.benchmarks.ifeval.instructions import (
    Check,
    InstructionTable,
    instruction_plugins,
)
from harness.plugins.benchmarks.ifeval.task import IFEvalTask
from harness.ports import read_paper

IFBENCH: Mapping[str, Check] = formats.CHECKS | words.CHECKS
TRAINING: Mapping[str, Check] = training.CHECKS

SYLLABLES = "words:odd_even_syllables"
DATA = {
    "ratio:stop_words": ("stopwords", language_data.STOPWORDS),
    "words:start_verb": ("tagger", language_data.TAGGER.format("weights")),
}
"""Maps the ids of instructions to the name and the path of a file of NLTK's data."""

_ENGLISH = """
count:conjunctions count:counting_composition count:person_names count:pronouns
custom:sentence_alphabet
detectable_format:bigram_wrapping detectable_format:sentence_hyphens
detectable_format:square_brackets first_word:first_word_answer first_word:first_word_sent
format:emoji format:newline format:no_bullets_bullets format:title_case
keywords:keyword_specific_position keywords:no_adjacent_consecutive keywords:palindrome
keywords:start_end last_word:last_word_answer last_word:last_word_sent ratio:sentence_balance
ratio:sentence_type ratio:sentence_words ratio:stop_words sentence:alliteration_increment
sentence:increment sentence:keyword words:consonants words:keywords_specific_position
words:last_first words:no_consecutive words:odd_even_syllables words:palindrome
words:paragraph_last_first words:prime_lengths words:repeats words:start_verb words:words_position
"""
_ENGLISH_OFFICIALLY = """
count:count_unique count:unique_word_count count:word_count_range keywords:exclude_word_harder
"""


def versions(ids: Collection[str]) -> dict[str, str]:
    """Return SyllaPy's version and hashes of NLTK's data, as far as instructions depend on them."""
    versions_by_name = {}
    if SYLLABLES in ids:
        language_data.syllable_counter()
        versions_by_name["syllapy"] = version("syllapy")
    for name, (data, file) in DATA.items():
        if name in ids:
            versions_by_name[f"{data}_sha256"] = language_data.sha256(file)
    return versions_by_name


TABLE = InstructionTable(
    {**IFBENCH, **TRAINING},
    versions,
    english=frozenset(_ENGLISH.split()),
    english_officially=frozenset(_ENGLISH_OFFICIALLY.split()),
    counts_words=frozenset(
        {"count:count_unique", "count:unique_word_count", "count:word_count_range"}
    ),
)

PLUGINS = instruction_plugins(TABLE.checks)
"""The checkers: ``ifbench:count/pronouns`` applies the instruction ``count:pronouns``."""


class IFBenchTask(IFEvalTask):
    """Unusual instructions that a program can verify (Pyatkin et al. 2025).

    Args:
        dataset: ``builtin`` (a small example), ``public`` (the published 300 prompts), or a path to
            a file in the published format, with messages allowed instead of prompt.
        verdicts: ``official`` agrees with the published code. ``corrected`` replaces the checks
            that misread some answers, and counts the verdicts that this changes.
    """

    table = read_paper(__file__, "../paper.yaml").table
    _public: ClassVar[str] = "ifbench/IFBench_test.jsonl"
    _builtin: ClassVar[Path] = Path(__file__).parents[1] / "builtin.jsonl"
