"""The paper: its tables, figures, claims and numbers, made from finished runs."""
