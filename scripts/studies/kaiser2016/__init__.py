"""Kaiser & Bengio (2016): active memory beside attention."""
