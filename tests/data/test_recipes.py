"""Steps that the recipes in data/ share: removal of copies and the record of a release."""

import recipes


def test_a_source_or_a_target_of_the_test_is_in_no_other_split():
    splits = {
        "train": [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")],
        "valid": [("d", "1"), ("e", "5")],
        "test": [("a", "6"), ("f", "2"), ("f", "7")],
    }
    distinct, left_out = recipes.without_copies(splits)
    assert distinct == {"train": [("c", "3")], "valid": [("d", "1"), ("e", "5")], "test": [("a", "6"), ("f", "2")]}
    assert left_out == {"duplicates": 4, "near_copies": 0}
    assert list(distinct) == ["train", "valid", "test"]


def test_nearly_the_same_source_is_left_out_of_training_unless_only_training_has_it():
    first, second = ([f"{letter}{number}" for number in range(20)] for letter in "ab")
    near, half = [*first[:15], "x"], [*first[:10], *second[:10]]
    splits = {
        "train": [(" ".join(words), str(number)) for number, words in enumerate([near, half, second, [*second, "x"]])],
        "valid": [("c", "c")],
        "test": [(" ".join(first), "first")],
    }
    distinct, left_out = recipes.without_copies(splits)
    assert [target for _, target in distinct["train"]] == ["1", "2", "3"]
    assert left_out == {"duplicates": 0, "near_copies": 1}
