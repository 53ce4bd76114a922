"""Calmix inside other frameworks, and its numbers in their logs. Each is imported when it is used."""
