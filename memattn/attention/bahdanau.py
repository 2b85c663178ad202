"""Bahdanau et al. (2015): additive attention, v . tanh(W_q h + b + W_k s), softmax over the source."""

from memattn.attention.base import AttentionMechanism, additive_energies, masked_softmax, whole


class BahdanauAttention(AttentionMechanism):
    """Content attention of Eqs. 1 and 2 with the additive score.

    Args:
      units: width U of keys, projected queries and v.
      cache_keys: project the encoder states once per source; False projects them in every decoder step, as
        google/seq2seq did in 2017.
      initializer: name or config, of the weight matrices and v.
    """

    def __init__(self, *, units: int, cache_keys: bool = True, initializer: str | dict = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.units, self.cache_keys = whole("units", units), cache_keys
        self.initializer = initializer
        self.query_layer = self._projection(self.units, "query", use_bias=True)
        self.key_layer = self._projection(self.units, "key")
        self.v = self.add_weight(shape=(self.units,), initializer=initializer, name="v")

    def memorize(self, states, mask):
        memory = {"values": states, "mask": mask}
        return {**memory, "keys": self.key_layer(states)} if self.cache_keys else memory

    def score(self, query, memory, state=(), seed=None):
        keys = memory["keys"] if self.cache_keys else self.key_layer(memory["values"])  # [B, S, U]
        energies = additive_energies(self.query_layer(query), keys, self.v)  # [B, Q, S]
        return masked_softmax(energies, memory["mask"][:, None]), state

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cache_keys": self.cache_keys,
            "initializer": self.initializer,
        }
