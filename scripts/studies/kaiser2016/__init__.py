"""Studies after Kaiser & Sutskever (2016) and Kaiser & Bengio (2016): active memory compared with attention."""
