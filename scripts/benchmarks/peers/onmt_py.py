"""Worker: OpenNMT-py's RNN model and Translator. Its encoder must be as wide as its decoder: half per direction.

The worker decodes only.
"""

import numpy as np
import onmt
import torch
import worker
from onmt.inputters.inputter import dict_to_vocabs
from onmt.model_builder import build_base_model
from onmt.opts import train_opts
from onmt.translate import GNMTGlobalScorer, Translator
from onmt.utils.parse import ArgumentParser

work = worker.options()
torch.set_num_threads(work.threads)
torch.manual_seed(0)
symbols = [f"w{i}" for i in range(work.vocabulary - 4)]
tokens = ["<unk>", "<blank>", "<s>", "</s>", *symbols]
vocabularies = dict_to_vocabs({"data_task": "seq2seq", "src": tokens, "tgt": tokens})
BLANK, END = 1, 3
parser = ArgumentParser()
train_opts(parser)
settings, _ = parser.parse_known_args(
    f"-data x -src_vocab x -encoder_type brnn -decoder_type rnn -rnn_type LSTM -layers 2 -hidden_size {work.units} "
    f"-word_vec_size {work.units} -input_feed 1 -dropout 0.0 -global_attention mlp".split()
)
settings.brnn, settings.model_task = True, "seq2seq"
settings.layers = settings.enc_layers = settings.dec_layers = 2
settings.enc_hid_size = settings.dec_hid_size = work.units
settings.src_word_vec_size = settings.tgt_word_vec_size = work.units
model = build_base_model(settings, vocabularies)
for parameter in model.parameters():
    parameter.data.uniform_(-0.1, 0.1)
versions = {"OpenNMT-py": onmt.__version__, "torch": torch.__version__}
notes = "encoder of half the units a direction, memory as wide as the decoder: the library allows no other"

model.eval()
translator = Translator(
    model,
    vocabularies,
    n_best=1,
    min_length=work.length,
    max_length=work.length,
    max_length_ratio=0,
    beam_size=work.beam,
    dump_beam="",
    global_scorer=GNMTGlobalScorer(1.0, 0.0, "avg", "none"),
    report_score=False,
)


def decode(ids, lengths):
    source = torch.from_numpy(np.where(ids == worker.PAD, BLANK, ids)).unsqueeze(-1)
    result = translator.translate_batch({"src": source, "srclen": torch.from_numpy(lengths)}, False)
    return np.stack([best[0].numpy() for best in result["predictions"]])


worker.serve_decoding(work, versions, notes, decode, END)
