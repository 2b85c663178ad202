"""A model of a language without blanks is trained, and scored as by the command of sacreBLEU."""

import csv
import itertools
import json
import random
import subprocess
import sys

import pytest
import tensorflow as tf
from helpers.runs import evaluate, free

from memattn import config as configs
from memattn.data.preparation import parallel
from memattn.data.preparation.parallel import Settings
from memattn.data.text_files import read_lines
from memattn.data.tokenizer import TextSettings
from memattn.runs.trained import load
from memattn.serving.translator import from_trained
from memattn.training.trainer import train

pytestmark = pytest.mark.slow

ENGLISH = """
i you he she we they teacher student doctor child | now today tomorrow sometimes often always
eat buy see like need want sell find | rice fish bread fruit water tea books flowers paper apples vegetables meat
| at-home at-school in-the-park at-the-market in-the-city at-the-station
"""
# Thai words for those of ENGLISH, in the same order; then templates of a statement and of a question.
THAI = """
ฉัน คุณ เขา เธอ พวกเรา พวกเขา ครู นักเรียน หมอ เด็ก | ตอนนี้ วันนี้ พรุ่งนี้ บางครั้ง บ่อยๆ เสมอ
กิน ซื้อ ดู ชอบ ต้องการ อยากได้ ขาย พบ | ข้าว ปลา ขนมปัง ผลไม้ น้ำ ชา หนังสือ ดอกไม้ กระดาษ แอปเปิล ผัก เนื้อ
| ที่บ้าน ที่โรงเรียน ในสวน ที่ตลาด ในเมือง ที่สถานี
"""
TEMPLATES = ["{s}{v}{o}{p}{t}", "{t} {s}{v}{o}{p}ไหม"]
SIZES = (10, 6, 8, 12, 6)  # numbers of subjects, times, verbs, objects, places


def words(table):
    """Lists of the words of a table: subjects, times, verbs, objects, places."""
    flat = iter(table.replace("|", " ").split())
    kinds = [list(itertools.islice(flat, size)) for size in SIZES]
    assert all(len(set(kind)) == size for kind, size in zip(kinds, SIZES, strict=True))
    return kinds


def write_pairs(folder, sizes):
    """Writes files of distinct pairs of sentences; returns the paths of each split."""
    draw, earlier, splits = random.Random("th"), set(), {}
    english, thai = words(ENGLISH), words(THAI)
    for split, number in sizes.items():
        sides = ([], [])
        while len(sides[0]) < number:
            drawn = (*(draw.randrange(size) for size in SIZES), draw.random() < 0.3)
            if drawn in earlier:
                continue
            earlier.add(drawn)
            s, t, v, o, p = (kind[i] for kind, i in zip(english, drawn, strict=False))
            place = p.replace("-", " ")
            sides[0].append(f"{t}, do {s} {v} {o} {place}?" if drawn[-1] else f"{s} {v} {o} {place} {t}.")
            s, t, v, o, p = (kind[i] for kind, i in zip(thai, drawn, strict=False))
            sides[1].append(TEMPLATES[drawn[-1]].format(s=s, t=t, v=v, o=o, p=p))
        splits[split] = tuple(str(folder / f"{split}.{end}") for end in ("en", "th"))
        for path, lines in zip(splits[split], sides, strict=True):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
    return splits


def printed(folder, *options):
    """Returns the output of the command of sacreBLEU for the files of an evaluation."""
    files = [folder / f"{name}.txt" for name in ("references", "hypotheses")]
    command = ["-m", "sacrebleu", files[0], "-i", files[1], "-b", "-w", "12", *options]
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=True)
    return result.stdout.strip()


@pytest.mark.long
def test_thai_is_learned_and_scored(tmp_path):
    splits = write_pairs(tmp_path, {"train": 1000, "valid": 60})
    settings = Settings(TextSettings("untokenized", "en", "th"), bpe_units=200)
    parallel.prepare(splits, settings, str(tmp_path / "data"), 1)  # a warning would fail the test
    tree = {
        "data": {"folder": str(tmp_path / "data"), "num_buckets": 1},
        "model": {"layers": 1, "units": 64, "embedding_size": 64, "dropout": 0.0, "init_scale": 0.1},
        "training": {
            "batch_size": 32,
            "learning_rate": 0.004,
            "max_steps": 300,
            "validate_every": 150,
            "checkpoint_every": 300,
            "jit_compile": False,
        },
        "decoding": {"beam_size": 2, "batch_size": 60, "jit_compile": False},
    }
    tree["model"]["attention"] = {"name": "bahdanau"}
    run_dir = tmp_path / "run"
    assert train(configs.checked(tree, configs.Origin("test")), str(run_dir), tf.distribute.get_strategy()) == 0
    with open(run_dir / "validation.csv", encoding="utf-8") as file:
        curve = [float(row["bleu"]) for row in csv.DictReader(file)]
    assert len(curve) == 2
    assert min(curve) > 0
    assert curve[-1] > curve[0] + 5

    result = evaluate(run_dir)
    assert "|tok:char|" in result["bleu_signature"]
    assert printed(run_dir / "eval/valid", "--tokenize", "char", "--smooth-method", "none") == f"{result['bleu']:.12f}"
    assert printed(run_dir / "eval/valid", "-l", "en-th") == f"{result['sacrebleu']:.12f}"
    assert printed(run_dir / "eval/valid", "-l", "en-th", "-m", "chrf") == f"{result['chrf']:.12f}"
    assert json.loads((run_dir / "eval/valid/result.json").read_text("utf-8"))["chrf"] == result["chrf"] > 25
    assert read_lines(str(run_dir / "eval/valid/references.txt")) == read_lines(splits["valid"][1])

    trained = load([str(run_dir)], [], None)
    source = read_lines(splits["valid"][0])[0]
    (line,) = from_trained(trained, n_best=1, alignment="hard")([source], 1)
    aligned = [int(pair.split("-")[1]) for pair in line.split("\t")[1].split(" ")]
    assert aligned == list(range(len(aligned)))
    assert len(aligned) >= 5
    free()
