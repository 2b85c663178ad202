"""Preparation of speech: log-mel features, manifests, bad recordings, and Mini LibriSpeech."""

import gzip
import io
import json
import sys

import mini_librispeech
import numpy as np
import pytest
from helpers.files import contents, lines_of, tar_gz

from memattn.data import corpus, features
from memattn.data import tokenizer as tokenizers
from memattn.data.preparation import audio, speech
from memattn.data.tokenizer import TextSettings
from memattn.errors import ConfigError, DataError

soundfile = pytest.importorskip("soundfile")
WORDS = ["ann", "bob", "cat", "dog eats"]


def tone(frequency, seconds=0.3, rate=audio.RATE, channels=1):
    """Samples [n, channels] of a tone that falls silent towards its end."""
    time = np.arange(int(seconds * rate)) / rate
    return np.repeat(0.5 * np.sin(2 * np.pi * frequency * time)[:, None] * (1 - time / seconds)[:, None], channels, 1)


def write_recordings(folder, number=8, split="train", **options):
    """Writes recordings and a manifest; returns its path and the texts."""
    folder.mkdir(exist_ok=True, parents=True)
    texts = [WORDS[i % len(WORDS)] for i in range(number)]
    for i in range(number):
        soundfile.write(
            folder / f"{split}-{i}.wav", tone(300 + 40 * i, 0.2 + 0.02 * i, **options), options.get("rate", audio.RATE)
        )
    path = folder / f"{split}.tsv"
    path.write_text("".join(f"{split}-{i}.wav\t{text}\n" for i, text in enumerate(texts)))
    return str(path), texts


def prepare(folder, splits, shared=None, units="spelled", bpe_units=None):
    settings = speech.Settings(TextSettings("untokenized", "", "en", units), bpe_units, max_seconds=40)
    return speech.prepare(splits, settings, str(folder), 2, shared)


