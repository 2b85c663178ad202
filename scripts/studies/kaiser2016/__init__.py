"""Kaiser & Sutskever (2016) and Kaiser & Bengio (2016): active memory beside attention."""
