"""Britz, Guan & Luong (2017): its tables, figures and open questions."""
