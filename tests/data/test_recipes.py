"""What the recipes in data/ share."""

import recipes


def test_a_source_or_a_target_of_the_test_is_in_no_other_split():
    splits = {
        "train": [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")],
        "valid": [("d", "1"), ("e", "5")],
        "test": [("a", "6"), ("f", "2"), ("f", "7")],
    }
    distinct, duplicates = recipes.without_duplicates(splits)
    assert distinct == {"train": [("c", "3")], "valid": [("d", "1"), ("e", "5")], "test": [("a", "6"), ("f", "2")]}
    assert duplicates == 4
    assert list(distinct) == ["train", "valid", "test"]
