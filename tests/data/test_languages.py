"""Models of languages with few or no blanks are trained, and scored as by the command of sacreBLEU."""

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
from memattn.data.preparation import prepare
from memattn.data.preparation.prepare import Settings
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
# For each language: words for those of ENGLISH, in the same order; then templates of a statement and of a question.
LANGUAGES = {
    "zh": (
        """我 你 他 她 我们 他们 老师 学生 医生 孩子 | 现在 今天 明天 有时候 常常 总是
        吃 买 看 喜欢 需要 想要 卖 找到 | 米饭 鱼 面包 水果 水 茶 书 花 纸 苹果 蔬菜 肉
        | 在家 在学校 在公园 在市场 在城里 在车站""",
        ["{s}{t}{p}{v}{o}。", "{t}，{s}{p}{v}{o}吗？"],
    ),
    "ja": (
        """私 あなた 彼 彼女 私たち 彼ら 先生 学生 医者 子供 | 今 今日 明日 時々 よく いつも
        食べます 買います 見ます 好みます 要します 望みます 売ります 見つけます
        | ご飯 魚 パン 果物 水 お茶 本 花 紙 りんご 野菜 肉 | 家で 学校で 公園で 市場で 町で 駅で""",
        ["{s}は{t}{p}{o}を{v}。", "{t}、{s}は{p}{o}を{v}か？"],
    ),
    "ko": (
        """저는 당신은 그는 그녀는 우리는 그들은 선생님은 학생은 의사는 아이는 | 지금 오늘 내일 가끔 자주 항상
        먹습니다 삽니다 봅니다 좋아합니다 필요합니다 원합니다 팝니다 찾습니다
        | 밥을 생선을 빵을 과일을 물을 차를 책을 꽃을 종이를 사과를 채소를 고기를
        | 집에서 학교에서 공원에서 시장에서 도시에서 역에서""",
        ["{s} {t} {p} {o} {v}.", "{t}, {s} {p} {o} {v}까?"],
    ),
    "th": (
        """ฉัน คุณ เขา เธอ พวกเรา พวกเขา ครู นักเรียน หมอ เด็ก | ตอนนี้ วันนี้ พรุ่งนี้ บางครั้ง บ่อยๆ เสมอ
        กิน ซื้อ ดู ชอบ ต้องการ อยากได้ ขาย พบ | ข้าว ปลา ขนมปัง ผลไม้ น้ำ ชา หนังสือ ดอกไม้ กระดาษ แอปเปิล ผัก เนื้อ
        | ที่บ้าน ที่โรงเรียน ในสวน ที่ตลาด ในเมือง ที่สถานี""",
        ["{s}{v}{o}{p}{t}", "{t} {s}{v}{o}{p}ไหม"],
    ),
}
SIZES = (10, 6, 8, 12, 6)  # numbers of subjects, times, verbs, objects, places
FORMS = {"th": "untokenized"}


def words(table):
    """Lists of the words of a table: subjects, times, verbs, objects, places."""
    flat = iter(table.replace("|", " ").split())
    kinds = [list(itertools.islice(flat, size)) for size in SIZES]
    assert all(len(set(kind)) == size for kind, size in zip(kinds, SIZES, strict=True))
    return kinds


def write_pairs(folder, language, sizes):
    """Writes files of distinct pairs of sentences; returns the paths of each split."""
    draw, earlier, splits = random.Random(language), set(), {}
    table, templates = LANGUAGES[language]
    english, foreign = words(ENGLISH), words(table)
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
            s, t, v, o, p = (kind[i] for kind, i in zip(foreign, drawn, strict=False))
            sides[1].append(templates[drawn[-1]].format(s=s, t=t, v=v, o=o, p=p))
        splits[split] = tuple(str(folder / f"{split}.{end}") for end in ("en", language))
        for path, lines in zip(splits[split], sides, strict=True):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
    return splits


def printed(folder, *options):
    """Returns the output of the command of sacreBLEU for the detokenized files of an evaluation."""
    files = [folder / f"{name}.txt" for name in ("references", "hypotheses")]
    if (folder / "hypotheses.detokenized.txt").exists() and "char" not in options:
        files = [folder / f"{name}.detokenized.txt" for name in ("references", "hypotheses")]
    command = ["-m", "sacrebleu", files[0], "-i", files[1], "-b", "-w", "12", *options]
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=True)
    return result.stdout.strip()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_is_learned_and_scored(tmp_path, language):
    splits = write_pairs(tmp_path, language, {"train": 1000, "valid": 60})
    form = FORMS.get(language, "raw")
    settings = Settings(TextSettings(form, "en", language), bpe_units=200)
    prepare.prepare(splits, settings, str(tmp_path / "data"), 1)  # a warning would fail the test
    tree = {
        "data": {"folder": str(tmp_path / "data"), "num_buckets": 1},
        "model": {"layers": 1, "units": 64, "embedding_size": 64, "dropout": 0.0, "init_scale": 0.1},
        "training": {
            "batch_size": 32,
            "learning_rate": 0.004,
            "max_steps": 400,
            "validate_every": 100,
            "checkpoint_every": 400,
            "jit_compile": False,
        },
        "decoding": {"beam_size": 2, "batch_size": 60, "jit_compile": False},
    }
    tree["model"]["attention"] = {"name": "bahdanau"}
    run_dir = tmp_path / "run"
    assert train(configs.checked(tree, configs.Origin("test")), str(run_dir), tf.distribute.get_strategy()) == 0
    with open(run_dir / "validation.csv", encoding="utf-8") as file:
        curve = [float(row["bleu"]) for row in csv.DictReader(file)]
    assert len(curve) == 4
    assert min(curve) > 0 or language == "ko"  # sentences of Korean have few and long words
    assert curve[-1] > curve[0] + 5

    result = evaluate(run_dir)
    if language != "ko":
        assert "|tok:char|" in result["bleu_signature"]
        assert printed(run_dir, "--tokenize", "char", "--smooth-method", "none") == f"{result['bleu']:.12f}"
    assert printed(run_dir, "-l", f"en-{language}") == f"{result['sacrebleu']:.12f}"
    assert printed(run_dir, "-l", f"en-{language}", "-m", "chrf") == f"{result['chrf']:.12f}"
    assert json.loads((run_dir / "result.json").read_text("utf-8"))["chrf"] == result["chrf"] > 25
    references = "references.txt" if language == "th" else "references.detokenized.txt"
    assert read_lines(str(run_dir / references)) == read_lines(splits["valid"][1])

    trained = load([str(run_dir)], [], None)
    source = read_lines(splits["valid"][0])[0]
    (line,) = from_trained(trained, n_best=1, alignment="hard")([source], 1)
    aligned = [int(pair.split("-")[1]) for pair in line.split("\t")[1].split(" ")]
    assert aligned == list(range(len(aligned)))
    assert len(aligned) >= 5
    free()
