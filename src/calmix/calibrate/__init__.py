"""Calibration after training: one number that makes predictions less or more sure."""

from calmix.calibrate.temperature import Order, Temperature, fit_temperature

__all__ = ["Order", "Temperature", "fit_temperature"]
