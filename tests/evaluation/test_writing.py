"""The files of an evaluation."""

import os

from helpers.files import lines_of
from helpers.runs import NO_STRATEGY, evaluate

from memattn.runs.run import ALIGNMENTS, HYPOTHESES, N_BEST
from memattn.training.trainer import train


def test_the_n_best_are_numbered_by_source_and_the_longest_sources_are_drawn(tiny_config, tmp_path):
    run = tmp_path / "run"
    assert train(tiny_config({"training.max_steps": 1}), str(run), NO_STRATEGY) == 0
    evaluate(run, "decoding.n_best=2", plots=2)
    results = run / "eval/valid"
    sources, best = lines_of(tmp_path / "data" / "valid.source"), lines_of(results / HYPOTHESES)
    rows = [line.split("\t") for line in lines_of(results / N_BEST)]
    assert [int(number) for number, _, _ in rows] == [i for i in range(len(sources)) for _ in range(2)]
    assert [text for _, _, text in rows[::2]] == best
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert float(first[1]) >= float(second[1])

    lengths = [len(source.split()) for source in sources]
    longest = sorted(range(len(sources)), key=lambda i: -lengths[i])
    drawn = [i for i in longest if best[i]][:2]
    assert sorted(drawn) not in ([], [0, 1])
    assert len(drawn) == 2
    assert lengths[drawn[-1]] > min(lengths)
    assert sorted(os.listdir(results / ALIGNMENTS)) == sorted(f"{i}.png" for i in drawn)
