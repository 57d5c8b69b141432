"""NLTK without what it can spare, which everybody else still gets."""

import subprocess
import sys

import pytest

ABSENT = (
    "import sys; from harness.scoring.light_nltk import SPARED; {}; "
    "print([m for m in SPARED if m in sys.modules])"
)


@pytest.mark.parametrize(
    "use",
    [
        "import harness.scoring.constraints.punkt",
        "from harness.scoring.overlap.rouge_l import rouge_l; rouge_l('a cat', ['cats'])",
    ],
)
def test_what_is_spared_is_not_imported(use: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(use)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_it_can_be_imported_afterwards() -> None:
    use = "import harness.scoring.constraints.punkt, scipy.sparse, scipy.stats"
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(use)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['scipy.stats', 'scipy.sparse']\n"
