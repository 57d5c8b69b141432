"""Languages are identified as by langdetect, on which the published verdicts depend."""

from functools import cache
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from harness.scoring.instructions.language_data import SEED, identified

SAMPLES = (
    "War doesn't show who's right, just who's left. Ein, zwei, drei, vier; der Rest ist Schweigen.",
    "Otec matka syn. Ceci n'est pas une pipe, et le style est l'homme même. Kolik řečí umíš?",
    "Война и мир. Україна має талант. Η ζωή είναι ωραία. Merhaba dünya, bugün nasılsın?",
    "これは文です。中文和日文不同。한국어도 있습니다. यह हिन्दी है। এটি বাংলা। هذه جملة عربية.",
)


@cache
def published() -> Any:
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.set_seed(SEED)
    return factory


def by_langdetect(text: str) -> str | None:
    from langdetect.lang_detect_exception import LangDetectException

    detector = published().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except LangDetectException:
        return None


def parts(text: str) -> st.SearchStrategy[str]:
    places = st.integers(0, len(text))
    return st.tuples(places, places).map(lambda ends: text[min(ends) : max(ends)])


@given(st.sampled_from(SAMPLES).flatmap(parts) | st.text(max_size=200))
@example("")
@example("1, 2, 3")
@example("\n".join(SAMPLES))
def test_a_texts_language_is_the_one_that_langdetect_finds(text: str) -> None:
    assert identified(text) == by_langdetect(text)
