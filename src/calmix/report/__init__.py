"""Figures, tables and pages. They draw what they are given and read no file."""
