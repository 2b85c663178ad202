"""The paper's tables and figures, made from finished runs."""
