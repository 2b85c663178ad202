"""The paper's tables and figures, made of finished runs."""
