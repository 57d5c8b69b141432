"""A text that follows each of IFBench's training instructions, and one that does not."""

from typing import Any

COPIED = {"prompt_to_repeat": "Say oak. "}

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "copy:repeat_phrase": (
        {"phrase": "the old oak fell", "small_n": 2},
        "See: the old elm fell, and the big oak fell.",
        "the old oak fell, the old oak fell",
    ),
    "copy:copy": (COPIED, "say OAK.", "Say elm."),
    "copy:copying_simple": (COPIED, " Say oak.\n", "Say oak. Oak!"),
    "copy:copying_multiple": (COPIED | {"N": 2}, "Say oak.\n******\nSay oak.", "Say oak."),
    "new:copy_span_idx": (COPIED | {"n_start": 4, "n_end": 7}, "Oak", "oak."),
    "detectable_format:sentence_hyphens": ({}, "One two.-Three.", "One two. - Three."),
    "detectable_format:square_brackets": ({}, "[An] [oak.]", "[An] oak."),
    "detectable_format:bigram_wrapping": ({}, "<<I am>> <<at home>> now", "<<I am here>>"),
    "keywords:no_adjacent_consecutive": ({}, "all dogs bark", "all birds sing"),
    "keywords:word_once": ({"keyword": "oak"}, "An Oak.", "An oak, an oak."),
    "keywords:word_count_different_numbers": (
        {"keyword": "oak", "frequency": 2, "relation": "at least"},
        "Oak, oaken.",
        "Oak.",
    ),
    "keywords:exclude_word_harder": ({"keyword": "oak"}, "An Oak.", "An oak is old."),
    "keywords:palindrome": ({}, "The level is low.", "The Level! is low."),
    "keywords:keyword_specific_position": (
        {"keyword": ["oak"], "n": 2, "m": 3},
        "Hello. The old oak.",
        "Hello. The oak.",
    ),
    "keywords:start_end": ({}, "Oak is oak", "Oak is oak."),
    "paragraphs:paragraphs": ({}, "One.\n***\nTwo.", "One.\n\nTwo."),
    "paragraphs:paragraphs2": ({}, "One.\n\nTwo.", "One.\n\n\n\nTwo."),
    "first_word:first_word_sent": ({"first_word": "Oaks"}, "Oaks grow. oaks die!", "Oaks? No."),
    "first_word:first_word_answer": ({"first_word": "Oaks"}, "OAKS grow. No.", "Oaks, they grow."),
    "last_word:last_word_sent": ({"last_word": "oak"}, "An oak. One Oak!", "An oak. No."),
    "last_word:last_word_answer": ({"last_word": "oak"}, 'No. An "Oak."', "An oak. No."),
    "punctuation:punctuation_dot": ({}, "An oak!", "3.5"),
    "punctuation:punctuation_exclamation": ({}, "An oak.", "An oak!"),
    "letters:letter_counting": ({"N": 4, "relation": "less than"}, "Oak 12", "An oak"),
    "letters:letter_counting2": (
        {"letter": "o", "let_frequency": 2, "let_relation": "at least"},
        "Oak, oak",
        "Oak",
    ),
    "count:lowercase_counting": ({"N": 1}, "An oak", "An old oak"),
    "count:counting_composition": (
        {"n_sent": 2, "n_words": 3},
        "One two. A b.\n***\nOne two. A b.\n***\nOne two. A b.",
        "One two. A b.\n***\nOne two. A b.\n***\nOne two. A, b.",
    ),
    "count:count_unique": ({}, "An oak, old.", "An oak, old, grey."),
    "count:count_increment_word": (
        {"keyword1": "elm", "keyword2": "oak"},
        "Oak, elm, oak.",
        "Oak, elm.",
    ),
}