def log_mel_by_numpy(samples):
    """Log-mel features by NumPy: triangles that are equally wide in mel, on the power of a Hann window's spectrum."""
    frames = np.stack([samples[start : start + 400] for start in range(0, len(samples) - 399, 160)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    power = np.abs(np.fft.rfft(frames * window, 512)) ** 2
    mel = lambda hertz: 1127 * np.log1p(np.asarray(hertz) / 700)  # noqa: E731
    edges = np.linspace(mel(20), mel(7600), 82)
    bins = mel(np.arange(257) * 16000 / 512)
    rising = (bins[:, None] - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - bins[:, None]) / np.diff(edges)[1:]
    triangles = np.maximum(0, np.minimum(rising, falling))
    triangles[0] = 0
    return np.log(np.maximum(power @ triangles, 1e-8))


def test_features_equal_numpy():
    samples = tone(440)[:, 0] + np.random.RandomState(1).normal(0, 0.01, 4800)
    expected = log_mel_by_numpy(samples)
    assert expected.shape == (1 + (4800 - 400) // 160, 80)
    np.testing.assert_allclose(audio.log_mel(np.float32(samples)), expected, atol=2e-2)


def test_channels_are_averaged_and_rates_resampled(tmp_path):
    soundfile.write(tmp_path / "plain.wav", tone(440), 16_000)
    soundfile.write(tmp_path / "stereo.flac", tone(440, channels=2), 16_000)
    soundfile.write(tmp_path / "cd.wav", tone(440, rate=44_100), 44_100)
    soundfile.write(tmp_path / "opposite.wav", tone(440) * [0, 1, -1], 16_000)  # whose average is silence
    plain, stereo, cd, opposite = (
        audio.read(str(tmp_path / name), 9) for name in ("plain.wav", "stereo.flac", "cd.wav", "opposite.wav")
    )
    assert (plain.is_mixed, plain.is_resampled, stereo.is_mixed, cd.is_resampled) == (False, False, True, True)
    assert plain.seconds == stereo.seconds == cd.seconds == pytest.approx(0.3)
    loud = plain.features > np.log(1e-3)  # above what rounding to 16 bits and resampling add
    assert loud.any(1).all()
    np.testing.assert_allclose(stereo.features[loud], plain.features[loud], atol=0.05)
    assert len(cd.features) == len(plain.features)
    np.testing.assert_allclose(cd.features[loud], plain.features[loud], atol=0.3)
    np.testing.assert_allclose(opposite.features[loud], plain.features[loud], atol=0.05)


def written(extension, subtype=None, seconds=0.3, frequency=440):
    """The bytes of an audio file in which a tone sounds."""
    content = io.BytesIO()
    soundfile.write(content, tone(frequency, seconds), audio.RATE, format=extension.upper(), subtype=subtype)
    return bytearray(content.getvalue())


def read_bytes(folder, name, content):
    (folder / name).write_bytes(content)
    return audio.read(str(folder / name), 9)


@pytest.mark.parametrize(("subtype", "size"), [("PCM_16", 0x7FFF_F000), ("GSM610", 0xFFFF_FFFF)])
def test_a_wav_file_whose_writer_did_not_know_its_size_is_read_to_the_end(tmp_path, subtype, size):
    content = written("wav", subtype)
    expected = read_bytes(tmp_path, "whole.wav", content)
    assert expected.seconds == pytest.approx(0.3, abs=0.05)  # a multiple of a block
    at = content.index(b"data") + 4
    content[at : at + 4] = size.to_bytes(4, "little")
    recording = read_bytes(tmp_path, "streamed.wav", content)
    assert recording.seconds == pytest.approx(expected.seconds, abs=0.021)  # GSM: one more block of 20 ms
    np.testing.assert_allclose(recording.features[: len(expected.features)], expected.features, atol=1e-3)


def test_a_flac_file_that_does_not_state_its_length_is_read_to_the_end(tmp_path):
    content = written("flac", seconds=5)
    expected = read_bytes(tmp_path, "whole.flac", content)
    content[21] &= 0xF0  # the number of samples has 36 bits
    content[22:26] = bytes(4)
    recording = read_bytes(tmp_path, "streamed.flac", content)
    assert recording.seconds == expected.seconds == 5
    np.testing.assert_allclose(recording.features, expected.features, atol=1e-3)
    with pytest.raises(DataError, match=r"^longer than 4\.99 s$"):
        audio.read(str(tmp_path / "streamed.flac"), 4.99)


@pytest.mark.parametrize(
    ("extension", "subtype"), [("wav", "PCM_16"), ("wav", "IMA_ADPCM"), ("aiff", None), ("au", None), ("flac", None)]
)
def test_a_recording_that_was_cut_is_refused(tmp_path, extension, subtype):
    content = written(extension, subtype)
    with pytest.raises(DataError, match="^(cut short: |broken, or no audio: .*lost sync)"):
        read_bytes(tmp_path, f"cut.{extension}", content[: len(content) * 3 // 4])


def test_a_corpus_of_speech_is_prepared(tmp_path):
    (train, texts), (valid, _) = write_recordings(tmp_path / "a"), write_recordings(tmp_path / "b", 3, "dev")
    counts = prepare(tmp_path / "corpus", {"train": train, "valid": valid})
    assert {"read": 8, "pairs": 8, "unknown_tokens": 0}.items() <= counts["train"].items()
    folder = str(tmp_path / "corpus")
    vocabulary, tokenizer = corpus.read_vocabulary(folder), tokenizers.read(folder)
    pairs = corpus.read_corpus(folder, "train", vocabulary, "features")
    assert tokenizer.decode(vocabulary.decode(pairs.target[i]) for i in range(8)) == texts
    assert set(vocabulary.tokens[4:]) == {*"annbobcatdogeats", "<space>"}
    stacked = np.concatenate([pairs.source[i] for i in range(8)])
    np.testing.assert_allclose(stacked.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(stacked.std(0), 1, atol=1e-3)
    expected = audio.read(str(tmp_path / "a" / "train-5.wav"), 9).features
    np.testing.assert_allclose(pairs.source[5] * pairs.source.deviation + pairs.source.mean, expected, atol=1e-3)
    assert corpus.read_references(folder, "valid")[1] == texts[:3]
    assert len(corpus.read_corpus(folder, "valid", vocabulary, "features")) == 3
    assert (tmp_path / "corpus" / "skipped.tsv").read_text() == ""
    assert prepare(tmp_path / "corpus", {"train": train, "valid": valid}) == counts


def test_bands_that_are_silent_in_training_are_ignored_in_other_recordings(tmp_path):
    (tmp_path / "rec").mkdir()
    random = np.random.RandomState(1)
    for split, rate in (("train", 8_000), ("test", 16_000)):
        noise = random.normal(0, 0.01, [3 * rate, 1])
        soundfile.write(tmp_path / "rec" / f"{split}.wav", tone(440, 3, rate) + noise, rate)
        (tmp_path / f"{split}.tsv").write_text(f"rec/{split}.wav\tann\n")
    prepare(tmp_path / "corpus", {split: str(tmp_path / f"{split}.tsv") for split in ("train", "test")})
    train, test = (features.read(str(tmp_path / "corpus"), split) for split in ("train", "test"))
    is_ignored = np.isinf(train.deviation)
    assert is_ignored[64:].all()  # above 4.1 kHz
    assert not is_ignored[:62].any()
    assert np.abs(test[0]).max() < 20
    np.testing.assert_array_equal(test[0][:, is_ignored], 0)


def test_bad_recordings_are_skipped_in_training_and_listed(tmp_path, recwarn):
    folder = tmp_path / "a"
    train, texts = write_recordings(folder)
    (folder / "broken.flac").write_bytes(written("flac")[:200])
    (folder / "text.wav").write_text("this is no audio\n")
    soundfile.write(folder / "click.wav", tone(500, 0.01), 16_000)
    soundfile.write(folder / "hour.wav", np.zeros(3600 * 100, np.int16), 100)
    soundfile.write(folder / "infinite.wav", np.full(800, np.inf), 16_000, subtype="FLOAT")
    reasons = {
        "broken.flac": "broken, or no audio",
        "text.wav": "broken, or no audio",
        "click.wav": "10 ms long; the least is 25 ms",
        "hour.wav": "longer than 40 s",
        "infinite.wav": "broken: it has samples that are not finite",
        "missing.wav": "unreadable: No such file or directory",
        "train-0.wav": "without text",
    }
    with open(train, "a", encoding="utf-8") as file:
        file.writelines(f"{name}\t{' ' if reason == 'without text' else 'bad'}\n" for name, reason in reasons.items())
    counts = prepare(tmp_path / "corpus", {"train": train})["train"]
    assert (counts["read"], counts["pairs"]) == (len(texts) + len(reasons), len(texts))
    skipped = [line.split("\t") for line in lines_of(tmp_path / "corpus" / "skipped.tsv")]
    for number, (name, reason), (place, path, listed) in zip(range(9, 16), reasons.items(), skipped, strict=True):
        assert (place, path) == (f"{train}:{number}", str(folder / name))
        assert listed.startswith(reason)
    (message,) = [str(warning.message) for warning in recwarn]
    assert message.startswith("7 of 15 recordings are skipped, such as ")
    assert message.endswith("skipped.tsv in the corpus lists all")
    assert lines_of(tmp_path / "corpus" / "train.reference") == texts


def test_a_manifest_without_a_good_recording_is_refused(tmp_path):
    (tmp_path / "train.tsv").write_text("missing.wav\tann\n")
    with pytest.raises(DataError, match="train: none of 1 recordings can be used, such as .*missing.wav.*No such file"):
        prepare(tmp_path / "corpus", {"train": str(tmp_path / "train.tsv")})
    assert not (tmp_path / "corpus").exists()


def test_a_bad_recording_of_a_scored_split_is_an_error_that_can_be_mended(tmp_path, monkeypatch):
    (train, _), (valid, _) = write_recordings(tmp_path / "a"), write_recordings(tmp_path / "b", 3, "dev")
    (tmp_path / "b" / "dev-1.wav").unlink()
    read, paths = audio.read, []
    monkeypatch.setattr(audio, "read", lambda path, most: paths.append(path) or read(path, most))
    problem = r"dev.tsv:2: .*dev-1.wav: unreadable: No such file.*; valid is scored as a whole"
    with pytest.raises(DataError, match=problem):
        prepare(tmp_path / "corpus", {"train": train, "valid": valid})
    assert len(paths) == 3  # the training split is read last
    soundfile.write(tmp_path / "b" / "dev-1.wav", tone(300), 16_000)
    assert prepare(tmp_path / "corpus", {"train": train, "valid": valid})["valid"]["pairs"] == 3


def test_another_corpus_lends_its_vocabulary_and_statistics(tmp_path):
    train, _ = write_recordings(tmp_path / "a")
    test, texts = write_recordings(tmp_path / "b", 3, "new")
    prepare(tmp_path / "corpus", {"train": train}, units="bpe", bpe_units=12)
    assert len(lines_of(tmp_path / "corpus" / "vocab.txt")) <= 12
    prepare(tmp_path / "other", {"test": test}, shared=str(tmp_path / "corpus"))
    assert lines_of(tmp_path / "other" / "test.reference") == texts
    tokens = [line.split() for line in lines_of(tmp_path / "other" / "test.target")]
    assert tokenizers.read(str(tmp_path / "other")).decode(tokens) == texts
    for name in ("vocab.txt", "bpe.codes", features.STATISTICS, tokenizers.SETTINGS):
        assert (tmp_path / "other" / name).read_bytes() == (tmp_path / "corpus" / name).read_bytes()
    with pytest.raises(ConfigError, match="--vocabulary_of .*: not a corpus that memattn-prepare speech wrote"):
        prepare(tmp_path / "third", {"test": test}, shared=str(tmp_path))


def test_soundfile_without_its_library_is_an_error_that_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "soundfile.py").write_text('raise OSError("cannot load library libsndfile.so")\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "soundfile")
    audio.packages.cache_clear()
    with pytest.raises(ConfigError, match=r"cannot load library libsndfile.so; .*pip install -e '\.\[speech\]'"):
        prepare(tmp_path / "corpus", {"train": "train.tsv"})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.tsv", "a.wav\tx\nb.wav\n", "m.tsv:2: expected an audio file, a tab and its text, not 'b.wav'"),
        ("m.jsonl", '{"audio": "a.wav"}\n', "m.jsonl:1: text is missing"),
        ("m.jsonl", "a.wav\tx\n", "m.jsonl:1: not JSON"),
        ("m.tsv", "", "m.tsv: empty; a split needs at least one line"),
    ],
)
def test_a_malformed_manifest_is_refused(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        speech.read_manifest(str(tmp_path / name))


def test_manifests_of_both_forms_say_the_same(tmp_path):
    (tmp_path / "m.tsv").write_text("a.wav\tIt's  so\n/b.flac\tÄh\n", encoding="utf-8")
    rows = [{"audio": "a.wav", "text": "It's\nso", "id": 3}, {"audio": "/b.flac", "text": "Äh"}]
    (tmp_path / "m.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name in ("m.tsv", "m.jsonl"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    expected = [(str(tmp_path / "a.wav"), "It's so"), ("/b.flac", "Äh")]
    for name in ("m.tsv", "m.jsonl", "m.tsv.gz", "m.jsonl.gz"):
        utterances = speech.read_manifest(str(tmp_path / name))
        assert [utterance[1:] for utterance in utterances] == expected


def part(name, speakers):
    """A part of the release in its layout: LibriSpeech/PART/SPEAKER/CHAPTER/, a file of texts beside the recordings."""
    members = {"LibriSpeech/README.TXT": b"LibriSpeech\n"}
    for speaker in speakers:
        folder, texts = f"LibriSpeech/{name}/{speaker}/7", ""
        for number in range(3):
            members[f"{folder}/{speaker}-7-{number:04}.flac"] = bytes(
                written("flac", frequency=200 + speaker + 50 * number)
            )
            texts += f"{speaker}-7-{number:04} {WORDS[number].upper()}\n"
        members[f"{folder}/{speaker}-7.trans.txt"] = texts.encode()
    return tar_gz(members)


def test_mini_librispeech_is_extracted_and_read(tmp_path, monkeypatch):
    monkeypatch.setattr(mini_librispeech, "CHECKSUMS", dict.fromkeys(mini_librispeech.CHECKSUMS))
    for name, speakers in {"train-clean-5": [19, 26], "dev-clean-2": [84]}.items():
        (tmp_path / f"{name}.tar.gz").write_bytes(part(name, speakers))  # as if downloaded before
    manifests = mini_librispeech.fetch("https://example.org", str(tmp_path))
    utterances = speech.read_manifest(manifests["train"])
    assert [utterance.text for utterance in utterances] == [word.upper() for word in WORDS[:3]] * 2
    assert audio.read(utterances[0].audio, 9).features.shape == (28, 80)
    assert len(speech.read_manifest(manifests["valid"])) == 3


@pytest.mark.slow
def test_the_command_prepares_speech_and_says_how_to_train(tmp_path, command):
    (train, _), (valid, _) = write_recordings(tmp_path / "a"), write_recordings(tmp_path / "b", 3, "dev", rate=8_000)
    folder = tmp_path / "corpus"
    arguments = ["memattn.prepare", "speech", "--train", train, "--valid", valid, "--folder", folder]
    printed = command(tmp_path, *arguments).stdout
    assert f"{folder}: train: 8 recordings of 8, 0.00 hours, " in printed
    assert "3 recordings of 3" in printed and "3 resampled to 16 kHz" in printed
    assert f"--config speech/small --set data.folder={folder}" in printed
    before = contents(folder)
    (tmp_path / "a" / "train-0.wav").write_bytes(b"")
    again = command(tmp_path, *arguments)
    line = f"{folder}: complete, and left as it is, even if recordings have changed; to make it anew, remove it\n"
    assert (again.stdout, again.stderr, contents(folder)) == (line + printed, "", before)
    without_train = ["memattn.prepare", "speech", "--valid", valid, "--folder", tmp_path / "other"]
    error = command(tmp_path, *without_train, may_fail=True).stderr
    assert error.startswith("error: --train: give a manifest, or --vocabulary_of")
