"""Tables and figures of papers and of other questions, made from finished runs."""
