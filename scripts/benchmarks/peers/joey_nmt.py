"""Worker: Joey NMT's recurrent model and beam search. The library has no model without attention."""

import logging
from types import SimpleNamespace

import joeynmt
import torch
import worker
from joeynmt.helpers import set_seed
from joeynmt.model import build_model
from joeynmt.search import beam_search
from joeynmt.vocabulary import Vocabulary

work = worker.options()
torch.set_num_threads(work.threads)
logging.disable(logging.WARNING)
set_seed(0)
UNKNOWN, BLANK, START, END = range(4)
specials = SimpleNamespace(
    unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
    unk_id=UNKNOWN, pad_id=BLANK, bos_id=START, eos_id=END, sep_id=None,
)  # fmt: skip
vocabulary = Vocabulary([f"w{i}" for i in range(work.vocabulary - 4)], specials)
side = {
    "type": "recurrent",
    "rnn_type": "lstm",
    "hidden_size": work.units,
    "num_layers": 2,
    "dropout": 0.0,
    "embeddings": {"embedding_dim": work.units, "scale": False, "dropout": 0.0},
}
decoder = {**side, "attention": "bahdanau", "init_hidden": "bridge", "input_feeding": True, "hidden_dropout": 0.0}
initial = {"initializer": "xavier_uniform", "init_gain": 1.0, "bias_initializer": "zeros"}
settings = {**initial, "embed_initializer": "normal", "encoder": {**side, "bidirectional": True}, "decoder": decoder}
model = build_model(settings, vocabulary, vocabulary)
versions = {"joeynmt": joeynmt.__version__, "torch": torch.__version__}

if work.task == "decode":
    model.eval()

    @torch.no_grad()
    def decode(ids, lengths):
        source = torch.from_numpy(ids)
        source = torch.where(source == worker.PAD, torch.full_like(source, BLANK), source)
        mask = (source != BLANK).unsqueeze(1)
        states, final, _, _ = model(
            return_type="encode", src=source, src_length=torch.from_numpy(lengths), src_mask=mask
        )
        hypotheses, _, _ = beam_search(
            model=model,
            beam_size=work.beam,
            encoder_output=states,
            encoder_hidden=final,
            src_mask=mask,
            max_output_length=work.length,
            min_output_length=work.length,
            alpha=1.0,
            n_best=1,
        )
        return hypotheses

    worker.serve_decoding(work, versions, "the library's beam_search as it is", decode, END)
else:
    model.train()
    model.loss_function = ("crossentropy", 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    source, target = (torch.from_numpy(side) for side in worker.training_batch(work))
    shifted = torch.cat([torch.full((work.batch, 1), START), target[:, :-1]], 1)
    lengths = torch.full((work.batch,), work.length)
    masks = [(side != BLANK).unsqueeze(1) for side in (source, target)]

    def step():
        optimizer.zero_grad()
        loss, _, _, _ = model(
            return_type="loss",
            src=source,
            src_length=lengths,
            src_mask=masks[0],
            trg_input=shifted,
            trg=target,
            trg_mask=masks[1],
        )
        loss = loss / target.numel()
        loss.backward()
        optimizer.step()
        return loss.item()

    worker.serve_training(work, versions, "", step)
