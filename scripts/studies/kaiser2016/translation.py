"""Compares active memory with attention in translation (Kaiser & Bengio, 2016)."""

from memattn.sweeps.results import SweepRun
from studies import plots
from studies.kaiser2016.names import model_name, style
from studies.lengths import bleu_by_length
from studies.output import Output


def translation(output: Output, runs: list[SweepRun]) -> None:
    """Writes perplexity and BLEU of active memory and of attention, and BLEU by the length of the source."""
    rows = []
    for run in runs:
        by_length = {lengths: bleu for (lengths, _), bleu in bleu_by_length([run]).items()}
        rows.append(
            {
                "model": model_name(run),
                "parameters": f"{run.result.parameters:,}",
                "training steps": run.validations[-1]["step"],
                "training minutes": f"{float(run.validations[-1]['seconds']) / 60:.0f}",
                "perplexity": f"{run.result.scores['perplexity']:.2f}",
                "test BLEU": f"{run.result.scores['bleu']:.2f}",
                **{f"BLEU, {lengths} tokens": f"{bleu:.2f}" for lengths, bleu in by_length.items()},
            }
        )
    output.table(rows, "Multi30k English to German: active memory and attention")
    output.pictures("bleu_by_length", lambda path: draw(path, rows, f"BLEU by the length of the source{output.label}"))


def draw(path: str, rows: list[dict[str, str]], title: str) -> None:
    """Draws the columns "BLEU, X tokens" of the table."""
    lengths = {column: column.removeprefix("BLEU, ") for column in rows[0] if column.startswith("BLEU, ")}
    bleu = [[float(row[column]) for column in lengths] for row in rows]
    models = dict(zip((style(row["model"]) for row in rows), bleu, strict=True))
    plots.bars(path, list(lengths.values()), models, title=title, x="length of the source", y="BLEU")
