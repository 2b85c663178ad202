"""Raffel et al. (2017) and Chiu & Raffel (2018): monotonic attention in speech recognition."""
