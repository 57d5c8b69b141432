import pytest

from harness.builders.wildifeval.answers import Category, category, chosen, numbered_names


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("Length", Category("Length")),
        ("4. Length", Category("Length")),
        ("4", Category("Length")),
        ("**Format and structure**\nsince it speaks of lists", Category("Format and Structure")),
        ("include/avoid", Category("Include / Avoid")),
        ("Include / Avoid.", Category("Include / Avoid")),
        ("Other: Visual Aesthetic", Category("Other", "Visual Aesthetic")),
        ("9. Other: *Visual*", Category("Other", "Visual")),
        ("Other", Category("Other")),
        ("Otherwise", Category()),
        ("12", Category()),
        ("0", Category()),
        ("It is about length and style.", Category()),
        ("", Category()),
    ],
)
def test_the_kind_that_a_reply_names(reply: str, found: Category) -> None:
    assert category(reply) == found


def test_a_title_is_bounded() -> None:
    assert len(category("Other: " + "x" * 10_000).title) <= 60


def test_lists_of_names() -> None:
    said = "Sure:\n1. Sports\n2) **Travel**: going places\n- sports\n3. Art - all of it\n"
    assert numbered_names(said) == ["Sports", "Travel", "Art"]
    assert numbered_names("Sports, Travel") == []
    assert numbered_names("1. " + "x" * 100) == []


def test_what_is_chosen_from_a_list() -> None:
    names = ["Sports", "3D Printing", "Art & Music"]
    assert chosen("sports", names) == "Sports"
    assert chosen("2. 3D printing", names) == "3D Printing"
    assert chosen("3d printing", names) == "3D Printing"
    assert chosen("\n3\n", names) == "Art & Music"
    assert chosen("Art and Music", names) == ""
    assert chosen("", names) == ""
