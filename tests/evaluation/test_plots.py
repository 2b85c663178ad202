"""Pictures show the right values for any token and length, and name models in words and colours."""

import itertools
import os

import numpy as np
import pytest
from benchmarks import tables as benchmark_tables
from matplotlib import image
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from studies import plots as study_plots

from memattn.attention import MECHANISMS
from memattn.evaluation import evaluate, plots, styles
from memattn.evaluation.plots import Alignment


def scores(source, target, num_slots, seed=0):
    """Returns random alignments [target, source] and the parts of slots in them [slot, target, source]."""
    random = np.random.default_rng(seed)
    slots = random.random((num_slots, target, source))
    return (slots.sum(0) if num_slots else random.random((target, source))), slots


def line(name, points):
    return plots.Line(name, {"name": "none"}, points)


@pytest.fixture
def figure(monkeypatch):
    """figure() returns the figure that was to be saved last; none is."""
    figures = []
    for module in (plots, study_plots):
        monkeypatch.setattr(module, "save", lambda figure, path: figures.append(figure))
    return lambda: figures[-1]


def axes_of(figure, title):
    return next(axes for axes in figure.findobj(Axes) if axes.get_title() == title)


@pytest.mark.parametrize(("num_slots", "length"), [(5, 50), (0, 1)])
def test_alignments_of_any_size_and_of_odd_tokens_can_be_drawn(tmp_path, num_slots, length):
    tokens = [*"$_^%{Ł\x01…", "$_$", "a$b_{$", "\\frac", "<s>", "中文"]
    tokens = (tokens * length)[:length]
    figure = plots.alignment_figure(Alignment(tokens, tokens, *scores(length, length, num_slots)))
    plots.save(figure, str(tmp_path / "alignments.png"))
    pixels = image.imread(tmp_path / "alignments.png")
    height, width = pixels.shape[:2]
    assert 300 <= height <= 3000
    assert 300 <= width <= 6000
    assert (pixels[..., :3].min(-1) < 0.95).mean() > 0.01  # not blank
    axes = axes_of(figure, "all slots: $\\beta \\cdot \\alpha$" if num_slots else "attention")
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [label.get_text() for label in labels] == (tokens[::2] if length > 40 else tokens)
        assert not any(label.get_parse_math() for label in labels)
    assert plt.get_fignums() == []


def test_negative_weights_are_red():
    combined = np.array([[0.5, -0.5, 0.0]])
    figure = plots.alignment_figure(Alignment(list("abc"), ["x"], combined, np.zeros((0, 1, 3))))
    (image,) = axes_of(figure, "attention").images
    (blue, red, white) = image.to_rgba(combined)[0][:, :3]
    assert blue[2] > 2 * blue[0]
    assert red[0] > 2 * red[2]
    assert white.min() > 0.95


def test_sources_run_downwards_and_targets_to_the_right():
    combined, slots = scores(5, 3, 2)
    figure = plots.alignment_figure(Alignment(list("abcde"), list("xyz"), combined, slots))
    for k in range(2):
        np.testing.assert_array_equal(axes_of(figure, f"slot {k + 1}").images[0].get_array(), slots[k].T)
    axes = axes_of(figure, "all slots: $\\beta \\cdot \\alpha$")
    np.testing.assert_array_equal(axes.images[0].get_array(), combined.T)
    assert [label.get_text() for label in axes.get_xticklabels()] == list("xyz")
    assert [label.get_text() for label in axes.get_yticklabels()] == list("abcde")
    assert axes.images[0].origin == "upper"


def test_slots_are_drawn_in_the_order_of_their_positions():
    slots = np.zeros((4, 5, 5))
    for slot, position in enumerate([3, 0, 4, 1]):
        slots[slot, :, position] = 1
    slots[3] *= 0.01  # carries too little to be drawn
    figure = plots.alignment_figure(Alignment(list("abcde"), list("vwxyz"), slots.sum(0), slots))
    titles = [axes.get_title() for axes in figure.findobj(Axes)]
    assert [title for title in titles if title.startswith("slot ")] == ["slot 2", "slot 1", "slot 3"]


def test_learning_curves_show_mean_and_range_over_seeds(figure):
    points = {"memory": {100: (10.0, 8.0, 12.0), 200: (55.5, 50.5, 60.5)}, "none": {100: (3.0, 3.0, 3.0)}, "empty": {}}
    curves = [line(name, points_of_line) for name, points_of_line in points.items()]
    means = {"memory": [(100, 10.0), (200, 55.5)], "none": [(100, 3.0)], "empty": []}
    plots.learning_curves("curves.png", curves, "one quarter scale")
    (axes,) = figure().axes
    assert {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines} == means
    heights = {height for _, height in axes.collections[0].get_paths()[0].vertices}
    assert heights == {8.0, 12.0, 50.5, 60.5}
    assert [text.get_text() for text in figure().legends[0].get_texts()] == list(points)
    assert axes.get_title() == "one quarter scale"
    assert axes.get_ylabel() == "validation BLEU, mean and range over seeds"
    low, high = axes.get_ylim()
    assert low <= 0
    assert 60.5 < high <= 102


