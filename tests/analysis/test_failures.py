from harness.analysis.failures import mask_numbers


def test_a_long_reason_is_cut() -> None:
    assert mask_numbers("a\n b " * 200).startswith("a b a b")
    assert len(mask_numbers("word " * 200)) == 300
