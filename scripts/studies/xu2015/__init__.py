"""Xu et al. (2015): hard attention."""
