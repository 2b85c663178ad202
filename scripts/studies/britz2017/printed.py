"""Holds the results printed in the paper."""

# Britz, Guan & Luong (2017), Table 1: length -> BLEU, and seconds to decode 1,000 examples, presumably on the GPU of
# training (Nvidia K40m), in the order of TABLE_1_MODELS.
TABLE_1_MODELS = ("none", "K=1", "K=4", "K=16", "K=32", "K=64", "bahdanau")
TABLE_1_BLEU = {
    20: (99.93, 99.52, 99.56, 99.56, 99.57, 99.75, 99.98),
    50: (97.37, 98.86, 99.95, 99.96, 99.96, 99.97, 99.94),
    100: (73.99, 87.42, 99.81, 99.97, 99.99, 100.00, 100.00),
    200: (32.64, 44.22, 98.54, 99.98, 100.00, 100.00, 100.00),
}
TABLE_1_SECONDS = {
    20: (2.03, 2.12, 2.25, 2.21, 2.59, 2.86, 2.86),
    50: (3.90, 4.33, 4.48, 4.58, 5.35, 5.84, 6.46),
    100: (6.33, 7.32, 7.47, 7.50, 7.65, 7.77, 11.00),
    200: (9.10, 9.30, 9.49, 9.53, 9.59, 9.78, 14.28),
}

# Table 2: model -> BLEU by pair, of the best of the four scorings on the validation set; en-tr has no test BLEU.
TABLE_2_PAIRS = ("en-cs", "en-de", "en-fi", "en-tr")
TABLE_2_VALID = {
    "K=32": (19.20, 26.20, 15.90, 12.94),
    "K=64": (19.63, 26.39, 16.35, 13.06),
    "K=32 + PE": (19.35, 26.22, 16.31, 12.97),
    "K=64 + PE": (19.73, 27.31, 16.91, 13.25),
    "bahdanau": (18.61, 28.13, 17.16, 13.76),
}
TABLE_2_TEST = {
    "K=32": (19.37, 28.82, 15.87, None),
    "K=64": (19.65, 29.53, 16.49, None),
    "K=32 + PE": (19.45, 29.53, 15.86, None),
    "K=64 + PE": (20.36, 30.61, 17.03, None),
    "bahdanau": (19.19, 30.99, 17.34, None),
}

# Table 3: seconds to decode the 2,169 sentences of newstest2015, en-de, on an unnamed GPU; mean of 10 runs.
TABLE_3_SECONDS = {"K=32": 26.85, "K=64": 27.13, "bahdanau": 33.28}
