"""Which calmix this is: the only place that says so."""

__version__ = "0.2.0"
