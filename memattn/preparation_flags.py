"""The flags that all the preparation scripts share, and the preparation that they ask for."""

from absl import flags

from memattn import processes
from memattn.data.preparation import prepare as preparation
from memattn.data.text import Form, TextSettings


def define(folder: str | None = None, bpe_units: int = 16_000) -> None:
    """Defines them, with these defaults; without one for the folder, it must be given."""
    flags.DEFINE_string("folder", folder, "Where the prepared corpus is to be.", required=folder is None)
    flags.DEFINE_integer("bpe_units", bpe_units, "Joint BPE merges, and units of the vocabulary.", lower_bound=1)
    flags.DEFINE_integer("bpe_sample", 5_000_000, "Pairs that BPE is learned on, where there are more.", lower_bound=1)
    flags.DEFINE_integer("max_length", 200, "Training pairs with more units on a side are dropped.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Draws the sample.", lower_bound=0, upper_bound=2**32 - 1)
    flags.DEFINE_integer("workers", processes.cores(), "Processes.", lower_bound=1)


def prepare(splits: dict[str, tuple[str, str]], form: Form, source_language: str, target_language: str) -> int:
    """Prepares the splits as the flags say, and prints what came out. Raises ConfigError, DataError, OSError.

    In the folder's name, `{pair}` stands for the languages.
    """
    options = flags.FLAGS
    folder = options.folder.replace("{pair}", f"{source_language}-{target_language}")
    settings = preparation.Settings(
        text=TextSettings(form, source_language, target_language),
        bpe_units=options.bpe_units,
        bpe_sample=options.bpe_sample,
        max_length=options.max_length,
        seed=options.seed,
    )
    manifest = preparation.prepare(splits, settings, folder, options.workers)
    train = manifest["counts"]["train"]
    print(
        f"{folder}: {train['pairs']:,} training pairs of {train['read']:,} "
        f"({train['dropped_empty']:,} empty and {train['dropped_too_long']:,} over-long ones dropped), "
        f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens"
    )
    return 0