@pytest.mark.parametrize(("length", "number"), [(200, 4), (20, 30)])
def test_names_leave_room_for_the_curves_and_are_not_cut_off(figure, length, number):
    curves = [line(f"{i:0{length}d}", {1: (i, i, i)}) for i in range(number)]
    plots.learning_curves("a.png", curves, "t" * 120)
    FigureCanvasAgg(figure()).draw()
    (axes,), (legend,) = figure().axes, figure().legends
    assert axes.get_position().width > 0.55
    assert axes.get_window_extent().height > 250
    picture = figure().bbox
    for box in (legend.get_window_extent(), axes.title.get_window_extent()):
        assert picture.x0 <= box.x0 < box.x1 <= picture.x1
        assert picture.y0 <= box.y0 < box.y1 <= picture.y1
        assert not box.overlaps(axes.get_window_extent())
    assert not legend.get_window_extent().overlaps(axes.title.get_window_extent())


def test_only_pictures_of_an_earlier_evaluation_are_removed(tmp_path):
    (tmp_path / "alignments").mkdir()
    for name in ("3.png", "17.png", "unrelated.png", "17.txt"):
        (tmp_path / "alignments" / name).touch()
    evaluate._remove_results(str(tmp_path))
    assert sorted(os.listdir(tmp_path / "alignments")) == ["17.txt", "unrelated.png"]


def test_lines_of_times_are_labelled_at_their_ends(figure):
    ends = {"memory": 2.1, "none": 2.1, "bahdanau": 90.0}
    lines = [line(name, {20: (2.0, 1.9, 2.2), 2000: (end, end, end)}) for name, end in ends.items()]
    for scale, lowest in (("linear", 0), ("log", 1)):
        benchmark_tables.draw("times.png", lines, title="a step", x="tokens", y="seconds", scale=scale)
        (axes,) = figure().axes
        heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
        assert list(heights) == ["memory", "none", "bahdanau"]
        assert heights["none"] - heights["memory"] == pytest.approx(0.07)
        to_axes = axes.transData + axes.transAxes.inverted()
        assert heights["bahdanau"] == pytest.approx(to_axes.transform((2000, 90))[1])
        *_, leader = (leader for leader in axes.lines if leader.get_transform() == axes.transAxes)
        assert leader.get_ydata() == pytest.approx([heights["bahdanau"]] * 2)
        assert (axes.get_xscale(), axes.get_yscale()) == (scale, scale)
        assert lowest <= axes.get_ylim()[0] < 2


def test_a_picture_has_the_same_bytes_each_time():
    def picture():
        figure = Figure(figsize=(2, 2))
        plots.draw_lines(figure.subplots(), [line("a", {1: (2, 1, 3)})])
        return plots.rendered(figure, "svg")

    assert picture() == picture()


def test_every_mechanism_has_words_and_a_colour_of_its_own():
    assert set(MECHANISMS) <= set(styles.STYLES)
    for first, second in itertools.combinations(styles.STYLES.values(), 2):
        assert first.words != second.words
        assert first.colour != second.colour


@pytest.mark.parametrize(
    ("attention", "words"),
    [
        ({"name": "memory", "num_slots": 4, "position_encoding": True}, "memory, K = 4, position encodings"),
        ({"name": "windowed_memory", "num_slots": 2, "read": "address"}, "windowed memory, K = 2, read by address"),
        ({"name": "neural_gpu"}, "Neural GPU"),
        ({"name": "somewhere:MyAttention", "num_slots": None}, "MyAttention"),
    ],
)
def test_models_are_named_in_words(attention, words):
    assert styles.words(attention) == words


def test_different_mechanisms_have_their_colours_whatever_else_is_drawn():
    names = ["bahdanau", "memory", "luong"]
    lines = styles.line_styles([{"name": name} for name in names])
    assert [colour for colour, _ in lines] == [styles.STYLES[name].colour for name in names]
    assert len({dash for _, dash in lines}) == 3
    outside = styles.line_styles([{"name": name} for name in ("here:MyAttention", "there:MyAttention", "memory")])
    assert len({colour for colour, _ in outside}) == 3


@pytest.mark.parametrize("number", [2, 14])
def test_many_lines_of_one_mechanism_differ_from_each_other(number):
    lines = styles.line_styles([{"name": "windowed_memory", "num_slots": 16}] * (number - 1) + [{"name": "none"}])
    assert len(set(lines)) == number
    for (colour, dash), (other_colour, other_dash) in itertools.combinations(lines, 2):
        distance = sum(abs(a - b) for a, b in zip(*map(bytes.fromhex, (colour[1:], other_colour[1:])), strict=True))
        assert distance > 100 or (distance == 0 and dash != other_dash)
